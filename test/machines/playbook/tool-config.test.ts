import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonMap } from '../../../machines/json.ts';
import type { Assignment, Rule, Task } from '../../../machines/playbook/document.ts';
import { parsePlaybook } from '../../../machines/playbook/parse.ts';
import { readTask, toToolConfig } from '../../../machines/playbook/tool-config.ts';
import { documentOf } from '../../support/playbooks.ts';
import { workflow } from './marked-text.ts';

function tasksOf(tool: string): readonly Task[] {
  const parsed = parsePlaybook(workflow(`  - step: a\n    tool: ${tool}\n`));
  if (!parsed.ok) throw new Error(parsed.errors.map((error) => error.message).join('\n'));
  return parsed.playbook.steps[0]?.tasks ?? [];
}

const name = fc.constantFrom('a', 'b', 'c', 'value');
// What JSON itself carries: no -0, no undefined.
const json = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)));
const literal = fc.oneof(fc.constant(null), fc.integer({ min: 1, max: 9 }), fc.constant('{{ x }}'));

function assignments(scopes: readonly Assignment['scope'][]): fc.Arbitrary<Assignment[]> {
  const one = fc.record({
    scope: fc.constantFrom(...scopes),
    path: fc.array(name, { minLength: 1, maxLength: 3 }),
    value: json,
  });
  return fc.uniqueArray(one, { maxLength: 3, selector: ({ scope, path }) => [scope, ...path].join('.') }).map((list) =>
    list.map((each) => ({
      ...each,
      key: (each.scope === 'local' ? each.path : [each.scope, ...each.path]).join('.'),
    })),
  );
}

const rule: fc.Arbitrary<Omit<Rule, 'index'>> = fc.record({
  when: fc.oneof(fc.constant(null), fc.boolean(), fc.constant('{{ output.status }}')),
  action: fc.constantFrom('continue', 'retry', 'jump', 'break', 'fail'),
  set: assignments(['ctx', 'iter']),
  to: fc.oneof(fc.constant(null), fc.constant('@previous'), name),
  attempts: literal,
  delay: literal,
  backoff: fc.constantFrom(null, 'linear'),
  maxDelay: literal,
  multiplier: fc.oneof(fc.constant(null), fc.integer({ min: 1, max: 5 })),
});

const task: fc.Arbitrary<Task> = fc.record({
  name,
  kind: fc.constantFrom('http', 'nats'),
  fields: fc.dictionary(
    fc.constantFrom('url', 'name', 'data', 'args', 'headers'),
    json.filter((value) => value !== null),
  ),
  input: fc.dictionary(name, json),
  set: assignments(['ctx', 'iter', 'local']),
  rules: fc.array(rule, { maxLength: 3 }).map((rules) => rules.map((each, index) => ({ ...each, index }))),
  onUnmatched: fc.constantFrom(null, 'fail', 'continue'),
  timeout: literal,
  output: fc.option(
    fc.record({
      select: fc.array(fc.record({ path: fc.constant('a.b'), as: fc.constant('b') }), { maxLength: 2 }),
      inlineMaxBytes: fc.constantFrom(null, 5),
      previewMaxBytes: fc.constantFrom(null, 6),
      store: fc.constantFrom(null, 'disk'),
    }),
  ),
});

describe('the wire form of a task', () => {
  it('is read back as the task it was made of', () => {
    fc.assert(
      fc.property(task, (each) => {
        const wire: JsonMap = JSON.parse(JSON.stringify(toToolConfig(each)));
        expect(readTask(wire, 'fallback')).toEqual(each);
      }),
    );
  });

  it('is flat and leaves out what is empty', () => {
    const [http] =
      tasksOf(`[{ name: fetch, kind: http, endpoint: u, timeout: 5, input: { a: 1 }, set: { b: "{{ output.c }}" },
      output: { select: [d.e] },
      spec: { policy: { on_unmatched: fail, rules: [{ when: x, then: { do: retry, attempts: 3 } }, { else: { do: continue, set: { e: 1 } } }] } } }]`);
    expect(http && toToolConfig(http)).toEqual({
      kind: 'http',
      name: 'fetch',
      url: 'u',
      input: { a: 1 },
      set: { b: '{{ output.c }}' },
      spec: {
        policy: {
          on_unmatched: 'fail',
          rules: [
            // biome-ignore lint/suspicious/noThenProperty: the language calls it so, and nothing awaits it.
            { when: 'x', then: { do: 'retry', attempts: 3 } },
            // biome-ignore lint/suspicious/noThenProperty: the language calls it so, and nothing awaits it.
            { else: { then: { do: 'continue', set: { 'ctx.e': 1 } } } },
          ],
        },
      },
      timeout: 5,
      output: { select: [{ path: 'd.e', as: 'e' }] },
    });
    const [noop] = tasksOf('{ kind: noop }');
    expect(noop && toToolConfig(noop)).toEqual({ kind: 'noop', name: 'a_task' });
  });

  it('keeps a label apart from the field name of the kind', () => {
    const [secret] = tasksOf('[{ label: { kind: secrets, provider: env, name: TOKEN } }]');
    expect(secret && toToolConfig(secret)).toEqual({ kind: 'secrets', label: 'label', name: 'TOKEN', provider: 'env' });
  });

  it('takes what is missing or odd for absent', () => {
    expect(readTask({}, 'a_task')).toEqual({
      name: 'a_task',
      kind: '',
      fields: {},
      input: {},
      set: [],
      rules: [],
      onUnmatched: null,
      timeout: null,
      output: null,
    });
    const odd = {
      kind: 7,
      input: [],
      set: { workload: 1, a: 2 },
      spec: { policy: { rules: [7] } },
      output: { select: [7], store: 7 },
    };
    expect(readTask(odd, 't')).toMatchObject({
      kind: '',
      input: {},
      set: [{ key: 'a', scope: 'local' }],
      rules: [{ action: 'continue', when: null }],
      output: { select: [], store: null },
    });
  });
});

it('the wire form of a task keeps which inputs its step gives', () => {
  const text = documentOf([{ step: 'a', tool: { kind: 'noop', input: { x: 1 } }, input: { y: 2 } }]);
  const parsed = parsePlaybook(text);
  const task = parsed.ok ? parsed.playbook.steps[0]?.tasks[0] : undefined;
  if (task === undefined) throw new Error('the playbook has a task');
  expect(readTask(toToolConfig(task), 'a')).toMatchObject({ stepInput: ['y'], input: { x: 1, y: 2 } });
  expect(readTask({ ...toToolConfig(task), step_input: [7] }, 'a').stepInput).toBeUndefined();
});
