/** How far a run is: ended steps against the steps that it has reached or can still reach (language 14.5). */
import type { JsonMap } from '../json.ts';
import type { Graph } from '../playbook/graph.ts';
import type { Run } from './run.ts';

export interface Progress {
  /** 0 … 100; 100 only when the execution has ended. */
  readonly percent: number;
  readonly detail: JsonMap;
}

export function progressOf(run: Run, graph: Graph, ended: boolean): Progress {
  const { completed, failed, skipped } = run.counts;
  const done = completed + failed + skipped;
  const running = ended ? 0 : run.active.length;
  const total = ended ? done + run.active.length : Math.max(1, reachable(run, graph));
  const percent = ended ? 100 : Math.min(99, Math.round((100 * done) / total));
  return {
    percent,
    detail: {
      total_steps: total,
      completed_steps: completed,
      failed_steps: failed,
      running_steps: running,
      skipped_steps: skipped,
    },
  };
}

function reachable(run: Run, graph: Graph): number {
  const ahead = new Set<string>();
  for (const step of [...run.active, ...run.joins]) {
    for (const next of graph.after(step)) if (run.steps[next] === undefined) ahead.add(next);
  }
  return run.counts.completed + run.counts.failed + run.counts.skipped + run.active.length + ahead.size;
}
