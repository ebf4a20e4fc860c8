/** The commands for authors, and that the page about them tells the truth. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { type Command, readCall, UsageError } from '../../src/cli/command.ts';
import { recordingTerminal } from '../cli/recording-terminal.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PAGE = readFileSync(join(ROOT, 'docs/simulation.md'), 'utf8');
const EXAMPLES = ['hello', 'fan-out', 'errors', 'retry', 'loop', 'nested'];
const folder = mkdtempSync(join(tmpdir(), 'callboard-author-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function callboard(name: string, ...argv: readonly string[]) {
  const { command } = (await import(`../../src/cli/commands/${name}.ts`)) as { command: Command };
  const terminal = recordingTerminal();
  const code = await command.run(readCall(command, argv, { env: {}, terminal }));
  return { code, out: terminal.output(), err: terminal.errors() };
}

function written(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

describe('docs/simulation.md', () => {
  const files = [...PAGE.matchAll(/```yaml\n# (\w+\.yaml)\n([\s\S]*?)```/g)];
  const shown = [...PAGE.matchAll(/```console\n([\s\S]*?)```/g)].flatMap(([, block = '']) =>
    block.split(/^\$ npx callboard /m).slice(1),
  );

  test('shows every command', () => {
    expect([...new Set(shown.map((each) => each.split(' ')[0]))]).toEqual(['simulate', 'test', 'explore', 'replay']);
  });

  test.each(shown.map((each) => [each.split('\n')[0] ?? '', each] as const))('callboard %s', async (line, each) => {
    for (const [, name = '', text = ''] of files) written(name, text);
    const [name = '', ...words] = line.split(' ');
    const place = (word: string) =>
      word.startsWith('examples/') ? join(ROOT, word) : /^\w+\.(yaml|json)$/.test(word) ? join(folder, word) : word;
    const { code, out, err } = await callboard(name, ...words.map(place));
    expect(`${err}${out}`.replaceAll(ROOT, '')).toBe(each.slice(line.length + 1));
    expect(code).toBe(0);
  });
});

describe('the examples', () => {
  test.each(EXAMPLES)('%s keeps its test file', async (name) => {
    const { code, out } = await callboard('test', join(ROOT, `examples/tests/${name}.test.yaml`));
    expect(out).not.toContain('FAIL');
    expect(code).toBe(0);
  });

  test.each(EXAMPLES)('%s has nothing that cannot work', async (name) => {
    const { code, out } = await callboard('explore', join(ROOT, `examples/${name}.yaml`));
    expect({ code, out }).toEqual({ code: 0, out: '' });
  });
});

describe('callboard test', () => {
  const playbook = written('p.yaml', readFileSync(join(ROOT, 'examples/errors.yaml'), 'utf8'));

  test('says what was expected and what came', async () => {
    const file = written(
      'p.test.yaml',
      `playbook: p.yaml
cases:
  - name: all wrong <&>
    outcomes: [{ step: start, times: 1, result: { charged: 3 } }, { step: start, try: 9, result: 1 }]
    expect: { status: failed, result: { receipt: 4, extra: [1] }, ran: [apologise], notRan: [receipt], tries: { start: 2 } }
  - name: says nothing
    expect: { status: completed }
`,
    );
    const junit = join(folder, 'junit.xml');
    const { code, out } = await callboard('test', file, '--junit', junit);
    expect(code).toBe(1);
    expect(out.replaceAll(`${folder}/`, '').split('\n')).toEqual([
      'FAIL  p.test.yaml  all wrong <&>',
      '        status: expected failed, got completed',
      '        result.receipt: expected 4, got 3',
      '        result.extra: expected [1], there is none',
      '        ran: apologise did not run',
      '        notRan: receipt ran',
      '        tries.start: expected 2, got 1',
      '        outcomes[1]: no try has used it (step start)',
      'FAIL  p.test.yaml  says nothing',
      '        outcomes: nothing is said for step start; say what it answers, or give default_outcome',
      '0 passed, 2 failed',
      '',
    ]);
    const xml = readFileSync(junit, 'utf8');
    expect(xml).toContain('<testsuites tests="2" failures="2"');
    expect(xml).toContain('name="all wrong &lt;&amp;&gt;"');
  });

  test('names everything that is wrong with a test file', async () => {
    const file = written(
      'bad.test.yaml',
      `playbook: ${playbook}\ncases: [{ expect: { status: done, stat: 1 }, outcomes: [1] }]\nmore: 1\n`,
    );
    await expect(callboard('test', file)).rejects.toThrow(
      [
        `${file}: cases[0]: 'name' is required`,
        `${file}: cases[0].outcomes[0]: must be an object`,
        `${file}: cases[0].expect.status: must be completed, failed or cancelled`,
        `${file}: cases[0].expect.stat: is not known here`,
        `${file}: more: is not known here`,
      ].join('\n'),
    );
  });

  test('finds a playbook anywhere, and says when it is given one, or no case has the name', async () => {
    const expected = 'cases: [{ name: free, default_outcome: {}, expect: { status: completed } }]';
    const file = written('away.test.yaml', `playbook: ${playbook}\n${expected}\n`);
    expect(await callboard('test', file)).toMatchObject({ code: 0 });
    await expect(callboard('test', playbook)).rejects.toThrow(`${playbook} is a playbook; a test file names one`);
    await expect(callboard('test', file, '--only', 'cheap')).rejects.toThrow("no case has 'cheap' in its name");
    await expect(callboard('simulate', folder)).rejects.toThrow(`${folder} is a folder, not a file`);
  });
});

test('callboard explore tells where something cannot work', async () => {
  const file = written(
    'odd.yaml',
    `apiVersion: callboard/v2
kind: Playbook
metadata: { name: odd, path: odd }
workflow:
  - step: a
    tool: { kind: noop }
    next: { arcs: [{ step: b, when: "{{ event.name == 'loop.done' }}" }] }
  - step: b
    tool: { kind: noop }
`,
  );
  const { code, out } = await callboard('explore', file);
  expect(code).toBe(1);
  expect(out.replaceAll(`${folder}/`, '').split('\n')).toEqual([
    "odd.yaml:5  Step 'a': the arc to 'b' is never taken: {{ event.name == 'loop.done' }} is false whenever it is asked  guard_never_true",
    "odd.yaml:8  Step 'b': no way that can be taken leads here  step_never_runs",
    '',
  ]);
});

describe('callboard simulate', () => {
  const outcomes = (text: string) => written('said.yaml', text);

  test('tells once what was not said, whose it is, and which outcomes nobody needed', async () => {
    const file = outcomes("[{ step: strat }, { step: end }, { path: examples/hello, step: end, when: 'false' }]");
    const nested = await callboard('simulate', join(ROOT, 'examples/nested.yaml'), '--outcomes', file);
    expect(nested.err).toContain('No outcome was said for examples/hello: start (3 tries), so it answered {}.\n');
    expect(nested.err).toContain('Outcome 0 was never used (step strat).\n');
    expect(nested.err).toContain('Outcome 2 was never used (step end).\n');
    const loop = await callboard('simulate', join(ROOT, 'examples/loop.yaml'), '--outcomes', file);
    expect(loop.err).toContain('No outcome was said for start (40 tries), so it answered {}.\n');
    expect(loop.err).toContain("Outcome 0 was never used: there is no step 'strat'.\n");
  });

  test('says where it was stopped, and which numbers it takes', async () => {
    const loop = join(ROOT, 'examples/loop.yaml');
    const stopped = await callboard('simulate', loop, '--outcomes', outcomes('limits: { max_events: 20 }'));
    expect(stopped.code).toBe(4);
    expect(stopped.err).toMatch(/^stopped after 0ms of virtual time, \d+ events: .*limits\.max_events$/m);
    await expect(callboard('simulate', loop, '--cancel-at=-4')).rejects.toThrow('must be a whole number of at least 0');
    await expect(callboard('simulate', loop, '--seed', 'x')).rejects.toThrow('--seed must be a whole number');
    expect((await callboard('explore', loop, '--paths', '1')).err).toContain('1 path (there are more; ');
  });

  test('says nothing of a default that was given, and that the one that fails was met', async () => {
    const hello = join(ROOT, 'examples/hello.yaml');
    const given = await callboard(
      'simulate',
      hello,
      '--outcomes',
      outcomes('default_outcome: { result: { text: Hi } }'),
    );
    expect(given.err).not.toContain('No outcome');
    const failing = await callboard('simulate', hello, '--outcomes', outcomes('default_outcome: fail'));
    expect(failing).toMatchObject({ code: 1 });
    expect(failing.err).toContain('No outcome was said for start, so it failed.\n');
  });

  test('names what is wrong with a file of outcomes, and where a child was looked for', async () => {
    const file = outcomes("[{ step: a, when: 'input.who ==' }, { steps: a }]");
    await expect(callboard('simulate', join(ROOT, 'examples/hello.yaml'), '--outcomes', file)).rejects.toThrow(
      [
        `${file}: outcomes[0].when: must be a condition that can be read: expected an expression in "input.who =="`,
        `${file}: outcomes[1]: 'step' is required`,
        `${file}: outcomes[1].steps: is not known here`,
      ].join('\n'),
    );
    const parent = written(
      'parent.yaml',
      `apiVersion: callboard/v2
kind: Playbook
metadata: { name: parent, path: parent }
workflow:
  - step: a
    tool: { kind: playbook, path: not/there }
`,
    );
    const { err } = await callboard('simulate', parent);
    expect(err).toContain(`not/there (no playbook in ${folder} or named by --with has this path)`);
  });
});

test('callboard replay names what is wrong with the playbook it is to decide by', async () => {
  const log = join(folder, 'kept.json');
  await callboard('simulate', join(ROOT, 'examples/hello.yaml'), '--log', log);
  const bad = written(
    'unknown.yaml',
    `apiVersion: callboard/v2
kind: Playbook
metadata: { name: bad, path: bad }
workflow: [{ step: a, tool: { kind: nope } }]
`,
  );
  const { command } = await import('../../src/cli/commands/replay.ts');
  const terminal = recordingTerminal();
  const call = readCall(command, [log, '--playbook', bad], { env: {}, terminal });
  await expect(command.run(call)).rejects.toThrow(`${bad} is no playbook that passes its checks`);
  expect(terminal.errors()).toContain("unknown tool kind 'nope'");
});

test.each([
  ['simulate', 'examples/hello.yaml', '--log'],
  ['test', 'examples/tests/hello.test.yaml', '--junit'],
])('%s names a file that cannot be written', async (name, file, option) => {
  const place = join(folder, 'nowhere', 'out');
  await expect(callboard(name, join(ROOT, file), option, place)).rejects.toThrow(
    new UsageError(`${place} cannot be written (ENOENT)`),
  );
});
