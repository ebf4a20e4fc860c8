/** Every error of language 3.2: its code, step, task, place and sentence. The mark `«` in a text is the place. */
import { describe, expect, it } from 'vitest';
import type { Diagnostic } from '../../../machines/playbook/document.ts';
import { parsePlaybook } from '../../../machines/playbook/parse.ts';
import { processorTime } from '../../support/processor-time.ts';
import { marked, workflow } from './marked-text.ts';

function errorsOf(text: string): readonly Diagnostic[] {
  const parsed = parsePlaybook(text);
  return parsed.ok ? [] : parsed.errors;
}

/** Expects exactly one error, at the mark. `subject` is written as it starts the message. */
function refuses(source: string, code: string, subject: string, text: string): void {
  const { text: document, line, column } = marked(source);
  const step = /^Step '([^']*)'/.exec(subject)?.[1] ?? null;
  const task = /, task '([^']*)'/.exec(subject)?.[1] ?? null;
  expect(errorsOf(document).map(({ endLine, endColumn, path, severity, ...rest }) => rest)).toEqual([
    { code, step, task, line, column, message: `${subject}: ${text} (line ${line})` },
  ]);
}

/** One step `a` with these lines, indented by four. */
function step(lines: string): string {
  return workflow(`  - step: a\n${lines}\n`);
}
/** One step `a` with this tool in flow style. */
function tool(text: string): string {
  return step(`    tool: ${text}`);
}
/** One step `a` with a pipeline of one task `t` and these rules in flow style. */
function rules(text: string): string {
  return step(`    tool: [{ name: t, kind: noop, spec: { policy: { rules: ${text} } } }]`);
}
const NOOP = '    tool: { kind: noop }\n';

describe('the text', () => {
  it.each([
    ['kind: Playbook\n«kind: Agent\n', "duplicate key 'kind'"],
    ['«- a\n- b\n', 'the document must be a map'],
    ['«', 'the document is empty'],
    ['a: 1\n«---\nb: 2\n', 'only one document is allowed'],
    ['a: «*nobody\n', "unknown alias 'nobody'"],
    ['a: &x\n  b: «*x\n', "alias 'x' refers to the value it is part of"],
    ['«__proto__: 1\n', "the key '__proto__' is not allowed"],
    ['a: «.nan\n', "number '.nan' is not finite, quote it if it is text"],
    ['a: "b«', 'unexpected end of the stream within a double quoted scalar'],
  ])('is refused: %j', (source, text) => {
    refuses(source, 'yaml_syntax', 'Document', text);
  });

  it('is refused with the advice to quote when a template is not quoted', () => {
    const hint = 'a map key must be text; quote values that start with a template, such as key: "{{ value }}"';
    refuses(step('    tool: { kind: noop }\n    input:\n      a: {«{ b }}'), 'yaml_syntax', 'Document', hint);
  });

  it('is refused with more than a thousand steps', () => {
    const steps = Array.from({ length: 1001 }, (_, index) => `  - { step: s${index}, tool: { kind: noop } }\n`).join(
      '',
    );
    const [error, ...others] = errorsOf(workflow(steps));
    expect(error).toMatchObject({ code: 'yaml_syntax', path: 'workflow', line: 5 });
    expect(error?.message).toBe('Document: workflow has more than 1000 steps (line 5)');
    expect(others).toEqual([]);
  });

  it('is refused with more than two hundred tasks in a step', () => {
    const tasks = `«[${'{ kind: noop },'.repeat(201)}]`;
    refuses(tool(tasks), 'yaml_syntax', "Step 'a'", 'tool has more than 200 tasks');
  });
});

