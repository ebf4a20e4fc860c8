/**
 * Audit rows of callers who were turned away (api 8.5): `access.denied` for a role that is too low, `session.denied` for a
 * token that is no good. Someone who is refused all the time gets a row a minute, so that nobody can fill the trail.
 */
import type { AuditRow, Caller } from './audit.ts';
import type { Clock, Ids, Log } from './ports.ts';
import { Recent } from './recent.ts';

export interface DenialLog {
  /** Never throws and never waits: who is refused learns nothing of the trail. */
  note(action: 'access.denied' | 'session.denied', target: string, caller: Caller): void;
}

export interface DenialParts {
  readonly insert: (row: AuditRow) => Promise<void>;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly log: Log;
}

const AGAIN_MS = 60_000;
const REMEMBERED_MAX = 2_000;
const WRITING_MAX = 16;

export function createDenialLog({ insert, ids, clock, log }: DenialParts): DenialLog {
  const told = new Recent<string, number>({ countMax: REMEMBERED_MAX, sizeMax: REMEMBERED_MAX });
  let writing = 0;

  async function write(row: Omit<AuditRow, 'auditId'>): Promise<void> {
    await ids.reserve(1);
    await insert({ ...row, auditId: ids.next() });
  }

  return {
    note(action, target, caller) {
      const key = `${action} ${target} ${caller.actor} ${caller.ip ?? ''}`;
      const before = told.get(key);
      const now = clock.now();
      if ((before !== undefined && now - before < AGAIN_MS) || writing >= WRITING_MAX) return;
      told.put(key, now, 1);
      writing++;
      write({ ...caller, action, target, outcome: 'denied', detail: {} })
        .catch((error: unknown) => log.warn('A refusal left no audit row', { action, error }))
        .finally(() => {
          writing--;
        });
    },
  };
}
