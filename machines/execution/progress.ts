/**
 * How far a run is: ended steps against the steps that it has reached or can still reach (language 14.5). Reach is counted
 * in bits, so that a head written after each turn costs a few words, however many steps the playbook has.
 */
import type { JsonMap } from '../json.ts';
import { known } from '../known.ts';
import { type Graph, setBit } from '../playbook/graph.ts';
import type { Run } from './run.ts';

export interface Progress {
  /** 0 … 100; 100 only when the execution has ended. */
  readonly percent: number;
  readonly detail: JsonMap;
}

/** What a running execution shows at most (language 14.5). */
export const RUNNING_PROGRESS_MAX = 99;

/** Steps that were entered or skipped, as bits by their order in the workflow. */
export type Touched = Uint32Array;

export function touchedBy(run: Run, graph: Graph): Touched {
  const touched = new Uint32Array(Math.ceil(graph.order.size / 32));
  for (const step in run.steps) touch(touched, graph, step);
  return touched;
}

export function touch(touched: Touched, graph: Graph, step: string): void {
  const index = graph.order.get(step);
  if (index !== undefined) setBit(touched, index);
}

export function progressOf(run: Run, graph: Graph, touched: Touched, ended: boolean): Progress {
  const { completed, failed, skipped } = run.counts;
  const done = completed + failed + skipped;
  const total = ended ? done + run.active.length : Math.max(1, done + run.active.length + ahead(run, graph, touched));
  return {
    percent: ended ? 100 : Math.min(RUNNING_PROGRESS_MAX, Math.round((100 * done) / total)),
    detail: {
      total_steps: total,
      completed_steps: completed,
      failed_steps: failed,
      running_steps: ended ? 0 : run.active.length,
      skipped_steps: skipped,
    },
  };
}

/** Steps not touched yet that something under way can reach. */
function ahead(run: Run, graph: Graph, touched: Touched): number {
  const sources = [...run.active, ...run.joins].map((step) => graph.afterBits(step));
  const waiting = run.joins.filter((join) => run.steps[join] === undefined);
  let count = 0;
  for (let word = 0; word < touched.length; word += 1) {
    let bits = 0;
    for (const source of sources) bits |= known(source[word]);
    for (const join of waiting) {
      const index = known(graph.order.get(join));
      if (index >>> 5 === word) bits |= 1 << (index & 31);
    }
    count += ones(bits & ~known(touched[word]));
  }
  return count;
}

function ones(word: number): number {
  let bits = word - ((word >>> 1) & 0x55555555);
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
  return (((bits + (bits >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}