describe('the document', () => {
  const steps = `workflow:\n  - step: a\n${NOOP}`;

  it.each(['2', "''", '[v2]', 'null', 'true'])('refuses the apiVersion %s', (version) => {
    const text = `apiVersion: «${version}\nkind: Playbook\nmetadata: { name: x }\n${steps}`;
    refuses(text, 'api_version', 'Document', 'apiVersion must be a string');
  });

  it('refuses a missing and an unknown kind, and one that cannot run', () => {
    const text = 'kind must be Playbook or Agent';
    refuses(`«apiVersion: v2\nmetadata: { name: x }\n${steps}`, 'kind', 'Document', text);
    refuses(`kind: «Ballet\napiVersion: v2\nmetadata: { name: x }\n${steps}`, 'kind', 'Document', text);
    refuses(`kind: «Credential\napiVersion: v2\nmetadata: { name: x }\n${steps}`, 'kind', 'Document', text);
  });

  it('refuses metadata that is no map or names nothing', () => {
    const text = 'metadata.name is required';
    refuses(`«apiVersion: v2\nkind: Playbook\n${steps}`, 'metadata', 'Document', text);
    refuses(`apiVersion: v2\nkind: Playbook\nmetadata: «x\n${steps}`, 'metadata', 'Document', text);
    refuses(`apiVersion: v2\nkind: Playbook\nmetadata: «{ name: '' }\n${steps}`, 'metadata', 'Document', text);
  });

  it('needs no metadata when the request names a path', () => {
    const parsed = parsePlaybook(`apiVersion: v2\nkind: Playbook\n${steps}`, { path: 'a/b' });
    expect(parsed.ok && [parsed.playbook.path, parsed.playbook.name]).toEqual(['a/b', 'b']);
  });

  it('refuses vars', () => {
    refuses(
      workflow(`  - step: a\n${NOOP}`, '«vars: { a: 1 }\n'),
      'root_key',
      'Document',
      "'vars' is not supported, use workload and set",
    );
  });

  it('refuses a workload that is no map', () => {
    refuses(
      workflow(`  - step: a\n${NOOP}`, 'workload: «[1]\n'),
      'workload_type',
      'Document',
      'workload must be a map',
    );
  });

  it('accepts a workload that is null', () => {
    const parsed = parsePlaybook(workflow(`  - step: a\n${NOOP}`, 'workload:\n'));
    expect(parsed.ok && parsed.playbook.workload).toEqual({});
  });

  it('refuses a workflow that is missing, no list or empty', () => {
    const head = 'kind: Playbook\nmetadata: { name: x }\n';
    const text = 'workflow needs at least one step';
    refuses(`«apiVersion: v2\n${head}`, 'workflow_empty', 'Document', text);
    refuses(`apiVersion: v2\n${head}workflow: «{}\n`, 'workflow_empty', 'Document', text);
    refuses(`apiVersion: v2\n${head}workflow: «[]\n`, 'workflow_empty', 'Document', text);
  });

  it('refuses entry and final steps that are no steps', () => {
    const executor = (spec: string): string => workflow(`  - step: a\n${NOOP}`, `executor: { spec: { ${spec} } }\n`);
    refuses(executor('entry_step: «b'), 'entry_step', 'Document', "'b' is not a step");
    refuses(executor('final_step: «c'), 'entry_step', 'Document', "'c' is not a step");
  });

  it('refuses steps without next under no_next_is_error, but not end and the final step', () => {
    const source = workflow(
      `  - «step: a\n${NOOP}  - step: end\n${NOOP}  - step: last\n${NOOP}`,
      'executor: { spec: { no_next_is_error: true, final_step: last } }\n',
    );
    refuses(source, 'entry_step', "Step 'a'", "'next' is missing, which no_next_is_error forbids");
  });
});

describe('a step', () => {
  it.each(['', "''", 'null', '7'])('is refused with the name %j', (name) => {
    const [error, ...others] = errorsOf(workflow(`  - step: ${name}\n${NOOP}`));
    expect(error).toMatchObject({
      code: 'step_name',
      step: null,
      line: 5,
      message: 'Document: step name is missing (line 5)',
    });
    expect(others).toEqual([]);
  });

  it('is refused without a name and when it is no map', () => {
    refuses(workflow('  - «tool: { kind: noop }\n'), 'step_name', 'Document', 'step name is missing');
    refuses(workflow('  - «a\n'), 'step_name', 'Document', 'step name is missing');
  });

  it('is refused with a name that is too long', () => {
    const name = 'x'.repeat(256);
    const [error] = errorsOf(workflow(`  - step: ${name}\n${NOOP}`));
    expect(error).toMatchObject({ code: 'step_name', step: name, line: 5, column: 11 });
  });

  const roots = ['workload', 'ctx', 'steps', 'args', 'execution_id', 'catalog_id', 'job', 'event', 'iter', 'keychain'];
  it.each([...roots, '__proto__'])('cannot be named %s', (name) => {
    const source = workflow(`  - step: «${name}\n${NOOP}`);
    refuses(source, 'step_name', `Step '${name}'`, `step name '${name}' is reserved`);
  });

  it('cannot have the name of another', () => {
    const source = workflow(`  - step: a\n${NOOP}  - step: «a\n${NOOP}`);
    refuses(source, 'step_duplicate', "Step 'a'", 'duplicate step name, first used on line 5');
  });

  it('refuses keys of older languages and says what replaces them', () => {
    refuses(
      step(`${NOOP}    «case: []`),
      'step_key',
      "Step 'a'",
      "'case' is not supported, use 'next.arcs' with 'when'",
    );
    refuses(step(`${NOOP}    «type: http`), 'step_key', "Step 'a'", "'type' is not supported, use 'tool.kind'");
    refuses(
      step(`${NOOP}    «result: {}`),
      'step_key',
      "Step 'a'",
      "'result' is not supported, use 'output_select' or 'set'",
    );
    refuses(
      tool('{ kind: noop, «eval: [] }'),
      'step_key',
      "Step 'a'",
      "'eval' is not supported, use spec.policy.rules",
    );
    refuses(
      rules("[{ «expr: 'true', then: { do: continue } }]"),
      'step_key',
      "Step 'a', task 't'",
      "'expr' is not supported, use 'when'",
    );
  });

  it('needs a tool', () => {
    const text = "Missing 'tool' field (a tool is required)";
    refuses(workflow('  - «step: a\n    desc: nothing\n'), 'tool_missing', "Step 'a'", text);
    refuses(workflow('  - «step: a\n    tool:\n'), 'tool_missing', "Step 'a'", text);
  });

  it.each([
    '«{}',
    '«[]',
    '«text',
    '«{ fetch: { kind: noop } }',
    '[«7]',
    '[«{ name: x }]',
    '[«{ a: { kind: noop }, b: 1 }]',
  ])('refuses the tool %s', (text) => {
    refuses(tool(text), 'tool_shape', "Step 'a'", "tool must be a map with 'kind' or a non-empty list of tasks");
  });

  it('refuses unknown kinds and lists the known ones', () => {
    const known =
      'http, postgres, python, javascript, shell, noop, playbook, mcp, nats, duckdb, artifact, transfer, secrets, workbook, result_fetch';
    refuses(
      tool('{ kind: «teleport }'),
      'tool_kind_unknown',
      "Step 'a'",
      `unknown tool kind 'teleport'; known kinds: ${known}`,
    );
    refuses(
      tool('{ kind: «constructor }'),
      'tool_kind_unknown',
      "Step 'a'",
      `unknown tool kind 'constructor'; known kinds: ${known}`,
    );
  });

  it.each(['container', 'script', 'snowflake', 'snowflake_transfer', 'gcs', 'ducklake', 'subscription'])(
    'refuses the later kind %s',
    (kind) => {
      const text = `tool kind '${kind}' is not available in this build`;
      refuses(tool(`[{ name: t, kind: «${kind} }]`), 'tool_kind_unsupported', "Step 'a', task 't'", text);
    },
  );
});

