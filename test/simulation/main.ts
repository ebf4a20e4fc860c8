/**
 * The simulator's command: `npm run sim -- --seed N --seeds M`. The first line is the seed and what it draws; a failure
 * prints the invariant, the last steps and the command that replays it.
 */
import { parseArgs } from 'node:util';
import { FaultBook } from './faults.ts';
import { describePlan, drawPlan } from './plan.ts';
import { simulate } from './simulation.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '1' },
    verbose: { type: 'boolean', default: false },
  },
});
const first = Number(values.seed);
const count = Number(values.seeds);
const faults = new FaultBook();
const began = process.hrtime.bigint();
let events = 0;
let virtualMs = 0;
let failed = 0;
let done = 0;
for (let seed = first; seed < first + count; seed += 1) {
  const plan = drawPlan(seed);
  if (count === 1) console.log(`seed ${seed}: ${describePlan(plan)}`);
  const outcome = await simulate(plan);
  done += 1;
  faults.add(outcome.faults);
  events += outcome.events;
  virtualMs += outcome.virtualMs;
  if (outcome.failure !== null) {
    failed += 1;
    console.log(`seed ${seed}: ${describePlan(plan)}`);
    console.log(outcome.failure.message);
    if (values.verbose) console.log(outcome.trace.join('\n'));
    if (failed > 10) break;
  } else if (count === 1) {
    if (values.verbose) console.log(outcome.trace.join('\n'));
    console.log(
      `ok: ${outcome.events} events, ${outcome.commits} commits, ${Math.round(outcome.virtualMs)} virtual ms, hash ${outcome.hash}`,
    );
  }
}
const seconds = Number(process.hrtime.bigint() - began) / 1e9;
console.log(faults.lines().join('\n'));
console.log(
  `${done} seeds, ${failed} failed, ${(done / seconds).toFixed(1)} seeds/s, ${Math.round(events / seconds)} events/s, ${Math.round(virtualMs / 1000 / seconds)} times real time`,
);
process.exitCode = failed > 0 ? 1 : 0;
