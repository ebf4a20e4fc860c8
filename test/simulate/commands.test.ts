/** The commands for authors, and that the page about them tells the truth. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { type Command, readCall } from '../../src/cli/command.ts';
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
    const file = written('bad.test.yaml', `playbook: ${playbook}\ncases: [{ expect: { status: done } }]\n`);
    await expect(callboard('test', file)).rejects.toThrow(
      'cases[0].expect.status: must be completed, failed or cancelled',
    );
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