describe('fields of a tool', () => {
  it.each([
    ['«{ kind: http }', "'url' is required for kind http"],
    ["«{ kind: http, url: '' }", "'url' is required for kind http"],
    ['«{ kind: postgres, auth: db }', "'command' is required for kind postgres"],
    ['«{ kind: postgres, command: SELECT 1 }', "'auth' is required for kind postgres"],
    ['«{ kind: python }', "'code' is required for kind python"],
    ['«{ kind: javascript, code: null }', "'code' is required for kind javascript"],
    ['«{ kind: shell }', "'command' is required for kind shell"],
    ['«{ kind: playbook }', "'path' is required for kind playbook"],
    ['«{ kind: nats }', "'operation' is required for kind nats"],
    ['«{ kind: duckdb }', "'command' is required for kind duckdb"],
    ['«{ kind: transfer, target: { type: duckdb } }', "'source' is required for kind transfer"],
    [
      '{ kind: transfer, source: «{ query: x }, target: { type: duckdb } }',
      "'source.type' is required for kind transfer",
    ],
    ['«{ kind: secrets, name: x }', "'provider' is required for kind secrets"],
    ['«{ kind: secrets, provider: env }', "'name' is required for kind secrets"],
    ['{ kind: http, url: «7 }', "'url' must be a string"],
    ['{ kind: http, url: x, headers: «[a] }', "'headers' must be a map"],
    ['{ kind: http, url: x, params: «text }', "'params' must be a map"],
    ['{ kind: http, url: x, follow_redirects: «maybe }', "'follow_redirects' must be a boolean"],
    ['{ kind: http, url: x, timeout: «soon }', "'timeout' must be a number"],
    ['{ kind: http, url: x, auth: «[a] }', "'auth' must be a string or a map"],
    ['{ kind: postgres, auth: db, command: x, port: «many }', "'port' must be a number"],
    ['{ kind: postgres, auth: db, command: x, host: «[a] }', "'host' must be a string or a number"],
    ['{ kind: shell, cmds: «{ a: b } }', "'cmds' must be a string or a list"],
    ['{ kind: postgres, auth: db, command: x, params: «7 }', "'params' must be a list or a map"],
    ['{ kind: noop, input: «text }', "'input' must be a map"],
    ['{ kind: noop, spec: «7 }', "'spec' must be a map"],
    ['{ kind: noop, retry: «[1] }', "'retry' must be a map"],
    ['{ kind: noop, output: «7 }', "'output' must be a map"],
    ['{ kind: noop, output: { select: «a } }', "'output.select' must be a list"],
    ['{ kind: noop, output: { select: [«7] } }', "'output.select' must be a list of paths or {path, as}"],
    ['{ kind: noop, output_select: [«a.__proto__] }', "'output.select' cannot keep a field as '__proto__'"],
    [
      '{ kind: noop, output_select: [«{ path: a, as: __proto__ }] }',
      "'output.select' cannot keep a field as '__proto__'",
    ],
    ['{ kind: noop, output: { inline_max_bytes: «-1 } }', "'output.inline_max_bytes' must be a whole number of bytes"],
    [
      '{ kind: noop, output: { store: { kind: «tape } } }',
      "'output.store.kind' must be one of auto, kv, disk, memory, db, s3, gcs",
    ],
  ])('are refused: %s', (text, message) => {
    refuses(tool(text), 'tool_field', "Step 'a'", message);
  });

  it('are not judged by type where they hold templates', () => {
    expect(
      errorsOf(tool(`{ kind: http, url: x, headers: "{{ h }}", timeout: "{{ t }}", follow_redirects: "{{ f }}" }`)),
    ).toEqual([]);
  });

  it('refuses a step timeout and step input of another shape', () => {
    const text = `'spec.timeout' must be seconds or text such as 30s, 5m, 1h (got "soon")`;
    refuses(step(`${NOOP}    spec: { timeout: «soon }`), 'tool_field', "Step 'a'", text);
    refuses(step(`${NOOP}    input: «[1]`), 'tool_field', "Step 'a'", "'input' must be a map");
  });

  it('refuses a labelled task without a kind', () => {
    const text = "tool must be a map with 'kind' or a non-empty list of tasks";
    refuses(tool('[{ t: «{ url: x } }]'), 'tool_shape', "Step 'a'", text);
  });

  it('refuses labels that are not text', () => {
    refuses(tool('[{ kind: noop, name: «[x] }]'), 'tool_field', "Step 'a', task 'task_0'", "'name' must be a string");
  });

  it('refuses duplicate and reserved labels', () => {
    const twice = tool('[{ name: t, kind: noop }, { name: «t, kind: noop }]');
    refuses(twice, 'task_label', "Step 'a', task 't'", "duplicate task label 't'");
    const mixed = tool('[{ t: { kind: noop } }, «{ t: { kind: noop } }]');
    refuses(mixed, 'task_label', "Step 'a', task 't'", "duplicate task label 't'");
    const reserved = tool('[{ name: «ctx, kind: noop }]');
    refuses(reserved, 'task_label', "Step 'a', task 'ctx'", "duplicate task label 'ctx': the name is reserved");
    const proto = "duplicate task label '__proto__': the name is reserved";
    refuses(tool('[{ name: «__proto__, kind: noop }]'), 'task_label', "Step 'a', task '__proto__'", proto);
  });
});

