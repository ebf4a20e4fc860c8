/**
 * Which runs did a restart interrupt (api 4.9)? Those that nobody alive can move: no open command is held by a live worker, none
 * could be claimed by one, and none waits for a child that goes on. A command whose worker died counts as one that any live
 * worker of its pool could take over, because that is what the claim policy will do.
 */
export interface RunFacts {
  readonly executionId: number;
  /** Open commands. */
  readonly commands: readonly {
    readonly pool: string;
    /** Null while nobody holds it. */
    readonly workerId: string | null;
    /** Child it waits for. */
    readonly parkedOn: number | null;
  }[];
}

export interface Alive {
  readonly workers: ReadonlySet<string>;
  /** Pools that at least one of them serves. */
  readonly pools: ReadonlySet<string>;
}

/** Ids in the order given. Executions that are not among `runs` (ended, or older than the look) count as going on. */
export function interruptedRuns(runs: readonly RunFacts[], alive: Alive): readonly number[] {
  const known = new Map(runs.map((run) => [run.executionId, run]));
  const judged = new Map<number, boolean>();

  function isInterrupted(executionId: number): boolean {
    const run = known.get(executionId);
    if (run === undefined) return false;
    const before = judged.get(executionId);
    if (before !== undefined) return before;
    // Children are younger than their parents, so there is no circle; rows that claim one stop here.
    judged.set(executionId, true);
    const verdict = run.commands.every(({ pool, workerId, parkedOn }) => {
      if (parkedOn !== null) return isInterrupted(parkedOn);
      return !(workerId !== null && alive.workers.has(workerId)) && !alive.pools.has(pool);
    });
    judged.set(executionId, verdict);
    return verdict;
  }

  return runs.map((run) => run.executionId).filter(isInterrupted);
}
