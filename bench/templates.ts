/**
 * Microseconds per evaluation: our closures against nunjucks' compiled JavaScript for the same text, and what compiling
 * costs. Run it with `node bench/templates.ts`. nunjucks gives text where we give values, so it has the easier task.
 */
import nunjucks from 'nunjucks';
import { compileTemplate } from '../machines/playbook/template/compiled.ts';
import { renderText, renderValue } from '../machines/playbook/template/render.ts';

const ROUNDS = 5;
const WARM_UP = 2_000;

const workload = {
  a: { b: 5, host: 'db.example', path: 'v1' },
  n: 7,
  name: 'john-doe',
  tags: ['a', 'b', 'c', 'a'],
  rows: Array.from({ length: 20 }, (_none, index) => ({ id: `r${index}`, n: index, active: index % 2 === 0 })),
  filler: Array.from({ length: 1_000 }, (_none, index) => ({ key: `k${index}`, text: 'x'.repeat(50) })),
};
const data: { readonly [name: string]: unknown } = { workload, event: { name: 'call.done' } };
const scope = { lookup: (name: string) => (Object.hasOwn(data, name) ? data[name] : undefined) };

const SOURCES = [
  '{{ workload.a.b }}',
  'https://{{ workload.a.host }}/{{ workload.a.path }}/users/{{ workload.n }}?tag={{ workload.tags[0] }}',
  "{{ event.name == 'call.done' and workload.n > 3 }}",
  '{{ workload.n * 2 + 1 }}',
  '{{ workload.name | upper | replace("-", " ") }}',
  "{{ workload.missing | default('none') }}",
  "{{ workload.tags | join(',') }}",
  "{{ workload.rows | selectattr('active') | list | length }}",
  '{% for r in workload.rows %}{{ loop.index }}:{{ r.id }}{% if not loop.last %},{% endif %}{% endfor %}',
];

/** Median over a few rounds of the time of one call, in microseconds. */
function measure(call: () => unknown, calls: number): number {
  for (let index = 0; index < WARM_UP; index += 1) call();
  const times = Array.from({ length: ROUNDS }, () => {
    const start = performance.now();
    for (let index = 0; index < calls; index += 1) call();
    return ((performance.now() - start) * 1_000) / calls;
  });
  return times.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? Number.NaN;
}

function report(label: string, cells: readonly number[]): void {
  console.log(`${cells.map((cell) => cell.toFixed(3).padStart(10)).join('')}  ${label}`);
}

export function benchTemplates(): void {
  const environment = new nunjucks.Environment(null, { autoescape: false });
  console.log('     value      text  nunjucks   compile  nj.compile  (microseconds)');
  for (const source of SOURCES) {
    const template = compileTemplate(source);
    const rival = new nunjucks.Template(source, environment, undefined, true);
    report(source.length > 70 ? `${source.slice(0, 69)}…` : source, [
      measure(() => renderValue(template, scope), 50_000),
      measure(() => renderText(template, scope), 50_000),
      measure(() => rival.render(data), 20_000),
      measure(() => compileTemplate(source), 2_000),
      measure(() => new nunjucks.Template(source, environment, undefined, true), 200),
    ]);
  }
}

if (import.meta.main) benchTemplates();