describe('routing', () => {
  const next = (text: string): string => step(`${NOOP}    next: ${text}`);

  it.each([
    ['«7', 'next must be a map with arcs, a step name or a list'],
    ['«{ step: a }', "next needs 'arcs', a list of {step, when?, set?}"],
    ['{ arcs: «{ step: a } }', "next needs 'arcs', a list of {step, when?, set?}"],
    ['{ arcs: [«{ when: true }] }', "an arc needs 'step'"],
    ['{ arcs: [«7] }', "an arc must be a map with 'step'"],
    ['{ arcs: [{ step: a, when: «7 }] }', "'when' must be a string or a boolean"],
    ['{ spec: { mode: «random }, arcs: [] }', 'mode must be exclusive or inclusive'],
    ['{ spec: { on_no_match: «panic }, arcs: [] }', 'on_no_match must be complete or quiet'],
    ['{ spec: «7, arcs: [] }', 'next.spec must be a map'],
  ])('refuses next: %s', (text, message) => {
    refuses(next(text), 'next_shape', "Step 'a'", message);
  });

  it('refuses unknown targets in every shape, but not end', () => {
    for (const shape of [
      '«nowhere',
      '[«nowhere]',
      '[{ step: «nowhere }]',
      '{ arcs: [{ step: «nowhere }, { step: end }] }',
    ]) {
      refuses(next(shape), 'next_target', "Step 'a'", "unknown target step 'nowhere'");
    }
    expect(errorsOf(next('{ arcs: [{ step: end }] }'))).toEqual([]);
  });

  it.each([
    '[«{ when: true }]',
    '[{ when: true, then: { allow: «1 } }]',
    '[{ else: { then: «{ do: fail } } }]',
    '[«7]',
    '[{ when: true, else: «{ then: { allow: true } } }]',
  ])('refuses the admission rules %s', (text) => {
    const source = step(`${NOOP}    spec: { policy: { admit: { rules: ${text} } } }`);
    refuses(source, 'admit_shape', "Step 'a'", 'admission rule 0 needs then.allow');
  });

  it('refuses admission without a list of rules, and conditions that are no text', () => {
    const admit = (text: string): string => step(`${NOOP}    spec: { policy: { admit: ${text} } }`);
    const text = 'admit needs rules, a list of {when, then: {allow}}';
    refuses(admit('«true'), 'admit_shape', "Step 'a'", text);
    refuses(admit('{ rules: «{} }'), 'admit_shape', "Step 'a'", text);
    const odd = admit('{ rules: [{ when: «7, then: { allow: true } }] }');
    refuses(odd, 'admit_shape', "Step 'a'", "admission rule 0: 'when' must be a string or a boolean");
    expect(errorsOf(admit('{ rules: [{ else: { allow: false } }] }'))).toEqual([]);
    refuses(step(`${NOOP}    when: «7`), 'admit_shape', "Step 'a'", "'when' must be a string or a boolean");
  });
});

