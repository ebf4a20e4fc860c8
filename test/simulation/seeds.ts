/** Runs seeds one after the other, tells of failures with all that is needed to see them again, and adds up. */
import { FaultBook } from './faults.ts';
import { describePlan, drawPlan } from './plan.ts';
import { type Cut, cutPlan, optionsOf, shrink } from './shrink.ts';
import { simulate } from './simulation.ts';

export interface SeedsOptions {
  readonly first: number;
  readonly count: number;
  /** From one seed to the next. */
  readonly stride: number;
  readonly cut: Cut;
  /** There is one seed, and somebody looks at it. */
  readonly isAlone: boolean;
  /** Run every so manieth seed twice and compare; 0: none. */
  readonly twiceEvery: number;
  readonly isVerbose: boolean;
  readonly isShrinking: boolean;
  /** Stop after so many failures. */
  readonly failuresMax: number;
  /** Options that every replay needs as well. */
  readonly again: string;
  say(line: string): void;
  onSeed(seed: number): void;
}

export interface SeedsReport {
  readonly done: number;
  readonly failures: readonly { readonly seed: number; readonly invariant: string }[];
  readonly events: number;
  readonly virtualMs: number;
  readonly cpuSeconds: number;
  readonly faults: FaultBook;
}

const STEPS = 200;
const STEPS_OF_MANY = 40;

export async function runSeeds(options: SeedsOptions): Promise<SeedsReport> {
  const { first, count, stride, cut, say } = options;
  const faults = new FaultBook();
  const failures: { seed: number; invariant: string }[] = [];
  const began = process.cpuUsage();
  let done = 0;
  let events = 0;
  let virtualMs = 0;
  for (let index = 0; index < count && failures.length < options.failuresMax; index += 1) {
    const seed = first + index * stride;
    options.onSeed(seed);
    const drawn = drawPlan(seed);
    const plan = cutPlan(drawn, cut);
    if (options.isAlone) say(`seed ${seed}: ${describePlan(plan)}`);
    const outcome = await simulate(plan);
    done += 1;
    events += outcome.events;
    virtualMs += outcome.virtualMs;
    faults.add(outcome.faults);
    let { failure } = outcome;
    if (failure === null && options.twiceEvery > 0 && index % options.twiceEvery === 0) {
      const again = await simulate(plan);
      if (again.hash !== outcome.hash)
        failure = { invariant: 'determinism', message: `the hash was ${outcome.hash}, then ${again.hash}` };
    }
    if (failure === null) {
      if (options.isVerbose) for (const line of outcome.trace) say(line);
      if (options.isAlone) say(`ok: ${outcome.events} events, ${outcome.commits} commits, hash ${outcome.hash}`);
      continue;
    }
    failures.push({ seed, invariant: failure.invariant });
    if (!options.isAlone) say(`seed ${seed}: ${describePlan(plan)}`);
    say(failure.message);
    const steps = options.isVerbose || options.isAlone ? STEPS : STEPS_OF_MANY;
    for (const line of outcome.trace.slice(-steps)) say(line);
    say(`replay: npm run sim -- --seed ${seed}${options.again} ${optionsOf(cut)}`.trimEnd());
    if (!options.isShrinking || failure.invariant === 'determinism') continue;
    const smaller = await shrink(plan, failure.invariant, simulate);
    const all = {
      drop: [...cut.drop, ...smaller.drop],
      zero: [...cut.zero, ...smaller.zero],
      servers: smaller.servers ?? cut.servers,
      workers: smaller.workers ?? cut.workers,
    };
    say(`smaller: ${describePlan(cutPlan(drawn, all))}`);
    say(`replay: npm run sim -- --seed ${seed}${options.again} ${optionsOf(all)}`.trimEnd());
  }
  const { user, system } = process.cpuUsage(began);
  return { done, failures, events, virtualMs, faults, cpuSeconds: (user + system) / 1e6 };
}
