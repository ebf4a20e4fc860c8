/**
 * The simulator's command: `npm run sim -- --seed N --seeds M`. The first line is the seed and what goes wrong; a failure
 * prints the invariant, the last steps, and the commands that replay it as it was and as small as it was found.
 *
 * `--mutant NAME` plants a defect; `--plain` leaves the constants of production; `--twice` compares two runs of each seed,
 * `--twice-every N` of some; `--nightly` fails also when a fault never mattered; `--at N` uses so many processors, by default
 * all where there are many seeds; `--drop`, `--zero`, `--servers`, `--workers` make a seed smaller.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { runLanes, type Word } from './lanes.ts';
import { patchModules } from './load-patches.ts';
import { MUTANTS, patchesOf, TINY } from './patches.ts';

/** Fewer seeds do not pay for more processes. */
const MANY = 100;
const FAILURES_MAX = 5;

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '1' },
    mutant: { type: 'string' },
    plain: { type: 'boolean', default: false },
    stride: { type: 'string', default: '1' },
    at: { type: 'string' },
    /** Another process is told. */
    lane: { type: 'boolean', default: false },
    twice: { type: 'boolean', default: false },
    'twice-every': { type: 'string', default: '0' },
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
const first = wholeNumber('seed', values.seed, 0);
const count = wholeNumber('seeds', values.seeds, 1);
const stride = wholeNumber('stride', values.stride, 1);
const twiceEvery = values.twice ? 1 : wholeNumber('twice-every', values['twice-every'], 0);
const listOf = (text: string) => text.split(',').filter((each) => each !== '');
const cut = {
  drop: listOf(values.drop),
  zero: listOf(values.zero),
  servers: values.servers === undefined ? null : wholeNumber('servers', values.servers, 1),
  workers: values.workers === undefined ? null : wholeNumber('workers', values.workers, 0),
};
const again = [...(values.plain ? ['--plain'] : []), ...(mutant === undefined ? [] : ['--mutant', mutant.name])];
const usual = values.brief || count < MANY ? 1 : availableParallelism();
const lanes = values.at === undefined ? usual : Math.min(count, wholeNumber('at', values.at, 1));
const tell = (word: Word): void => {
  if (values.lane) process.send?.(word);
};

const began = process.hrtime.bigint();
const { done, failures, events, virtualMs, cpuSeconds, faults } = await (lanes === 1 ? alone() : together());
const seconds = Number(process.hrtime.bigint() - began) / 1e9;
if (values.brief) {
  for (const { seed, invariant } of failures) console.log(`found ${seed} ${invariant}`);
} else if (values.lane) {
  const { fired, mattered } = faults.counts();
  const summary = {
    done,
    failures,
    events,
    virtualMs,
    cpuSeconds,
    faults: { fired: [...fired], mattered: [...mattered] },
  };
  tell({ kind: 'end', summary });
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
// The channel to whoever was told keeps a process alive.
if (values.lane) process.disconnect?.();

async function alone() {
  patchModules([...(values.plain ? [] : TINY), ...(mutant === undefined ? [] : patchesOf(mutant))]);
  // The product is imported from here on.
  const { runSeeds } = await import('./seeds.ts');
  return runSeeds({
    ...{ first, count, stride, cut, twiceEvery, isVerbose: values.verbose, isShrinking: !values.brief },
    failuresMax: values.brief ? 1 : FAILURES_MAX,
    again: again.map((each) => ` ${each.includes(' ') ? `'${each}'` : each}`).join(''),
    isAlone: count === 1 && !values.lane,
    say: (line) => {
      if (!values.brief) console.log(line);
    },
    onSeed: (seed) => {
      if (values.brief) console.log(`at ${seed}`);
      tell({ kind: 'seed', seed });
    },
  });
}

function together() {
  const checks = twiceEvery > 0 ? ['--twice-every', `${twiceEvery}`] : [];
  return runLanes({ lanes, first, count, again: [...again, ...checks], say: (line) => console.log(line) });
}

function wholeNumber(name: string, text: string, least: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new Error(`--${name} must be a whole number from ${least}, not '${text}'`);
}