describe('policy rules', () => {
  const subject = "Step 'a', task 't'";

  it.each([
    '[«{ when: true }]',
    '[«{ do: fail }]',
    '[«{ else: null }]',
    '[«{ when: true, then: fail }]',
    '[«{ when: true, else: { do: fail }, then: { do: fail } }]',
    '[«{ else: { do: fail }, then: { do: fail } }]',
    '[«{ else: fail }]',
    '[«{ else: { then: { do: fail }, do: fail } }]',
    '[«7]',
  ])('are refused in the form %s', (text) => {
    const [error] = errorsOf(marked(rules(text)).text);
    const { line, column } = marked(rules(text));
    expect(error).toMatchObject({ code: 'rule_shape', step: 'a', task: 't', line, column });
    expect(error?.message).toBe(`${subject}: rule 0 needs 'when' or 'else' and 'then' (line ${line})`);
  });

  it('are refused with a condition that is no text, and in a policy that is no list of rules', () => {
    const policy = (text: string): string => tool(`[{ name: t, kind: noop, spec: { policy: ${text} } }]`);
    refuses(
      rules('[{ when: «7, then: { do: fail } }]'),
      'rule_shape',
      subject,
      "rule 0: 'when' must be a string or a boolean",
    );
    refuses(policy('«7'), 'rule_shape', subject, 'policy must be a map with rules');
    expect(errorsOf(policy('null'))).toEqual([]);
    refuses(policy('{ rules: «{} }'), 'rule_shape', subject, 'policy.rules must be a list');
    refuses(policy('{ mode: «inclusive, rules: [] }'), 'rule_shape', subject, 'policy.mode must be exclusive');
    refuses(policy('{ on_unmatched: «panic }'), 'rule_shape', subject, 'on_unmatched must be fail or continue');
  });

  it('are refused with unknown actions and targets', () => {
    refuses(
      rules('[{ when: true, then: { do: «{ a: 1 } } }]'),
      'rule_action',
      subject,
      'rule 0: unknown action \'{"a":1}\'',
    );
    refuses(rules('[{ then: { do: «dance } }]'), 'rule_action', subject, "rule 0: unknown action 'dance'");
    refuses(rules('[{ then: «{ do: jump } }]'), 'rule_action', subject, "rule 0: 'jump' needs 'to'");
    refuses(
      rules('[{ then: { do: jump, to: «fetsh } }]'),
      'rule_action',
      subject,
      "jump target 'fetsh' does not exist",
    );
  });

  it.each([
    ['attempts: «0', "rule 0: 'attempts' must be an integer of at least 1"],
    ['attempts: «1.5', "rule 0: 'attempts' must be an integer of at least 1"],
    ['attempts: «many', "rule 0: 'attempts' must be an integer of at least 1"],
    ['delay: «-1', "rule 0: 'delay' must be a number of at least 0"],
    ['delay: «[1]', "rule 0: 'delay' must be a number of at least 0"],
    ['max_delay: «-1', "rule 0: 'max_delay' must be a number of at least 0"],
    ['backoff: «wild', "rule 0: unknown backoff 'wild'"],
  ])('are refused with %s', (text, message) => {
    refuses(rules(`[{ then: { do: retry, ${text} } }]`), 'rule_retry', subject, message);
  });

  it('accept numbers as text and as templates', () => {
    expect(errorsOf(rules(`[{ then: { do: retry, attempts: '3', delay: "{{ ctx.d }}" } }]`))).toEqual([]);
  });

  it('are refused for the numbers of a legacy retry too', () => {
    const source = tool('{ kind: noop, retry: { max_attempts: «0 } }');
    refuses(source, 'rule_retry', "Step 'a'", "'max_attempts' must be an integer of at least 1");
  });
});

describe('a loop', () => {
  const loop = (text: string): string => step(`${NOOP}    loop: ${text}`);
  const cursor = 'cursor: { kind: postgres, auth: db, claim: SELECT 1 }';

  it.each([
    ['«7', "loop must be a map with 'in' and 'iterator'"],
    ['«{ iterator: x }', "loop needs exactly one of 'in' and 'cursor'"],
    ['«{ in: [1] }', "loop needs 'iterator'"],
    ['{ in: [1], iterator: «ctx }', "iterator 'ctx' is reserved"],
    ['{ in: [1], iterator: «a-b }', "iterator 'a-b' is not an identifier"],
    ['{ in: [1], iterator: x, spec: { mode: «wild } }', "unknown mode 'wild', use sequential, parallel or cursor"],
    ['{ in: [1], iterator: x, spec: { mode: «7 } }', "unknown mode '7', use sequential, parallel or cursor"],
    ['{ in: [1], iterator: x, spec: { mode: «cursor } }', "mode cursor needs 'cursor'"],
    [`«{ ${cursor}, iterator: x }`, "a 'cursor' needs mode cursor"],
    [`{ ${cursor}, iterator: x, spec: { mode: «parallel } }`, "a 'cursor' needs mode cursor"],
    ['{ in: [1], iterator: x, spec: { max_in_flight: «0 } }', "'max_in_flight' must be an integer of at least 1"],
    ['{ in: [1], iterator: x, spec: { max_in_flight: «1.5 } }', "'max_in_flight' must be an integer of at least 1"],
    ['{ in: [1], iterator: x, spec: «7 }', 'loop.spec must be a map'],
    ['{ in: [1], iterator: x, spec: { frame: «7 } }', 'loop.spec.frame must be a map'],
    ['{ in: [1], iterator: x, spec: { frame: { process: «all } } }', "'frame.process' must be row or frame"],
    [
      '{ in: [1], iterator: x, spec: { frame: { max_rows: «0 } } }',
      "'frame.max_rows' must be an integer of at least 1",
    ],
    ['{ cursor: «7, iterator: x, spec: { mode: cursor } }', "cursor must be a map with 'kind' and 'claim'"],
    [
      '{ cursor: { kind: «mongo, claim: x }, iterator: x, spec: { mode: cursor } }',
      "unknown cursor kind 'mongo', use postgres or duckdb",
    ],
  ])('is refused: %s', (text, message) => {
    refuses(loop(text), 'loop_shape', "Step 'a'", message);
  });

  it('is refused with a collection and a cursor at once', () => {
    const source = loop(`{ in: [1], cursor: «{ kind: postgres, claim: x }, iterator: x, spec: { mode: cursor } }`);
    refuses(source, 'loop_shape', "Step 'a'", "loop needs exactly one of 'in' and 'cursor'");
  });

  it('needs kind and claim in a cursor', () => {
    const source = loop('{ cursor: «{ kind: postgres }, iterator: x, spec: { mode: cursor } }');
    refuses(source, 'tool_field', "Step 'a'", "'claim' is required for kind cursor");
    const odd = loop('{ cursor: { kind: postgres, claim: «7 }, iterator: x, spec: { mode: cursor } }');
    refuses(odd, 'tool_field', "Step 'a'", "'claim' must be a string");
  });

  it('refuses unknown failure modes', () => {
    const failure = (text: string): string => step(`${NOOP}    spec: { policy: { failure: ${text} } }`);
    for (const text of ['{ mode: «wild }', '«fail_fast']) {
      refuses(failure(text), 'loop_shape', "Step 'a'", 'failure mode must be fail_fast or best_effort');
    }
    expect(errorsOf(failure('{}'))).toEqual([]);
  });
});

