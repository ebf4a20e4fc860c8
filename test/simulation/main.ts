/**
 * The simulator's command: `npm run sim -- --seed N --seeds M`. The first line is the seed and what goes wrong; a failure
 * prints the invariant, the last steps, and the commands that replay it as it was and as small as it was found.
 *
 * `--mutant NAME` plants a defect; `--plain` leaves the constants of production; `--twice` compares two runs of each seed;
 * `--nightly` fails also when a fault never mattered; `--drop`, `--zero`, `--servers`, `--workers` make a seed smaller.
 */
import { parseArgs } from 'node:util';
import { patchModules } from './load-patches.ts';
import { MUTANTS, TINY } from './patches.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '1' },
    mutant: { type: 'string' },
    plain: { type: 'boolean', default: false },
    twice: { type: 'boolean', default: false },
    nightly: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
    brief: { type: 'boolean', default: false },
    drop: { type: 'string', default: '' },
    zero: { type: 'string', default: '' },
    servers: { type: 'string' },
    workers: { type: 'string' },
  },
});
const mutant = MUTANTS.find((each) => each.name === values.mutant);
if (values.mutant !== undefined && mutant === undefined) throw new Error(`there is no mutant '${values.mutant}'`);
patchModules([...(values.plain ? [] : TINY), ...(mutant === undefined ? [] : [mutant])]);
// The product is imported from here on.
const { runSeeds } = await import('./seeds.ts');

const first = Number(values.seed);
const count = Number(values.seeds);
const listOf = (text: string) => text.split(',').filter((each) => each !== '');
const began = process.hrtime.bigint();
const report = await runSeeds({
  ...{ first, count, twice: values.twice, isVerbose: values.verbose, isShrinking: !values.brief },
  cut: {
    drop: listOf(values.drop),
    zero: listOf(values.zero),
    servers: values.servers === undefined ? null : Number(values.servers),
    workers: values.workers === undefined ? null : Number(values.workers),
  },
  failuresMax: values.brief ? 1 : 5,
  again: `${values.plain ? ' --plain' : ''}${mutant === undefined ? '' : ` --mutant '${mutant.name}'`}`,
  say: (line) => {
    if (!values.brief) console.log(line);
  },
  onSeed: (seed) => {
    if (values.brief) console.log(`at ${seed}`);
  },
});
const seconds = Number(process.hrtime.bigint() - began) / 1e9;
const { done, failures, events, virtualMs, cpuSeconds, faults } = report;
if (values.brief) {
  for (const { seed, invariant } of failures) console.log(`found ${seed} ${invariant}`);
} else {
  if (count > 1) for (const line of faults.lines()) console.log(line);
  const perCore = `${(done / cpuSeconds).toFixed(1)} seeds and ${Math.round(events / cpuSeconds)} events per second of one core`;
  console.log(`${done} seeds, ${failures.length} failed, in ${seconds.toFixed(1)} s; ${perCore}`);
  console.log(
    `${Math.round(virtualMs / 1000)} simulated seconds, ${Math.round(virtualMs / 1000 / seconds)} times real time`,
  );
}
const idle = values.nightly ? faults.never() : [];
for (const fault of idle) console.log(`never mattered: ${fault}`);
process.exitCode = failures.length > 0 || idle.length > 0 ? 1 : 0;
