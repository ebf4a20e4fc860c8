/**
 * The timing fields of `batch.completed`. All come from one monotonic clock. Parts are rounded down and the whole up, so
 * that no part, and no sum of parts, is ever larger than what contains it.
 */
import type { JsonMap } from '../json.ts';

/** Milliseconds. The transaction is that of the turns; null when others had handled every event before. */
export interface BatchTimes {
  readonly processingMs: number;
  readonly transaction: {
    readonly waitMs: number;
    readonly totalMs: number;
    readonly loadMs: number;
    readonly lockMs: number;
    readonly appendMs: number;
    readonly issueMs: number;
    readonly saveMs: number;
    readonly commitMs: number;
    /** Events handled in it. */
    readonly turns: number;
    /** The run had ended before: only the numbers of the head moved. */
    readonly isLate: boolean;
  } | null;
}

export function timingsOf({ processingMs, transaction }: BatchTimes): JsonMap {
  const t = transaction;
  const commit = down(t?.commitMs ?? 0);
  const engine = down(Math.max(0, (t?.totalMs ?? 0) - (t?.commitMs ?? 0)));
  const whole = down(engine + commit + 0.0001);
  const late = t?.isLate === true;
  const save = down(t?.saveMs ?? 0);
  return {
    processing_ms: Math.max(up(processingMs), up(whole)),
    pool_checkout_ms: down(t?.waitMs ?? 0),
    lock_acquire_ms: down(t?.lockMs ?? 0),
    state_load_ms: down(t?.loadMs ?? 0),
    engine_total_ms: engine,
    save_state_ms: late ? 0 : save,
    save_state_calls: t === null || late ? 0 : 1,
    save_state_terminal_lightweight_ms: late ? save : 0,
    save_state_terminal_lightweight_calls: late ? 1 : 0,
    persist_event_compat_ms: down(t?.appendMs ?? 0),
    persist_event_compat_calls: t !== null && t.appendMs > 0 ? 1 : 0,
    save_state_coalesced_count: Math.max(0, (t?.turns ?? 0) - 1),
    commit_ms: commit,
    transaction_ms: whole,
    issue_commands_ms: down(t?.issueMs ?? 0),
  };
}

function down(ms: number): number {
  return Math.floor(ms * 1000) / 1000;
}

function up(ms: number): number {
  return Math.ceil(ms * 1000) / 1000;
}