describe('assignments', () => {
  const set = (text: string): string => step(`${NOOP}    set: ${text}`);

  it.each([
    'a-b',
    'ctx',
    'ctx.',
    'ctx.a..b',
    'workload.x',
    'ctx.steps',
    'iter.x',
    'event',
    'a b',
    '1a',
    "''",
    'ctx.a.__proto__',
  ])('of a step cannot have the key %s', (key) => {
    const shown = key === "''" ? '' : key;
    refuses(set(`{ «${key}: 1 }`), 'set_key', "Step 'a'", `cannot assign to '${shown}'`);
  });

  it('must be a map', () => {
    refuses(set('«[1]'), 'set_key', "Step 'a'", 'set must be a map');
  });

  it('on an arc cannot write iteration variables', () => {
    const source = step(`${NOOP}    next: { arcs: [{ step: a, set: { «iter.x: 1 } }] }`);
    refuses(source, 'set_key', "Step 'a'", "cannot assign to 'iter.x'");
  });

  it('from legacy arc args cannot write reserved roots', () => {
    const source = step(`${NOOP}    next: [{ step: a, args: { «workload: 1 } }]`);
    refuses(source, 'set_key', "Step 'a'", "cannot assign to 'workload'");
  });
});

describe('templates', () => {
  const bad = (source: string, subject: string): void => {
    const { text, line, column } = marked(source);
    const errors = errorsOf(text);
    expect(errors).toHaveLength(1);
    expect(errors[0]).toMatchObject({ code: 'template_syntax', line, column });
    expect(errors[0]?.message.startsWith(`${subject}: template: `)).toBe(true);
    expect(errors[0]?.message).toMatch(/ in ".+" \(line \d+\)$/s);
  };

  it('are refused wherever they are', () => {
    const worker = [
      tool('{ kind: noop, message: «"{{ 1 + }}" }'),
      tool('{ kind: noop, result: { a: [«"{{ 1 + }}"] } }'),
      tool('{ kind: noop, result: { «"{{ 1 + }}": 1 } }'),
      tool('{ kind: noop, input: { a: «"{{ 1 + }}" } }'),
      tool('{ kind: noop, set: { a: «"{{ 1 + }}" } }'),
      tool('{ kind: noop, timeout: «"{{ 1 + }}" }'),
      step(`${NOOP}    input: { a: «"{{ 1 + }}" }`),
      step(`${NOOP}    set: { a: «"{{ 1 + }}" }`),
      step(`${NOOP}    next: { arcs: [{ step: a, when: «"{{ 1 + }}" }] }`),
      step(`${NOOP}    next: { arcs: [{ step: a, set: { a: «"{{ 1 + }}" } }] }`),
      step(`${NOOP}    when: «"{{ 1 + }}"`),
      step(`${NOOP}    loop: { in: «"{{ 1 + }}", iterator: x }`),
      step(`${NOOP}    loop: { in: [1], iterator: x, spec: { max_in_flight: «"{{ 1 + }}" } }`),
      step(`${NOOP}    spec: { policy: { admit: { rules: [{ when: «"{{ 1 + }}", then: { allow: true } }] } } }`),
    ];
    for (const source of worker) bad(source, "Step 'a'");
    const task = "Step 'a', task 't'";
    bad(rules('[{ when: «"{{ 1 + }}", then: { do: fail } }]'), task);
    bad(rules('[{ when: «"1 +", then: { do: fail } }]'), task);
    bad(rules('[{ then: { do: retry, attempts: «"{{ 1 + }}" } }]'), task);
    bad(rules('[{ then: { set: { a: «"{{ 1 + }}" } } }]'), task);
    const entry = 'keychain:\n  - { name: k, kind: static, map: { a: «"{{ 1 + }}" } }\n';
    bad(workflow(`  - step: a\n${NOOP}`, entry), "Keychain entry 'k'");
  });

  it('are refused with unknown filters, which are named', () => {
    const [error] = errorsOf(tool(`{ kind: noop, message: "{{ 'x' | frobnicate }}" }`));
    expect(error).toMatchObject({ code: 'template_syntax', step: 'a', line: 6 });
    expect(error?.message).toContain('frobnicate');
  });

  it('of the workload are data and never looked at', () => {
    expect(errorsOf(workflow(`  - step: a\n${NOOP}`, 'workload: { a: "{{ 1 + }}" }\n'))).toEqual([]);
  });

  it.each([
    '    set: { a: «"{{ keychain.k.token }}" }',
    '    next: { arcs: [{ step: a, when: «"{{ keychain.k.token }}" }] }',
    '    next: { arcs: [{ step: a, set: { a: { b: [«"{{ keychain.k.token }}"] } } }] }',
    '    loop: { in: «"{{ keychain.k.list }}", iterator: x }',
    '    loop: { in: [1], iterator: x, spec: { max_in_flight: «"{{ keychain.k.n }}" } }',
    '    when: «"{{ keychain.k.token }}"',
    '    loop: { cursor: { kind: postgres, claim: x, options: { a: «"{{ keychain.k.n }}" } }, iterator: x, spec: { mode: cursor } }',
  ])('of the server cannot read the keychain: %s', (lines) => {
    refuses(step(NOOP + lines), 'template_root', "Step 'a'", "'keychain' is not available here");
  });

  it('of a worker can read the keychain', () => {
    expect(
      errorsOf(
        tool('{ kind: http, url: x, headers: { A: "{{ keychain.k.token }}" }, set: { a: "{{ keychain.k.b }}" } }'),
      ),
    ).toEqual([]);
  });
});

