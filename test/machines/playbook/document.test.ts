/** What a valid document becomes: canonical names, merged inputs, references replaced, defaults filled in. */
import { describe, expect, it } from 'vitest';
import type { Playbook, Step, Task } from '../../../machines/playbook/document.ts';
import { parseDocument, parsePlaybook } from '../../../machines/playbook/parse.ts';
import { workflow } from './marked-text.ts';

function read(text: string, options: Parameters<typeof parsePlaybook>[1] = {}): Playbook {
  const parsed = parsePlaybook(text, options);
  if (!parsed.ok) throw new Error(parsed.errors.map((error) => error.message).join('\n'));
  return parsed.playbook;
}
function stepOf(lines: string): Step {
  const [first] = read(workflow(`  - step: a\n${lines}\n`)).steps;
  if (!first) throw new Error('no step');
  return first;
}
function taskOf(tool: string, lines = ''): Task {
  const [first] = stepOf(`    tool: ${tool}\n${lines}`).tasks;
  if (!first) throw new Error('no task');
  return first;
}

const MINIMAL = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: greet, path: demo/greet }
workload: { who: world }
workflow:
  - step: start
    tool:
      kind: python
      input: { who: "{{ workload.who }}" }
      code: |
        result = {"text": f"hello {who}"}
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: noop, message: "{{ start.text }}" }
`;

describe('a document', () => {
  it('is read as a whole', () => {
    expect(read(MINIMAL)).toMatchObject({
      apiVersion: 'callboard/v2',
      kind: 'playbook',
      name: 'greet',
      path: 'demo/greet',
      workload: { who: 'world' },
      keychain: [],
      entryStep: 'start',
      finalStep: null,
    });
    expect(read(MINIMAL).steps[0]).toEqual({
      name: 'start',
      description: null,
      tasks: [
        {
          name: 'start_task',
          kind: 'python',
          fields: { code: 'result = {"text": f"hello {who}"}\n' },
          input: { who: '{{ workload.who }}' },
          set: [],
          rules: [],
          onUnmatched: null,
          timeout: null,
          output: null,
        },
      ],
      pipeline: false,
      loop: null,
      set: [],
      mode: 'exclusive',
      arcs: [{ index: 0, to: 'end', when: null, set: [] }],
      admit: null,
      failureMode: 'run_all',
      timeoutSeconds: null,
      line: 6,
    });
  });

  it('takes its path from the request, then metadata.path, then metadata.name', () => {
    const text = (metadata: string): string =>
      workflow('  - { step: a, tool: { kind: noop } }\n').replace(/metadata:.*/, `metadata: ${metadata}`);
    expect(read(text('{ name: n, path: p/q }'), { path: 'r/s' }).path).toBe('r/s');
    expect(read(text('{ name: n, path: p/q }')).path).toBe('p/q');
    expect(read(text('{ name: n }')).path).toBe('n');
    expect(read(text('{ path: p/q }')).name).toBe('q');
  });

  it('enters at entry_step, else start, else the first step', () => {
    const steps = '  - { step: a, tool: { kind: noop } }\n  - { step: start, tool: { kind: noop } }\n';
    const other = '  - { step: a, tool: { kind: noop } }\n  - { step: b, tool: { kind: noop } }\n';
    expect(read(workflow(steps, 'executor: { spec: { entry_step: a, final_step: start } }\n'))).toMatchObject({
      entryStep: 'a',
      finalStep: 'start',
    });
    expect(read(workflow(steps)).entryStep).toBe('start');
    expect(read(workflow(other)).entryStep).toBe('a');
  });

  it('keeps the document as it was written', () => {
    const parsed = parsePlaybook(workflow('  - { step: a, tool: { kind: noop, odd: 1 } }\n'));
    expect(parsed.ok && parsed.document).toMatchObject({ workflow: [{ step: 'a', tool: { kind: 'noop', odd: 1 } }] });
  });

  it('reads aliases as the values they stand for', () => {
    const text = workflow('  - { step: a, tool: &t { kind: noop, message: m } }\n  - { step: b, tool: *t }\n');
    expect(read(text).steps.map((step) => step.tasks[0]?.fields)).toEqual([{ message: 'm' }, { message: 'm' }]);
  });
});

describe('tool shapes', () => {
  it('label tasks by name, by position and by key', () => {
    const step = stepOf('    tool: [{ name: fetch, kind: noop }, { kind: noop }, { save: { kind: noop } }]');
    expect([step.pipeline, step.tasks.map(({ name }) => name)]).toEqual([true, ['fetch', 'task_1', 'save']]);
  });

  it('make a pipeline of a list with one element, and none of a single tool', () => {
    expect(stepOf('    tool: [{ kind: noop }]').pipeline).toBe(true);
    const single = stepOf('    tool: { kind: noop, name: ignored }');
    expect([single.pipeline, single.tasks[0]?.name]).toEqual([false, 'a_task']);
  });
});

describe('a task', () => {
  it('has canonical field names', () => {
    expect(taskOf('{ kind: http, endpoint: u, verify: false, credential: c }').fields).toEqual({
      url: 'u',
      verify_ssl: false,
      auth: 'c',
    });
    expect(taskOf('{ kind: postgres, sql: s, parameters: [1], auth: c }').fields).toEqual({
      command: 's',
      params: [1],
      auth: 'c',
    });
    expect(taskOf('{ kind: result_fetch, input: { result_ref: r } }')).toMatchObject({
      kind: 'artifact',
      input: { result_ref: 'r' },
    });
    expect(taskOf('{ kind: mcp, url: u, action: a, tool_name: t, args: { x: 1 } }')).toMatchObject({
      fields: { endpoint: 'u', method: 'a', tool: 't', arguments: { x: 1 } },
      input: {},
    });
  });

  it('prefers the canonical name over an alias', () => {
    expect(taskOf('{ kind: http, endpoint: alias, url: own }').fields).toEqual({ url: 'own' });
    expect(taskOf('{ kind: http, url: own, endpoint: alias }').fields).toEqual({ url: 'own' });
  });

  it('merges with, args, input and the input of the step', () => {
    const task = taskOf(
      '{ kind: noop, with: { a: 0, b: 0, c: 0, d: 0 }, args: { b: 1, c: 1, d: 1 }, input: { c: 2, d: 2 } }',
      '    input: { d: 3 }',
    );
    expect(task.input).toEqual({ a: 0, b: 1, c: 2, d: 3 });
  });

  it('of kind playbook takes the first of args, input and payload that is not empty', () => {
    const of = (text: string): Task => taskOf(`{ kind: playbook, path: p, ${text} }`, '    input: { s: 1 }');
    expect(of('args: { a: 1 }, input: { b: 1 }')).toMatchObject({ fields: { args: { a: 1 } }, input: { s: 1 } });
    expect(of('args: {}, input: { b: 1 }, payload: { c: 1 }').fields['args']).toEqual({ b: 1 });
    expect(of('payload: { c: 1 }').fields['args']).toEqual({ c: 1 });
    expect(of('input: { b: 1 }, args: { a: 1 }').fields['args']).toEqual({ a: 1 });
    expect(of('result_step: r').fields['return_step']).toBe('r');
  });

  it('keeps the field name of kinds that have one', () => {
    const step = stepOf('    tool: [{ name: db_password, kind: secrets, provider: env }]');
    expect(step.tasks[0]).toMatchObject({ name: 'db_password', fields: { provider: 'env', name: 'db_password' } });
  });

  it('takes its timeout from timeout, timeout_seconds or spec.timeout', () => {
    expect(taskOf('{ kind: noop, timeout: 5 }').timeout).toBe(5);
    expect(taskOf('{ kind: noop, timeout_seconds: "7" }').timeout).toBe('7');
    expect(taskOf('{ kind: noop, spec: { timeout: "{{ t }}" } }').timeout).toBe('{{ t }}');
  });

  it('assigns bare names locally and scoped names where they say', () => {
    expect(taskOf('{ kind: noop, set: { a: 1, ctx.b.c: 2, iter.d: 3, step.e: 4 } }').set).toEqual([
      { key: 'a', scope: 'local', path: ['a'], value: 1 },
      { key: 'ctx.b.c', scope: 'ctx', path: ['b', 'c'], value: 2 },
      { key: 'iter.d', scope: 'iter', path: ['d'], value: 3 },
      { key: 'ctx.e', scope: 'ctx', path: ['e'], value: 4 },
    ]);
  });

  it('lets the later of two spellings of one target win', () => {
    expect(
      stepOf('    tool: { kind: noop }\n    set: { ctx.a: 1, b: 2, a: 3 }').set.map(({ key, value }) => [key, value]),
    ).toEqual([
      ['ctx.b', 2],
      ['ctx.a', 3],
    ]);
  });

  it('reads every form of rule', () => {
    const text = `[{ when: x, then: { do: jump, to: a_task } }, { when: true, then: {} }, { then: { do: break } },
      { else: { then: { do: fail } } }, { else: { do: retry, attempts: 4, backoff: linear } }, { else: null, then: { do: jump, to: prev } }]`;
    const { rules, onUnmatched } = taskOf(
      `{ kind: noop, spec: { policy: { on_unmatched: continue, rules: ${text} } } }`,
    );
    expect(onUnmatched).toBe('continue');
    expect(
      rules.map(({ index, when, action, to, attempts, backoff }) => [index, when, action, to, attempts, backoff]),
    ).toEqual([
      [0, 'x', 'jump', 'a_task', null, null],
      [1, true, 'continue', null, null, null],
      [2, null, 'break', null, null, null],
      [3, null, 'fail', null, null, null],
      [4, null, 'retry', null, 4, 'linear'],
      [5, null, 'jump', '@previous', null, null],
    ]);
  });

  it('jumps to a label before it jumps to the previous task', () => {
    const step = stepOf(
      '    tool: [{ previous: { kind: noop } }, { kind: noop, spec: { policy: { rules: [{ then: { do: jump, to: previous } }] } } }]',
    );
    expect(step.tasks[1]?.rules[0]?.to).toBe('previous');
  });

  it('reads result options, and gives those of the step to the last task', () => {
    expect(
      taskOf(
        '{ kind: noop, output: { select: [a.b, { path: "rows[0].id", as: first }, "rows[0]"], inline_max_bytes: 10, preview_max_bytes: 20, store: { kind: disk } } }',
      ).output,
    ).toEqual({
      select: [
        { path: 'a.b', as: 'b' },
        { path: 'rows[0].id', as: 'first' },
        { path: 'rows[0]', as: '0' },
      ],
      inlineMaxBytes: 10,
      previewMaxBytes: 20,
      store: 'disk',
    });
    expect(taskOf('{ kind: noop, output_select: [a] }').output?.select).toEqual([{ path: 'a', as: 'a' }]);
    const step = stepOf(
      '    tool: [{ kind: noop }, { kind: noop, output: { inline_max_bytes: 5, select: [b] } }]\n    output_select: [a]\n    output: { store: kv }',
    );
    expect(step.tasks.map(({ output }) => output)).toEqual([
      null,
      { select: [{ path: 'a', as: 'a' }], inlineMaxBytes: 5, previewMaxBytes: null, store: 'kv' },
    ]);
  });
});

describe('workbook references', () => {
  const root = `workbook:
  - name: score
    tool: { kind: python, code: old, input: { a: 1, b: 1 }, timeout: 5 }
