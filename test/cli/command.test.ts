import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  type Command,
  helpOf,
  idWord,
  JSON_OPTION,
  readCall,
  SERVER_OPTION,
  secondsOption,
  UsageError,
} from '../../src/cli/command.ts';
import { freePort } from '../../src/cli/free-port.ts';
import { inputsOf, pairOf } from '../../src/cli/inputs.ts';
import { recordingTerminal } from './recording-terminal.ts';

const SAMPLE: Command = {
  usage: 'FILE [options]',
  description: 'Does nothing.',
  options: {
    set: { type: 'string', multiple: true, help: 'an input' },
    timeout: { type: 'string', help: 'seconds' },
    input: { type: 'string', help: 'a file' },
    ...SERVER_OPTION,
    ...JSON_OPTION,
  },
  words: [1, 2],
  run: async () => 0,
};

function read(...argv: readonly string[]) {
  return readCall(SAMPLE, argv, { env: {}, terminal: recordingTerminal() });
}

describe('the words of a command', () => {
  test('options may stand anywhere', () => {
    const call = read('--set', 'a=1', 'file.yaml', '--json', '--set=b=2', '--timeout', '1.5');
    expect(call.words).toEqual(['file.yaml']);
    expect(call.lists['set']).toEqual(['a=1', 'b=2']);
    expect(call.flags['json']).toBe(true);
    expect(secondsOption(call, 'timeout')).toBe(1.5);
  });

  test.each([
    [[], 'needs FILE'],
    [['a', 'b', 'c'], "does not take 'c'"],
    [['a', '--nothing'], "unknown option '--nothing'"],
    [['a', '--set'], "option '--set <value>' argument missing"],
    [['a', '--server', 'here'], "--server must be an address starting with http:// or https://, not 'here'"],
    [['a', '--server', 'ftp://here'], '--server must be an address'],
  ])('%j is refused with a sentence', (argv, sentence) => {
    expect(() => read(...argv)).toThrow(UsageError);
    expect(() => read(...argv)).toThrow(sentence);
  });

  test.each(['0', '-1', 'soon', 'Infinity'])('a time limit of %s is refused', (text) => {
    expect(() => secondsOption(read('a', `--timeout=${text}`), 'timeout')).toThrow(UsageError);
  });

  test.each([undefined, '0', '007', '1e3', '12345678901234567'])('%s is not an execution id', (text) => {
    expect(() => idWord(text)).toThrow(UsageError);
  });

  test('the help names every option', () => {
    const help = helpOf('sample', SAMPLE);
    for (const option of Object.keys(SAMPLE.options)) expect(help).toContain(`--${option}`);
    expect(help).toContain('usage: callboard sample FILE [options]');
  });
});

describe('inputs', () => {
  test.each([
    ['who=world', ['who', 'world']],
    ['n=3', ['n', 3]],
    ['on=true', ['on', true]],
    ['list=[1,"a"]', ['list', [1, 'a']]],
    ['text="3"', ['text', '3']],
    ['equation=a=b', ['equation', 'a=b']],
    ['empty=', ['empty', '']],
  ])('%s reads as %j', (text, pair) => {
    expect(pairOf(text)).toEqual(pair);
  });

  test.each(['novalue', '=1', '__proto__=1'])('%s is refused', (text) => {
    expect(() => pairOf(text)).toThrow(UsageError);
  });

  test('--set wins over --input, and the later one over the earlier', async () => {
    const file = inputFile('{"a": 1, "b": 2}');
    expect(await inputsOf(read('x', '--input', file, '--set', 'b=3', '--set', 'b=4'))).toEqual({ a: 1, b: 4 });
  });

  test.each([
    ['[1]', 'must hold one JSON object'],
    ['{', 'is not JSON'],
  ])('an input file with %s is refused', async (text, sentence) => {
    await expect(inputsOf(read('x', '--input', inputFile(text)))).rejects.toThrow(sentence);
  });

  test('a missing input file is named', async () => {
    await expect(inputsOf(read('x', '--input', '/nonexistent/in.json'))).rejects.toThrow(
      'there is no file /nonexistent/in.json',
    );
  });
});

test('a taken port is passed over', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const taken = typeof address === 'object' && address !== null ? address.port : 0;
  expect(await freePort('127.0.0.1', taken, 0)).toBeNull();
  expect(await freePort('127.0.0.1', taken, 50)).toBeGreaterThan(taken);
  server.close();
});

function inputFile(text: string): string {
  const file = join(mkdtempSync(join(tmpdir(), 'callboard-input-')), 'in.json');
  writeFileSync(file, text);
  return file;
}
