/** Playbooks to be interrupted: their results tell whether each step counted exactly once. */
import type { Json } from '../../machines/json.ts';

export interface Flow {
  readonly path: string;
  readonly text: string;
  /** What every run must end with. */
  readonly result: Json;
}

/** `steps` noops in a row; each adds one to a counter. */
export function chain(steps: number): Flow {
  const path = `e2e/chain-${steps}`;
  const bodies = Array.from({ length: steps }, (_, index) => {
    const next = index + 1 < steps ? `, next: { arcs: [{ step: s${index + 1} }] }` : '';
    const name = index === 0 ? 'start' : `s${index}`;
    const tool = index + 1 < steps ? '{ kind: noop }' : `{ kind: noop, result: { counted: "{{ ctx.n + 1 }}" } }`;
    return `  - { step: ${name}, tool: ${tool}, set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }${next} }`;
  });
  return { path, text: document(path, bodies.join('\n')), result: { counted: steps } };
}

/** `branches` at the same time with a sleeping shell step each, joined by one step that adds up. */
export function fanOut(branches: number): Flow {
  const path = `e2e/fan-out-${branches}`;
  const names = Array.from({ length: branches }, (_, index) => `b${index}`);
  const arcs = names.map((name) => `{ step: ${name} }`).join(', ');
  const sum = names.map((name) => `${name}.part`).join(' + ');
  const bodies = [
    `  - { step: start, tool: { kind: noop }, next: { spec: { mode: inclusive }, arcs: [${arcs}] } }`,
    ...names.flatMap((name, index) => [
      `  - { step: ${name}, tool: { kind: python, code: "import time\\ntime.sleep(0.05)\\nresult = {'part': ${index}}" }, next: { arcs: [{ step: joined }] } }`,
    ]),
    `  - { step: joined, tool: { kind: noop, result: { sum: "{{ ${sum} }}" } } }`,
  ];
  return { path, text: document(path, bodies.join('\n')), result: { sum: (branches * (branches - 1)) / 2 } };
}

/** A parallel loop of python commands that take `seconds` each, and the sum of their squares. */
export function loop(items: number, seconds: number, atOnce = 4): Flow {
  const path = `e2e/loop-${items}`;
  const body = `  - step: start
    loop: { in: ${items}, iterator: n, spec: { mode: parallel, max_in_flight: ${atOnce} } }
    tool:
      kind: python
      input: { n: "{{ iter.n }}" }
      code: |
        import time
        time.sleep(${seconds})
        result = {"square": n * n}
    next: { arcs: [{ step: summary, when: "{{ event.name == 'loop.done' }}" }] }
  - step: summary
    tool:
      kind: noop
      result: { rounds: "{{ start.stats.total }}", sum: "{{ start.results | map(attribute='square') | sum }}" }`;
  const squares = Array.from({ length: items }, (_, n) => n * n).reduce((sum, each) => sum + each, 0);
  return { path, text: document(path, body), result: { rounds: items, sum: squares } };
}

function document(path: string, workflow: string): string {
  return `apiVersion: callboard/v2
kind: Playbook
metadata: { name: ${path.slice(path.lastIndexOf('/') + 1)}, path: ${path} }
workflow:
${workflow}
`;
}
