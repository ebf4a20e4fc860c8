/**
 * Tidiness as a test: who may import whom, what may not be said where, and whether generated files are what their
 * generators write. The first half proves that each rule can fail.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { generatedFiles } from '../src/cli/generated-files.ts';
import { violations } from './tidy/rules.ts';
import { readSource } from './tidy/source.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FOLDERS = ['machines', 'actors', 'src', 'test', 'bench', 'migrations', 'docs', 'examples'];
const CODE = /\.(tsx?|mjs|js)$/;
const PROSE = /\.(md|sql|ya?ml|json|html)$/;

describe('each rule catches what it forbids', () => {
  test.each([
    ['machines/a.ts', "import pg from 'pg';", 'it is pure'],
    ['machines/a.ts', "import { readFileSync } from 'node:fs';", 'it is pure'],
    ['machines/a.ts', "import { b } from '../actors/b.ts';", 'what is true does not depend on who asks'],
    ['machines/a.ts', 'export async function a() {}', 'synchronous'],
    ['machines/a.ts', 'const a = `${/* } */ Date.now()}`;', 'time, chance, timers'],
    ['machines/a.ts', 'const a = Math.random();', 'time, chance, timers'],
    [
      'machines/a.ts',
      "import { setup } from 'xstate'; const chart = { states: { a: { invoke: 1 } } };",
      'no invoke and no after',
    ],
    ['machines/a.ts', "import { createActor } from 'xstate';", 'createActor()'],
    ['machines/execution/a.ts', "import { transition } from 'xstate';", 'transition()'],
    ['machines/a.ts', "export { b } from './b.ts';", 'No barrels'],
    ['src/a.ts', "export * from './b.ts'; export const c = 1;", 'No barrels'],
    ['actors/a.ts', "import type { B } from '../src/store/b.ts';", 'never on src/'],
    ['actors/a.ts', "import { Pool } from 'pg';", 'with what is a port'],
    ['src/api/a.ts', "import { b } from '../store/b.ts';", 'src/api knows no store'],
    ['src/store/a.ts', "import { b } from '../api/b.ts';", 'implements ports'],
    ['src/wire/a.ts', "import { b } from '../../actors/b.ts';", 'at most types of the services'],
    ['src/worker/a.ts', "const b = await import('../../actors/b.ts');", 'runs on another machine'],
    ['src/tools/a.ts', "import { b } from '../worker/b.ts';", 'neither server nor worker'],
    ['src/client/a.ts', "import { b } from '../store/b.ts';", 'typed HTTP client'],
    ['src/cli/a.ts', "import { b } from '../store/b.ts';", 'no actor and no store'],
    ['src/gui/pages/a.tsx', "import type { B } from '../../wire/b.ts';", 'speaks HTTP'],
    ['src/gui/pages/a.tsx', "import { b } from '../../../machines/playbook/graph.ts';", 'speaks HTTP'],
    ['src/host/a.ts', "import { b } from '../gui/core/b.ts';", 'no library'],
    ['src/cli/a.ts', "import { b } from '../gui/build/b.ts';", 'no library'],
    ['src/gui/pages/aPage.tsx', '', 'kebab case'],
    ['src/host/a.ts', "import { b } from '../store/b.ts';", 'one composition root'],
    ['src/host/a.ts', "import { b } from '../worker/b.ts';", 'composes the server only'],
    ['src/api/a.ts', "import { Pool } from 'pg';", 'pg is imported by'],
    ['src/store/a.ts', "import PgBoss from 'pg-boss';", 'pg-boss is imported by'],
    ['src/worker/a.ts', "import pino from 'pino';", 'pino is imported by'],
    ['src/a.ts', "import { b } from '../test/b.ts';", 'nothing from test/'],
    ['src/a.ts', 'const a: any = 1;', 'No `any`'],
    ['src/a.ts', ['// TO', 'DO later'].join(''), 'Leftovers'],
    ['src/a.ts', ["const a = '", 'work', "main';"].join('/'), 'one machine'],
    ['src/a.ts', "console.log('here');", 'speaks through its log'],
    ['src/api/a.ts', 'const a = process.env.HOME;', 'look at the environment'],
    ['test/a.test.ts', "test.only('a', () => {});", 'focused test'],
    ['src/date-utils.ts', '', 'kebab case'],
    ['src/dateUnits.ts', '', 'kebab case'],
  ])('%s with %s', (file, text, sentence) => {
    expect(violations(readSource(file, text)).join('\n')).toContain(sentence);
  });

  test.each([
    ['machines/a.ts', "import { setup } from 'xstate'; import { b } from './b.ts';"],
    ['machines/a.ts', "const a = 'async Date.now() : any'; // await setTimeout"],
    ['machines/a.ts', 'const a = { process: frame.process, text: /"async/ };'],
    ['machines/index.ts', "export { b } from './b.ts';"],
    ['src/wire/a.ts', "import type { B } from '../../actors/services.ts';"],
    ['src/a.ts', "export type { B } from './b.ts'; export const c = 1;"],
    ['src/host/services.ts', "import { b } from '../store/b.ts';"],
    ['src/gui/pages/a.tsx', "import { b } from '../../../machines/playbook/tool-fields.ts'; const c = <p>#{b}</p>;"],
    ['src/api/a.ts', "import type { B } from '../gui/build/built-gui.ts';"],
    ['src/cli/a.ts', "console.log('here');"],
  ])('%s may say %s', (file, text) => {
    expect(violations(readSource(file, text))).toEqual([]);
  });
});

test('every file keeps the rules', () => {
  const found = FOLDERS.flatMap(filesBelow).flatMap((file) => {
    const text = readFileSync(`${ROOT}/${file}`, 'utf8');
    if (file.startsWith('test/tidy')) return [];
    if (CODE.test(file)) return violations(readSource(file, text));
    return PROSE.test(file) ? violations({ file, text, tokens: [], imports: [] }) : [];
  });
  expect(found.join('\n')).toBe('');
});

test('generated files are what their generators write', () => {
  const stale = generatedFiles().filter((each) => read(each.path) !== each.content);
  expect(stale.map((each) => `${each.path} is stale; run: npm run generate`)).toEqual([]);
});

function read(path: string): string | null {
  try {
    return readFileSync(`${ROOT}/${path}`, 'utf8');
  } catch {
    return null;
  }
}

function filesBelow(folder: string): string[] {
  if (statSync(`${ROOT}/${folder}`, { throwIfNoEntry: false }) === undefined) return [];
  return readdirSync(`${ROOT}/${folder}`, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(ROOT.length).replace(/^\//, ''));
}