`;
  it('become the tool of the action, with their own fields and inputs on top', () => {
    for (const key of ['action', 'task', 'name']) {
      const text = workflow(
        `  - step: s\n    tool: { kind: workbook, ${key}: score, code: new, input: { b: 2 } }\n    input: { c: 3 }\n`,
        root,
      );
      expect(read(text).steps[0]?.tasks).toMatchObject([
        { name: 's_task', kind: 'python', fields: { code: 'new' }, input: { a: 1, b: 2, c: 3 }, timeout: 5 },
      ]);
    }
  });

  it('keep their own label', () => {
    const text = workflow(
      '  - step: s\n    tool: [{ name: mine, kind: workbook, action: score }, { other: { kind: workbook, name: score } }]\n',
      root,
    );
    expect(read(text).steps[0]?.tasks.map(({ name, kind }) => [name, kind])).toEqual([
      ['mine', 'python'],
      ['other', 'python'],
    ]);
  });
});

describe('a step', () => {
  it('reads timeouts with units', () => {
    const timeout = (text: string): number | null =>
      stepOf(`    tool: { kind: noop }\n    spec: { timeout: ${text} }`).timeoutSeconds;
    expect(['30', '30s', '5m', '1h', '0.5', '"90"'].map(timeout)).toEqual([30, 30, 300, 3600, 0.5, 90]);
  });

  it('reads loops over collections and cursors', () => {
    expect(
      stepOf(
        '    tool: { kind: noop }\n    loop: { in: "{{ xs }}", iterator: x, spec: { mode: parallel, max_in_flight: 4 } }',
      ).loop,
    ).toEqual({
      mode: 'parallel',
      iterator: 'x',
      in: '{{ xs }}',
      maxInFlight: 4,
      cursor: null,
      frame: {},
    });
    const cursor = stepOf(
      '    tool: { kind: noop }\n    loop: { cursor: { kind: postgres, credential: db, claim: c }, iterator: x, spec: { mode: cursor, frame: { max_rows: 50 } } }',
    );
    expect(cursor.loop).toEqual({
      mode: 'cursor',
      iterator: 'x',
      in: null,
      maxInFlight: null,
      cursor: { kind: 'postgres', claim: 'c', auth: 'db' },
      frame: { max_rows: 50 },
    });
  });

  it('reads admission and failure mode', () => {
    const step = stepOf(
      '    tool: { kind: noop }\n    spec: { policy: { failure: { mode: fail_fast }, admit: { rules: [{ when: x, then: { allow: true } }, { else: { then: { allow: false } } }] } } }',
    );
    expect([step.failureMode, step.admit]).toEqual([
      'fail_fast',
      [
        { when: 'x', allow: true },
        { when: null, allow: false },
      ],
    ]);
  });
});

describe('keychain entries', () => {
  it('are read with canonical kinds and scopes', () => {
    const root = `keychain:
  - { name: a, type: secrets, provider: env, map: { x: y } }
  - { name: b, kind: credential_ref, ref: stored, scope: catalog }
  - { name: c, kind: credential, scope: local, ttl_seconds: 5 }
  - { name: d, kind: oauth2, endpoint: e, scope: shared, auto_renew: true }