describe('workbook and keychain', () => {
  const book = 'workbook:\n  - { name: one, tool: { kind: noop } }\n  - { name: two, tool: { kind: noop } }\n';
  const with_ = (root: string, text = '{ kind: noop }'): string => workflow(`  - step: a\n    tool: ${text}\n`, root);

  it('refuses references to nothing', () => {
    const unknown = with_(book, '{ kind: workbook, action: «three }');
    refuses(unknown, 'workbook_ref', "Step 'a'", "unknown workbook action 'three'; available: one, two");
    const nameless = with_(book, '«{ kind: workbook }');
    refuses(nameless, 'workbook_ref', "Step 'a'", 'workbook reference without a name; available: one, two');
  });

  it.each([
    ['workbook: «7\n', 'Document', 'workbook must be a list of {name, tool}'],
    ['workbook:\n  - «tool: { kind: noop }\n', 'Document', 'a workbook action needs a name'],
    [
      'workbook:\n  - { name: w, tool: «{ kind: workbook, action: w } }\n',
      "Workbook action 'w'",
      'an action cannot refer to a workbook action',
    ],
    [
      'workbook:\n  - { name: w, tool: { kind: noop } }\n  - { name: «w, tool: { kind: noop } }\n',
      "Workbook action 'w'",
      'duplicate action name',
    ],
  ])('refuses %j', (root, subject, text) => {
    refuses(with_(root), 'workbook_ref', subject, text);
  });

  it('refuses actions without one tool', () => {
    const missing = with_('workbook:\n  - «name: w\n');
    refuses(missing, 'tool_missing', "Workbook action 'w'", "Missing 'tool' field (a tool is required)");
    const list = with_('workbook:\n  - { name: w, tool: «[{ kind: noop }] }\n');
    const shape = "tool must be a map with 'kind' or a non-empty list of tasks";
    refuses(list, 'tool_shape', "Workbook action 'w'", shape);
  });

  it('refuses an action whose tool has no kind', () => {
    const [error] = errorsOf(with_('workbook:\n  - { name: w, tool: { url: x } }\n', '{ kind: noop }'));
    expect(error).toMatchObject({ code: 'tool_shape', message: expect.stringContaining("a map with 'kind'") });
  });

  it('says once what is wrong in an action that is used twice', () => {
    const root = 'workbook:\n  - { name: w, tool: { kind: http, url: «7 } }\n';
    const source = with_(root, '[{ kind: workbook, action: w }, { kind: workbook, action: w }]');
    refuses(source, 'tool_field', "Workbook action 'w'", "'url' must be a string");
  });

  it('takes the input of the reference where one of both is no map', () => {
    const root = 'workbook:\n  - { name: w, tool: { kind: noop, input: { a: 1 } } }\n';
    const parsed = parsePlaybook(with_(root, '{ kind: workbook, action: w, input: "{{ x }}" }'));
    expect(parsed.ok || parsed.errors.map(({ code }) => code)).toEqual(['tool_field']);
  });

  it('lets the reference give what the action lacks, and refuses when neither does', () => {
    const root = 'workbook:\n  - { name: w, tool: { kind: http } }\n';
    expect(errorsOf(with_(root, '{ kind: workbook, action: w, url: x }'))).toEqual([]);
    refuses(with_(root, '«{ kind: workbook, action: w }'), 'tool_field', "Step 'a'", "'url' is required for kind http");
  });

  it.each([
    ['«7', 'Document', 'keychain must be a list of entries'],
    ['[«{ kind: static, map: {} }]', 'Document', 'a keychain entry needs a name'],
    ['[«7]', 'Document', 'a keychain entry needs a name'],
    ['[«{ name: k }]', "Keychain entry 'k'", 'kind is missing'],
    [
      '[{ name: k, kind: «magic }]',
      "Keychain entry 'k'",
      "unknown kind 'magic'; known kinds: secret_manager, oauth2, http, bearer, static, credential",
    ],
    [
      '[{ name: k, kind: bearer, token: t, scope: «galaxy }]',
      "Keychain entry 'k'",
      "unknown scope 'galaxy', use global, local or shared",
    ],
    [
      '[{ name: k, kind: bearer, token: t, scope: «7 }]',
      "Keychain entry 'k'",
      "unknown scope '7', use global, local or shared",
    ],
    ['[«{ name: k, kind: oauth2 }]', "Keychain entry 'k'", "'endpoint' is required for kind oauth2"],
    ['[«{ name: k, kind: http }]', "Keychain entry 'k'", "'endpoint' is required for kind http"],
    ['[«{ name: k, kind: bearer }]', "Keychain entry 'k'", "'token' is required for kind bearer"],
    ['[«{ name: k, kind: static }]', "Keychain entry 'k'", "'map' is required for kind static"],
    ['[{ name: k, kind: static, map: «7 }]', "Keychain entry 'k'", "'map' must be a map"],
    ['[{ name: k, kind: bearer, token: «7 }]', "Keychain entry 'k'", "'token' must be a string"],
    [
      '[«{ name: k, kind: secret_manager, map: {} }]',
      "Keychain entry 'k'",
      "'provider' is required for kind secret_manager",
    ],
    ['[{ name: k, kind: credential }, { name: «k, kind: credential }]', "Keychain entry 'k'", 'duplicate entry name'],
    ['[{ name: «__proto__, kind: credential }]', "Keychain entry '__proto__'", "entry name '__proto__' is reserved"],
  ])('refuses the keychain %s', (text, subject, message) => {
    refuses(with_(`keychain: ${text}\n`), 'keychain_entry', subject, message);
  });
});

