/** `callboard test`: playbooks against files of cases, each one a simulation. */
import { readdir, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import * as v from 'valibot';
import { isMap } from '../../../machines/json.ts';
import { printable } from '../../log.ts';
import { runCase, testCase } from '../../simulate/test-case.ts';
import { list, maybe, text } from '../../wire/fields.ts';
import { type Call, type Command, JSON_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { fileLibrary } from '../file-library.ts';
import { type JunitSuite, junitXml } from '../junit.ts';
import { problemLine, problemsOf, readPlaybookFile } from '../playbook-file.ts';
import { writeTextFile } from '../text-file.ts';
import { shaped, yamlOfFile } from '../yaml-file.ts';

const testFile = v.strictObject({
  playbook: text(4096, 1),
  with: maybe(list(text(4096, 1), 1000)),
  cases: list(testCase, 10_000),
});

export const command: Command = {
  usage: 'FILE|FOLDER… [options]',
  description: `Runs test files, of a folder all its .yaml and .yml: a playbook, and cases of inputs, scripted outcomes and what is
expected of the run. Each case is a simulation; nothing is stored and nothing is called. docs/simulation.md tells what
a case may say.

Exit code: 0 all as expected, 1 not all, 2 wrong use, or a test file or playbook that cannot be read.`,
  options: {
    only: { type: 'string', value: 'TEXT', help: 'cases whose name has this text' },
    junit: { type: 'string', value: 'FILE.xml', help: 'write the results there for a CI system' },
    ...JSON_OPTION,
  },
  words: [1, 1000],
  run: async (call) => {
    const suites: JunitSuite[] = [];
    for (const file of await filesOf(call.words)) suites.push(await runFile(call, file));
    const { junit, only } = call.texts;
    if (only !== undefined && suites.every((suite) => suite.cases.length === 0))
      throw new UsageError(`no case has '${only}' in its name`);
    if (junit !== undefined) await writeTextFile(junit, junitXml(suites));
    const cases = suites.flatMap((suite) => suite.cases);
    const failed = cases.filter(({ failures }) => failures.length > 0).length;
    if (call.flags['json']) call.terminal.out(`${JSON.stringify(suites, null, 2)}\n`);
    else call.terminal.out(`${cases.length - failed} passed, ${failed} failed\n`);
    return failed === 0 ? EXIT.ok : EXIT.failed;
  },
};

/** The files named, and those in the folders named; a folder without any is a mistake, not a success. */
async function filesOf(words: readonly string[]): Promise<readonly string[]> {
  const files: string[] = [];
  for (const word of words) {
    // What is not there is told by who reads it.
    if (!(await stat(word).catch(() => null))?.isDirectory()) {
      files.push(word);
      continue;
    }
    const inside = (await readdir(word)).filter((name) => /\.ya?ml$/.test(name)).sort();
    if (inside.length === 0) throw new UsageError(`${word} has no .yaml file`);
    files.push(...inside.map((name) => join(word, name)));
  }
  return files;
}

async function runFile(call: Call, file: string): Promise<JunitSuite> {
  const value = await yamlOfFile(file);
  if (isMap(value) && value['kind'] === 'Playbook')
    throw new UsageError(`${file} is a playbook; a test file names one and has cases (docs/simulation.md)`);
  const { playbook: path, with: others, cases } = shaped(testFile, value, file);
  const beside = (name: string) => (isAbsolute(name) ? name : join(dirname(file), name));
  const playbook = await readPlaybookFile(beside(path));
  if (!playbook.parsed.ok) {
    for (const problem of problemsOf(playbook)) call.terminal.err(problemLine(playbook.file, problem, call.terminal));
    throw new UsageError(`${playbook.file} does not pass its checks`);
  }
  const library = fileLibrary(playbook.file, (others ?? []).map(beside));
  const document = { content: playbook.text, path: null, version: 1, catalogId: null };
  const results: JunitSuite['cases'][number][] = [];
  const { only } = call.texts;
  for (const each of cases) {
    if (only !== undefined && !each.name.includes(only)) continue;
    const { name, failures, simulation } = await runCase(each, document, library);
    results.push({ name, failures, seconds: simulation.wallMs / 1000 });
    tell(call, file, name, failures);
  }
  return { name: file, cases: results };
}

function tell({ terminal, flags }: Call, file: string, name: string, failures: readonly string[]): void {
  if (flags['json']) return;
  const word = failures.length === 0 ? terminal.style('green', 'ok  ') : terminal.style('red', 'FAIL');
  terminal.out(`${word}  ${file}  ${printable(name)}\n`);
  for (const failure of failures) terminal.out(`        ${printable(failure)}\n`);
}
