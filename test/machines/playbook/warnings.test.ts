/** Every warning of language 3.3: the document is accepted, and the warning stands at the mark `«`. */
import { describe, expect, it } from 'vitest';
import type { Diagnostic, Playbook } from '../../../machines/playbook/document.ts';
import { parsePlaybook } from '../../../machines/playbook/parse.ts';
import { marked, workflow } from './marked-text.ts';

function accepted(text: string, resourceType?: string): { playbook: Playbook; warnings: readonly Diagnostic[] } {
  const parsed = parsePlaybook(text, { resourceType });
  if (!parsed.ok) throw new Error(parsed.errors.map((error) => error.message).join('\n'));
  return parsed;
}

/** Expects one warning of this code, at the mark; others of other codes may be there. */
function warns(source: string, code: string, message: RegExp): Playbook {
  const { text, line, column } = marked(source);
  const { playbook, warnings } = accepted(text);
  const own = warnings.filter((warning) => warning.code === code);
  expect(own.map((warning) => [warning.severity, warning.line, warning.column])).toEqual([['warning', line, column]]);
  expect(own[0]?.message).toMatch(message);
  return playbook;
}

function codes(text: string): string[] {
  return accepted(text).warnings.map(({ code }) => code);
}

const NOOP = '    tool: { kind: noop }\n';
const step = (lines: string): string => workflow(`  - step: a\n${NOOP}${lines}\n`);
const tool = (text: string): string => workflow(`  - step: a\n    tool: ${text}\n`);