describe('a report', () => {
  it('has every error, in document order, none hiding another', () => {
    const text = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: sync, path: demo/sync }
workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [{ step: sync }] }
  - step: sync
    tool:
      - name: fetch
        kind: http
        url: https://example.test
        spec:
          policy:
            rules:
              - when: "{{ output.status == 'error' }}"
                then:
                  do: jump
                  to: fetsh
    next: { arcs: [{ step: end }] }
  - step: end
`;
    expect(errorsOf(text)).toEqual([
      {
        severity: 'error',
        code: 'rule_action',
        message: "Step 'sync', task 'fetch': jump target 'fetsh' does not exist (line 19)",
        step: 'sync',
        task: 'fetch',
        path: 'workflow[1].tool[0].spec.policy.rules[0].then.to',
        line: 19,
        column: 23,
        endLine: 19,
        endColumn: 28,
      },
      {
        severity: 'error',
        code: 'tool_missing',
        message: "Step 'end': Missing 'tool' field (a tool is required) (line 21)",
        step: 'end',
        task: null,
        path: 'workflow[2]',
        line: 21,
        column: 5,
        endLine: 21,
        endColumn: 9,
      },
    ]);
  });

  it('tells all duplicate keys at once', () => {
    const errors = errorsOf('a: 1\na: 2\nb: { c: 1, c: 2 }\n');
    expect(errors.map(({ line, column }) => [line, column])).toEqual([
      [2, 1],
      [3, 12],
    ]);
  });
});

describe('hostile documents', () => {
  /** Of processor time, and generous. What these guard against takes minutes. */
  const SOON_MS = 10_000;

  function quickly(text: string): readonly Diagnostic[] {
    const spent = processorTime();
    const errors = errorsOf(text);
    expect(spent()).toBeLessThan(SOON_MS);
    return errors;
  }
  const book = (tool: string, references: number): string => {
    const tools = '{ kind: workbook, action: w },'.repeat(30);
    const steps = Array.from({ length: references / 30 }, (_, index) => `  - { step: s${index}, tool: [${tools}] }\n`);
    return workflow(steps.join(''), `workbook:\n  - name: w\n    tool: ${tool}\n`);
  };

  it('with a large action and many references are checked once', () => {
    expect(quickly(book(`{ kind: noop, result: [${'"{{ x }}",'.repeat(3000)}] }`, 27_000))).toEqual([]);
  });

  it('cannot grow by references to an action with many inputs', () => {
    const inputs = Array.from({ length: 10_000 }, (_, index) => `i${index}: 1`).join(', ');
    const [error] = quickly(book(`{ kind: noop, input: { ${inputs} } }`, 27_000));
    expect(error).toMatchObject({
      code: 'yaml_syntax',
      message: expect.stringContaining('expand to too large a document'),
    });
  });

  it('with conditions of nothing but braces are refused', () => {
    const errors = quickly(step(`${NOOP}    when: "${'{{'.repeat(400_000)}"`));
    expect(errors.map(({ code }) => code)).toEqual(['template_syntax']);
  });

  it('with very many arcs are read', () => {
    const arcs = (from: number): string =>
      Array.from({ length: 40 }, (_, index) => `{ step: s${(from * 7 + index * 13) % 500} }`).join(', ');
    const steps = Array.from(
      { length: 500 },
      (_, index) =>
        `  - { step: s${index}, tool: { kind: noop }, next: { spec: { mode: inclusive }, arcs: [${arcs(index)}] } }\n`,
    );
    expect(quickly(workflow(steps.join('')))).toEqual([]);
  });
});
