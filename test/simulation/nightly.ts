/**
 * `npm run sim:nightly`: more seeds than a change can wait for, others each day, some of them twice; a fault that never
 * mattered fails it. Then every planted defect has to be found, which also shows that a failure would be seen. Takes
 * half an hour to two, by the machine; `--seeds` and `--mutant-seeds` bound it, `--seed` repeats a night.
 */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** A night's seeds lie apart from those of the gate and of other nights. */
const NIGHT = 100_000;
const DAY_MS = 86_400_000;
const LEAST = 10_000;

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Math.floor(Date.now() / DAY_MS) * NIGHT) },
    seeds: { type: 'string', default: '20000' },
    'mutant-seeds': { type: 'string', default: '2000' },
  },
});
if (!(Number(values.seeds) >= LEAST && Number(values.seeds) <= NIGHT))
  throw new Error(`--seeds must be ${LEAST} to ${NIGHT}: with fewer a rare fault may never matter`);

const seeds = ['--seed', values.seed, '--seeds', values.seeds];
const isSound = await run('main.ts', [...seeds, '--nightly', '--twice-every', '100']);
const areFound = await run('mutants.ts', ['--seeds', values['mutant-seeds'], '--keep']);
console.log(`the night of seed ${values.seed}: seeds ${verdict(isSound)}, planted defects ${verdict(areFound)}`);
process.exitCode = isSound && areFound ? 0 : 1;

function run(file: string, args: readonly string[]): Promise<boolean> {
  const path = fileURLToPath(new URL(`./${file}`, import.meta.url));
  const child = spawn(process.execPath, ['--max-old-space-size=2000', path, ...args], { stdio: 'inherit' });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve(code === 0));
  });
}

function verdict(holds: boolean): string {
  return holds ? 'held' : 'FAILED';
}
