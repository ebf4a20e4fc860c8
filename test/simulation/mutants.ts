/**
 * `npm run sim:mutants`: plants one defect after the other and looks how many seeds the simulator needs to find it. Writes
 * the table into docs/testing.md, unless told to keep it; fails when a defect that somebody could notice is not found.
 */
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { MUTANTS, type Mutant } from './patches.ts';

interface Found {
  readonly mutant: Mutant;
  readonly invariant: string | null;
  readonly seeds: number;
}

/** A process that says nothing for so long hangs. */
const SILENCE_MS = 60_000;
const BEGIN = '<!-- mutants: written by npm run sim:mutants -->';
const END = '<!-- /mutants -->';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '2000' },
    only: { type: 'string' },
    keep: { type: 'boolean', default: false },
    at: { type: 'string', default: '2' },
  },
});
const seeds = Number(values.seeds);
const chosen = MUTANTS.filter(({ name }) => values.only === undefined || name.includes(values.only));
const found: Found[] = [];
const queue = [...chosen];
await Promise.all(Array.from({ length: Number(values.at) }, lane));
if (values.only === undefined && !values.keep)
  writeTable(chosen.flatMap((mutant) => found.find((each) => each.mutant === mutant) ?? []));
const missed = found.filter(({ invariant, mutant }) => invariant === null && mutant.equivalent === undefined);
for (const { mutant } of missed) console.log(`not found: ${mutant.name}`);
process.exitCode = missed.length > 0 ? 1 : 0;

async function lane(): Promise<void> {
  for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
    const result = await look(mutant);
    found.push(result);
    console.log(`${result.invariant ?? '-'} after ${result.seeds}: ${mutant.name}`);
  }
}

function look(mutant: Mutant): Promise<Found> {
  const main = fileURLToPath(new URL('./main.ts', import.meta.url));
  const args = ['--max-old-space-size=2000', main, '--brief', '--seeds', String(seeds), '--mutant', mutant.name];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  return new Promise((resolve) => {
    let done = 0;
    let invariant: string | null = null;
    let timer = setTimeout(hang, SILENCE_MS);
    function hang(): void {
      invariant = 'the process hangs';
      child.kill('SIGKILL');
    }
    let rest = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      clearTimeout(timer);
      timer = setTimeout(hang, SILENCE_MS);
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (line.startsWith('at ')) done += 1;
        const [, , name] = /^found (\d+) (.*)$/.exec(line) ?? [];
        invariant ??= name ?? null;
      }
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      const died = code === 0 || code === 1 ? null : `the process dies (${signal ?? code})`;
      resolve({ mutant, invariant: invariant ?? died, seeds: done });
    });
  });
}

function writeTable(results: readonly Found[]): void {
  const path = fileURLToPath(new URL('../../docs/testing.md', import.meta.url));
  const text = readFileSync(path, 'utf8');
  const begin = text.indexOf(BEGIN);
  const end = text.indexOf(END);
  if (begin < 0 || end < begin) throw new Error('docs/testing.md has no place for the table of mutants');
  const rows = results.map(({ mutant, invariant, seeds: needed }) =>
    invariant === null
      ? `| ${mutant.name} | ${mutant.equivalent === undefined ? '**not found**' : `equivalent: ${mutant.equivalent}`} | ${needed} |`
      : `| ${mutant.name} | ${invariant} | ${needed} |`,
  );
  const table = ['| planted defect | found by | seeds needed |', '| --- | --- | --- |', ...rows].join('\n');
  writeFileSync(path, `${text.slice(0, begin + BEGIN.length)}\n\n${table}\n\n${text.slice(end)}`);
}