describe('warnings', () => {
  it('are absent from a document of today', () => {
    expect(codes(tool('{ kind: http, url: "{{ u }}" }'))).toEqual([]);
  });

  it('api_version: none, or an unknown one', () => {
    const rest = `metadata: { name: x }\nworkflow:\n  - step: a\n${NOOP}`;
    warns(`«kind: Playbook\n${rest}`, 'api_version', /no apiVersion, read as 'v2'/);
    warns(`apiVersion: «house/v3\nkind: Playbook\n${rest}`, 'api_version', /unknown apiVersion 'house\/v3'/);
    for (const version of ['callboard/v2', 'x/v1', 'v10']) {
      expect(codes(`apiVersion: ${version}\nkind: Playbook\n${rest}`)).toEqual([]);
    }
    for (const version of ['rev2', 'v20', 'v2beta']) {
      expect(codes(`apiVersion: ${version}\nkind: Playbook\n${rest}`)).toEqual(['api_version']);
    }
  });

  it('legacy_when: `when` on a step admits or denies', () => {
    const playbook = warns(step('    «when: "{{ x }}"'), 'legacy_when', /admission rule/);
    expect(playbook.steps[0]?.admit).toEqual([
      { when: '{{ x }}', allow: true },
      { when: null, allow: false },
    ]);
  });

  it('legacy_next: a name is one arc', () => {
    const playbook = warns(step('    next: «end'), 'legacy_next', /one arc/);
    expect(playbook.steps[0]).toMatchObject({
      mode: 'exclusive',
      arcs: [{ index: 0, to: 'end', when: null, set: [] }],
    });
  });

  it('legacy_next: a list of names is inclusive, a list of arcs follows next_mode', () => {
    const names = warns(step('    next: «[a, end]'), 'legacy_next', /list/);
    expect(names.steps[0]).toMatchObject({ mode: 'inclusive', arcs: [{ to: 'a' }, { to: 'end' }] });
    const arcs = warns(step('    next: «[{ step: a, when: x }, { step: end }]'), 'legacy_next', /list/);
    expect(arcs.steps[0]).toMatchObject({
      mode: 'exclusive',
      arcs: [
        { to: 'a', when: 'x' },
        { to: 'end', when: null },
      ],
    });
    const { playbook } = accepted(step('    next: [{ step: a }]\n    spec: { next_mode: inclusive }'));
    expect(playbook.steps[0]?.mode).toBe('inclusive');
  });

  it('legacy_args: step args are input, arc args are variables', () => {
    const playbook = warns(step('    «args: { x: 1, y: 2 }\n    input: { y: 3 }'), 'legacy_args', /input/);
    expect(playbook.steps[0]?.tasks[0]?.input).toEqual({ x: 1, y: 3 });
    const arcs = warns(step('    next: [{ step: a, «args: { iter.x: 1 } }]'), 'legacy_args', /set/);
    expect(arcs.steps[0]?.arcs[0]?.set).toEqual([{ key: 'ctx.iter.x', scope: 'ctx', path: ['iter.x'], value: 1 }]);
  });

  it('legacy_set: set_ctx, set_vars and set_iter are set with a scope', () => {
    const playbook = warns(step('    «set_ctx: { x: 1, ctx.y: 2 }'), 'legacy_set', /ctx\./);
    expect(playbook.steps[0]?.set.map(({ key }) => key)).toEqual(['ctx.x', 'ctx.y']);
    warns(step('    «set_vars: { x: 1 }'), 'legacy_set', /ctx\./);
    const task = warns(tool('{ kind: noop, «set_iter: { x: 1 } }'), 'legacy_set', /iter\./);
    expect(task.steps[0]?.tasks[0]?.set).toEqual([{ key: 'iter.x', scope: 'iter', path: ['x'], value: 1 }]);
  });

  it('are absent for a join that a fork reaches itself and over another step', () => {
    const steps = [
      `  - step: a\n${NOOP}    next: { arcs: [{ step: j }] }\n`,
      `  - step: start\n${NOOP}    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: j }] }\n`,
      `  - step: j\n${NOOP}`,
    ];
    expect(codes(workflow(steps.join('')))).toEqual([]);
  });

  it('legacy_retry: a retry of null is none', () => {
    expect(codes(tool('{ kind: noop, retry: null }'))).toEqual([]);
  });

  it('mixed_condition: text before the braces is only rendered', () => {
    const { text } = marked(step('    when: «"x == {{ y }}"'));
    expect(codes(text)).toEqual(['legacy_when', 'mixed_condition']);
  });

  it('unknown_key: a key of spec that the kind does not have', () => {
    expect(codes(tool('{ kind: noop, spec: { nosuch: 1 } }'))).toEqual(['tool_field_in_spec', 'unknown_key']);
  });

  it('legacy_retry: a retry map is a last rule', () => {
    const playbook = warns(
      tool(
        '{ kind: noop, «retry: { max_attempts: 5, initial_delay: 0.5, backoff_multiplier: 2 }, spec: { policy: { rules: [{ when: x, then: { do: break } }] } } }',
      ),
      'legacy_retry',
      /policy rule/,
    );
    expect(playbook.steps[0]?.tasks[0]?.rules[1]).toEqual({
      index: 1,
      when: "{{ output.status == 'error' }}",
      action: 'retry',
      set: [],
      to: null,
      attempts: 5,
      delay: 0.5,
      backoff: null,
      maxDelay: null,
      multiplier: 2,
    });
    const bare = accepted(tool('{ kind: noop, retry: { attempts: 2 } }')).playbook;
    expect(bare.steps[0]?.tasks[0]?.rules[0]).toMatchObject({ attempts: 2, delay: 1, multiplier: 1 });
  });

  it('arc_cond: cond is when', () => {
    const playbook = warns(step('    next: { arcs: [{ step: a, «cond: x }] }'), 'arc_cond', /when/);
    expect(playbook.steps[0]?.arcs[0]?.when).toBe('x');
  });

  it('tool_field_in_spec: fields of spec are the tool fields, unless the tool has them', () => {
    const playbook = warns(tool('{ kind: http, spec: { «url: x } }'), 'tool_field_in_spec', /'url'/);
    expect(playbook.steps[0]?.tasks[0]?.fields).toEqual({ url: 'x' });
    const own = warns(tool('{ kind: http, endpoint: own, spec: { «url: x } }'), 'tool_field_in_spec', /'url'/);
    expect(own.steps[0]?.tasks[0]?.fields).toEqual({ url: 'own' });
  });

  it('step_vars: vars on a step is ignored', () => {
    warns(step('    «vars: { a: 1 }'), 'step_vars', /ignored/);
  });

  it.each([
    workflow(`  - step: a\n${NOOP}`, '«colour: red\n'),
    step('    «colour: red'),
    step('    spec: { «colour: red }'),
    step('    spec: { policy: { «colour: red } }'),
    tool('{ kind: noop, «colour: red }'),
    tool('{ kind: noop, spec: { policy: { «colour: red } } }'),
    tool('{ kind: noop, spec: { policy: { rules: [{ then: {}, «colour: red }] } } }'),
    tool('{ kind: noop, spec: { policy: { rules: [{ then: { «colour: red } }] } } }'),
    tool('{ kind: noop, output: { «accumulate: true } }'),
    tool('{ kind: noop, output: { store: { «bucket: b } } }'),
    tool('{ kind: noop, retry: { «colour: red } }'),
    step('    next: { «colour: red, arcs: [] }'),
    step('    next: { spec: { «colour: red }, arcs: [] }'),
    step('    next: { arcs: [{ step: a, «colour: red }] }'),
    step('    loop: { in: [1], iterator: x, «colour: red }'),
    step('    loop: { in: [1], iterator: x, spec: { «colour: red } }'),
    step('    loop: { iterator: x, cursor: { kind: postgres, claim: c, «colour: red }, spec: { mode: cursor } }'),
    step('    spec: { policy: { admit: { rules: [], «colour: red } } }'),
    step('    spec: { policy: { admit: { rules: [{ then: { allow: true }, «colour: red }] } } }'),
    step('    «spec: 7'),
  ])('unknown_key: %s', (source) => {
    warns(source, 'unknown_key', /ignored/);
  });

  it('unknown_key: the ignored key does not reach the task', () => {
    expect(accepted(tool('{ kind: noop, colour: red }')).playbook.steps[0]?.tasks[0]?.fields).toEqual({});
  });

  it('agent_kind: an agent that is stored as a playbook', () => {
    const source = `apiVersion: v2\nkind: Playbook\nmetadata: { name: x, agent: «true }\nworkflow:\n  - step: a\n${NOOP}`;
    warns(source, 'agent_kind', /stored as kind 'playbook'/);
    const { playbook, warnings } = accepted(marked(source).text, 'agent');
    expect([playbook.kind, warnings]).toEqual(['agent', []]);
  });

  it('unreachable_step: no path from the entry step', () => {
    const source = workflow(`  - step: a\n${NOOP}  - «step: b\n${NOOP}    next: { arcs: [{ step: b }] }\n`);
    warns(source, 'unreachable_step', /^Step 'b'/);
  });

  it('unreachable_rule: a rule after an else', () => {
    const source = tool(
      '{ kind: noop, spec: { policy: { rules: [{ else: { do: fail } }, «{ when: x, then: { do: fail } }] } } }',
    );
    warns(source, 'unreachable_rule', /never reached/);
  });

  const branch = (name: string, ...targets: string[]): string => {
    const arcs = targets.map((target) => `{ step: ${target} }`).join(', ');
    return `  - step: ${name}\n${NOOP}    next: { arcs: [${arcs}] }\n`;
  };
  const fork = (mode: string): string =>
    `step: a\n${NOOP}    next: { spec: { mode: ${mode} }, arcs: [{ step: b }, { step: c }] }\n`;

  it('fanout_no_reducer: inclusive branches that never meet', () => {
    warns(
      workflow(`  - «${fork('inclusive')}${branch('b', 'end')}${branch('c', 'end')}`),
      'fanout_no_reducer',
      /never meet/,
    );
    expect(
      codes(workflow(`  - ${fork('inclusive')}${branch('b', 'd')}${branch('c', 'd')}${branch('d', 'end')}`)),
    ).toEqual([]);
  });

  it('reducer_orphan: upstream steps that exclude each other', () => {
    const source = workflow(`  - ${fork('exclusive')}${branch('b', 'd')}${branch('c', 'd')}  - «step: d\n${NOOP}`);
    warns(source, 'reducer_orphan', /\(b, c\) can never all be active/);
  });

  it('reducer_orphan: not for a fork that is itself upstream, nor for a loop', () => {
    const direct = `  - step: a\n${NOOP}    next: { spec: { mode: inclusive }, arcs: [{ step: b }, { step: d }] }\n`;
    expect(codes(workflow(`${direct}${branch('b', 'd')}${branch('d', 'a', 'end')}`))).toEqual([]);
  });

  it.each([
    '{ kind: python, code: «"print({{ x }})" }',
    '{ kind: javascript, code: «"return {{ x }}" }',
    '{ kind: shell, command: «"ls {{ x }}" }',
    '{ kind: shell, cmds: «["ls {{ x }}"] }',
  ])('template_in_code: %s', (text) => {
    warns(tool(text), 'template_in_code', /should travel in input/);
  });

  it('template_in_code: not for SQL', () => {
    expect(codes(tool('{ kind: postgres, auth: db, command: "SELECT {{ x }}" }'))).toEqual([]);
  });

  it('inline_secret: a literal token or password in auth', () => {
    warns(tool('{ kind: http, url: x, auth: { type: bearer, token: «abc } }'), 'inline_secret', /'token'/);
    warns(
      tool('{ kind: http, url: x, auth: { type: basic, username: u, password: «abc } }'),
      'inline_secret',
      /'password'/,
    );
    expect(codes(tool('{ kind: http, url: x, auth: { type: bearer, token: "{{ keychain.k.token }}" } }'))).toEqual([]);
  });

  it.each(['output', 'error', 'loop', 'results', 'result'])('shadowed_name: a step or label named %s', (name) => {
    warns(workflow(`  - step: «${name}\n${NOOP}`), 'shadowed_name', new RegExp(`steps\\.${name}`));
    warns(tool(`[{ name: «${name}, kind: noop }]`), 'shadowed_name', /hidden/);
  });

  it('shadowed_name: a workload key equal to a reserved root', () => {
    warns(workflow(`  - step: a\n${NOOP}`, 'workload: { «args: 1 }\n'), 'shadowed_name', /workload\.args/);
  });

  it('mixed_condition: text outside the braces', () => {
    warns(step('    next: { arcs: [{ step: a, when: «"{{ x }} == 1" }] }'), 'mixed_condition', /inside/);
    for (const when of ['"{{ x == 1 }}"', '" {{ x }} "', 'x == 1', '"{% if x %}1{% endif %}{{ y }} z"']) {
      expect(codes(step(`    next: { arcs: [{ step: a, when: ${when} }] }`))).toEqual([]);
    }
  });

  it('rule_retry: a delay that is cut', () => {
    const rule = (text: string) =>
      tool(`{ kind: noop, spec: { policy: { rules: [{ then: { do: retry, ${text} } }] } } }`);
    warns(rule('delay: «7200'), 'rule_retry', /'delay' of 7200 s is cut to 3600 s, the default of 'max_delay'/);
    warns(rule('delay: «"90", max_delay: 60'), 'rule_retry', /is cut to 'max_delay', 60 s/);
    for (const text of [
      'delay: 3600',
      'delay: 7200, max_delay: 86400',
      'delay: 7200, max_delay: "{{ m }}"',
      'delay: "{{ d }}"',
    ]) {
      expect(codes(rule(text))).toEqual([]);
    }
    warns(tool('{ kind: noop, retry: { max_attempts: 2, initial_delay: «4000 } }'), 'rule_retry', /cut to 3600 s/);
  });

  it('keychain_entry: kinds this build cannot resolve', () => {
    const source = workflow(`  - step: a\n${NOOP}`, 'keychain: [{ name: k, kind: «google_oauth }]\n');
    warns(source, 'keychain_entry', /fails on use/);
  });
});
