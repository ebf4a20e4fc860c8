/**
 * Statements and transactions that lost to another session: of a deadlock (40P01), of a serialization (40001) or of a
 * wait for a lock (55P03). The database has undone them entirely, so doing them again is safe, and mostly enough.
 */
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { UnavailableError } from '../../actors/ports.ts';

const CONFLICT = /^(?:40P01|40001|55P03)$/;
const RETRIES = 3;
const PAUSE_MS = 10;
/** Losing after a long wait is no accident; the caller is told, and may come back when the other has gone. */
const WITHIN_MS = 5_000;

/** What `work` gives, after up to three more tries where it lost. `chance` is from 0 to 1. */
export async function despiteConflicts<T>(work: () => Promise<T>, chance: () => number = Math.random): Promise<T> {
  const startedAt = performance.now();
  for (let lost = 0; ; lost += 1) {
    try {
      return await work();
    } catch (error) {
      if (lost === RETRIES || !isConflict(error) || performance.now() - startedAt > WITHIN_MS) throw error;
    }
    // The longer it goes on, the further apart; by chance, or two losers would meet again.
    await pause(PAUSE_MS * 3 ** lost * (0.5 + chance()));
  }
}

function isConflict(error: unknown): boolean {
  const cause = error instanceof UnavailableError ? error.cause : error;
  return cause instanceof pg.DatabaseError && CONFLICT.test(cause.code ?? '');
}
