/**
 * Makes a failing plan smaller for as long as it fails in the same way: halves and then single happenings are left out,
 * rates are set to nothing, servers and workers are taken away. What is left is told as options of the command.
 */
import type { Plan, Rates } from './plan.ts';
import type { Outcome } from './simulation.ts';

export interface Cut {
  readonly drop: readonly string[];
  readonly zero: readonly string[];
  readonly servers: number | null;
  readonly workers: number | null;
}

export const NO_CUT: Cut = { drop: [], zero: [], servers: null, workers: null };

const RUNS_MAX = 400;

/** The plan without what is cut. */
export function cutPlan(plan: Plan, cut: Cut): Plan {
  const servers = plan.servers.slice(0, cut.servers ?? plan.servers.length);
  const workers = plan.workers.slice(0, cut.workers ?? plan.workers.length);
  const drop = new Set(cut.drop);
  const zeroed = Object.fromEntries(cut.zero.map((name) => [name, 0]));
  // Names come from the rates themselves; any other changes nothing.
  const rates: Rates = { ...plan.rates, ...zeroed };
  return { ...plan, servers, workers, rates, happenings: plan.happenings.filter(({ id }) => !drop.has(id)) };
}

export async function shrink(plan: Plan, failure: string, run: (plan: Plan) => Promise<Outcome>): Promise<Cut> {
  let cut = NO_CUT;
  let runs = 0;
  const fails = async (next: Cut): Promise<boolean> => {
    if (runs >= RUNS_MAX) return false;
    runs += 1;
    const outcome = await run(cutPlan(plan, next));
    if (outcome.failure?.invariant !== failure) return false;
    cut = next;
    return true;
  };
  const left = () => cutPlan(plan, cut).happenings.map(({ id }) => id);
  for (let size = Math.ceil(plan.happenings.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < left().length; ) {
      const some = left().slice(at, at + size);
      if (!(await fails({ ...cut, drop: [...cut.drop, ...some] }))) at += size;
    }
  }
  for (const [name, rate] of Object.entries(plan.rates))
    if (rate > 0) await fails({ ...cut, zero: [...cut.zero, name] });
  for (let count = plan.servers.length - 1; count >= 1; count -= 1)
    if (!(await fails({ ...cut, servers: count }))) break;
  for (let count = plan.workers.length - 1; count >= 1; count -= 1)
    if (!(await fails({ ...cut, workers: count }))) break;
  return cut;
}

/** The cut as options of the command. */
export function optionsOf({ drop, zero, servers, workers }: Cut): string {
  return [
    ...(drop.length > 0 ? [`--drop ${drop.join(',')}`] : []),
    ...(zero.length > 0 ? [`--zero ${zero.join(',')}`] : []),
    ...(servers === null ? [] : [`--servers ${servers}`]),
    ...(workers === null ? [] : [`--workers ${workers}`]),
  ].join(' ');
}
