/**
 * Moving every sealed value to the active key (api 8.1). In batches, each a transaction of its own, chosen by the key id that is
 * written in the value: a kill at any point loses nothing, and the next run goes on where it stopped. Every value can be read
 * at any time, because both keys are in the ring until the old one is retired.
 */
import type { AuditRow, CurrentCaller } from './audit.ts';
import { DomainError } from './errors.ts';
import type { Leases } from './lease.ts';
import type { Ids, Log } from './ports.ts';
import type { Binding, Vault } from './vault.ts';

export interface KeyUse {
  readonly kid: string;
  readonly rows: number;
}

export interface SealedStore {
  /** Keys this database knows and that are not retired, with the values sealed under each. */
  uses(): Promise<readonly KeyUse[]>;
  /** Seals at most `limit` values again that are not under `activeKid`, in one transaction; how many. */
  rewrap(activeKid: string, limit: number, again: (binding: Binding, sealed: string) => string | null): Promise<number>;
  /** Retires a key under which nothing is sealed, with its audit row; false when something is, or nobody knows it. */
  retire(kid: string, audit: AuditRow): Promise<boolean>;
  audit(row: AuditRow): Promise<void>;
}

export interface RotationStatus {
  readonly status: 'running' | 'done';
  readonly active: string;
  readonly rewrapped: number;
  readonly remaining: number;
}

export interface KeyService {
  list(): Promise<{ readonly active: string; readonly keys: readonly KeyUse[] }>;
  /** Starts or continues; answers when it is done or after a moment, whichever is first. Throws decrypt_failed. */
  rotate(): Promise<RotationStatus>;
  /** Throws validation_error for a key that is in use, active or unknown. */
  retire(kid: string): Promise<void>;
}

export interface KeyRotationParts {
  readonly store: SealedStore;
  readonly vault: Vault;
  readonly leases: Leases;
  readonly ids: Ids;
  readonly caller: CurrentCaller;
  readonly log: Log;
}

const LEASE = 'key_rotation';
const BATCH = 200;
const ANSWER_WITHIN_MS = 1_000;

export function createKeyService(parts: KeyRotationParts): KeyService {
  const { store, vault, leases, ids, caller, log } = parts;
  let rewrapped = 0;
  let running: Promise<void> | null = null;

  async function run(): Promise<void> {
    const outcome = await leases.during(LEASE, async (lease) => {
      for (let count = BATCH; count > 0 && lease.isHeld(); rewrapped += count) {
        count = await store.rewrap(vault.activeKid, BATCH, (binding, sealed) => vault.rewrap(binding, sealed));
      }
      return true;
    });
    if (outcome !== null)
      log.info('Sealed values were moved to the active key', { kid: vault.activeKid, count: rewrapped });
  }

  async function audited(action: string, detail: { kid: string }): Promise<AuditRow> {
    await ids.reserve(1);
    return { ...caller(), auditId: ids.next(), action, target: detail.kid, outcome: 'ok', detail };
  }

  return {
    async list() {
      return { active: vault.activeKid, keys: await store.uses() };
    },
    async rotate() {
      if (running === null) {
        rewrapped = 0;
        await store.audit(await audited('admin.keys.rotate', { kid: vault.activeKid }));
        running = run().finally(() => {
          running = null;
        });
      }
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(late.resolve, ANSWER_WITHIN_MS);
      await Promise.race([running, late.promise]).finally(() => clearTimeout(timer));
      // A failure after this answer is met by the next call, which begins anew.
      running?.catch((error: unknown) => log.error('The rotation of keys failed', { error: String(error) }));
      const uses = await store.uses();
      const remaining = uses.reduce((sum, use) => sum + (use.kid === vault.activeKid ? 0 : use.rows), 0);
      return { status: remaining === 0 ? 'done' : 'running', active: vault.activeKid, rewrapped, remaining };
    },
    async retire(kid) {
      if (kid === vault.activeKid) refuse(`the key ${kid} is the active one`);
      if (!(await store.retire(kid, await audited('admin.keys.retire', { kid })))) {
        refuse(`the key ${kid} is unknown, or values are still sealed with it; rotate first`);
      }
    },
  };
}

function refuse(why: string): never {
  const sentence = `body.kid: ${why}`;
  throw new DomainError('validation_error', sentence, { errors: [sentence] });
}