`;
    expect(read(workflow('  - { step: a, tool: { kind: noop } }\n', root)).keychain).toEqual([
      { name: 'a', kind: 'secret_manager', scope: 'global', provider: 'env', map: { x: 'y' } },
      { name: 'b', kind: 'credential', scope: 'global', credential: 'stored' },
      { name: 'c', kind: 'credential', scope: 'local', credential: 'c', ttl_seconds: 5 },
      { name: 'd', kind: 'oauth2', scope: 'shared', endpoint: 'e', auto_renew: true },
    ]);
  });
});

describe('other catalog kinds', () => {
  it('are only checked for their metadata', () => {
    expect(parseDocument('kind: MCP\nmetadata: { name: mcp/k }\nspec: { url: u }\n')).toMatchObject({
      ok: true,
      kind: 'mcp',
      path: 'mcp/k',
      name: 'mcp/k',
      playbook: null,
      warnings: [],
    });
    expect(parseDocument('kind: Secret\nanything: true\n', { path: 'a' })).toMatchObject({
      ok: true,
      kind: 'credential',
    });
    expect(parseDocument('anything: true\n', { path: 'a', resourceType: 'Memory' })).toMatchObject({
      ok: true,
      kind: 'memory',
    });
  });

  it('are refused without metadata where it is needed, and when they are no map', () => {
    expect(parseDocument('kind: MCP\n', { path: 'a' })).toMatchObject({
      ok: false,
      kind: 'mcp',
      errors: [{ code: 'metadata' }],
    });
    expect(parseDocument('kind: Memory\n')).toMatchObject({ ok: false, path: null, errors: [{ code: 'metadata' }] });
    expect(parseDocument('- a\n', { resourceType: 'memory' })).toMatchObject({
      ok: false,
      errors: [{ code: 'yaml_syntax' }],
    });
  });

  it('are playbooks when nothing else is said, and refused when the kind is unknown', () => {
    expect(parseDocument(MINIMAL, { resourceType: 'Agents' })).toMatchObject({
      ok: true,
      kind: 'agent',
      playbook: { kind: 'agent' },
    });
    expect(parseDocument('kind: Ballet\n', { path: 'a' }).ok).toBe(false);
    expect(parseDocument('metadata: { name: x }\n')).toMatchObject({ ok: false, kind: 'playbook', path: 'x' });
    expect(parseDocument('kind: 7\n')).toMatchObject({ ok: false, kind: null, path: null });
  });
});
