/**
 * The keychain (api 2.9, 4.4): cached tokens and secrets with a scope and an end. Data is sealed for its own row before
 * it reaches the store and opened only to be shown; each reveal, write and delete leaves its audit row, and each change
 * its log row, in the transaction that made it. Secrets go into no log line, event or error.
 */
import { instantOf } from '../machines/command/instant.ts';
import { isMap, type JsonMap } from '../machines/json.ts';
import { lifetimeOf } from '../machines/keychain/expiry.ts';
import { RENEWAL_GRANT_SECONDS, type RenewConfig } from '../machines/keychain/renewal.ts';
import type { Reading } from '../machines/keychain/reply.ts';
import { cacheKeyOf } from '../machines/keychain/scope.ts';
import { fieldSchemaProblems, schemaErrors } from '../machines/schema/field-schema.ts';
import { AUDIT_REQUIRED, type AuditPolicy, type AuditRow, type CurrentCaller } from './audit.ts';
import { DomainError } from './errors.ts';
import { KeychainReads, type ReadEntry } from './keychain-reads.ts';
import type { KeychainRow, KeychainStore, SeenRow, StoredRenewConfig } from './keychain-store.ts';
import type { Clock, Ids, Log, Meter } from './ports.ts';
import type { KeychainAddress, KeychainDraft, KeychainService } from './services.ts';
import type { Binding, Vault } from './vault.ts';

export interface KeychainPorts {
  readonly store: KeychainStore;
  readonly vault: Vault;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly caller: CurrentCaller;
  readonly log: Log;
  readonly meter: Meter;
  /** Life left below which an entry that renews itself wants a new token. */
  readonly refreshSeconds: number;
  /** By default a read without an audit row fails. */
  readonly audit?: AuditPolicy;
}

const ROOTS_MAX = 10_000;
const DAY_SECONDS = 86_400;
/** How long an entry stays after it expired: without and with renewal (api 4.4). */
const KEPT = { plainSeconds: DAY_SECONDS, renewingSeconds: 30 * DAY_SECONDS };

export function createKeychainService(ports: KeychainPorts): KeychainService {
  const { store, vault, ids, clock, caller, log, meter, refreshSeconds } = ports;
  const reads = new KeychainReads(store, {
    refreshSeconds,
    grantSeconds: RENEWAL_GRANT_SECONDS,
    audit: ports.audit ?? AUDIT_REQUIRED,
  });
  const roots = createRoots(store);

  function audit(action: string, target: string, detail: JsonMap): AuditRow {
    return { ...caller(), auditId: ids.next(), action, target, outcome: 'ok', detail };
  }

  async function addressed(address: KeychainAddress) {
    const rootExecutionId = address.scope === 'shared' ? await roots(address) : null;
    return { rootExecutionId, cacheKey: cacheKeyOf({ ...address, rootExecutionId }) };
  }

  function warnOfMisfit(row: SeenRow, data: JsonMap): void {
    const errors = row.schema === null ? [] : schemaErrors(row.schema, data);
    if (errors.length === 0) return;
    log.warn('A keychain entry does not fit its schema', { keychain_name: row.name, cache_key: row.cacheKey, errors });
  }

  function readingOf(cacheKey: string, found: ReadEntry): Reading<JsonMap> {
    const { row, entry, renewal, accessCount } = found;
    const isShown = !entry.isLive || renewal?.granted === true;
    const renewConfig = entry.autoRenew && isShown ? openRenewal(vault, row) : null;
    if (!entry.isLive) return { status: 'expired', cacheKey, entry, renewConfig, renewal };
    const data = openEntry(vault, row);
    warnOfMisfit(row, data);
    return {
      status: 'success',
      cacheKey,
      entry,
      data,
      accessCount,
      accessedAt: row.accessedAt ?? entry.at,
      renewConfig,
      renewal,
    };
  }

  return {
    async read({ claimRenewal, workerId, ...address }) {
      const { cacheKey } = await addressed(address);
      await ids.reserve(1);
      const detail = { cache_key: cacheKey, execution_id: address.executionId, worker_id: workerId };
      const found = await reads.read({
        cacheKey,
        claimRenewal,
        workerId,
        audit: audit('keychain.reveal', address.name, detail),
      });
      let reading: Reading<JsonMap>;
      try {
        reading = found === null ? { status: 'not_found', cacheKey } : readingOf(cacheKey, found);
      } catch (error) {
        // The read was noted with its statement; that it showed nothing is a row of its own.
        await ids.reserve(1);
        const row = { ...audit('keychain.reveal', address.name, detail), outcome: 'error' as const };
        await store
          .transaction((tx) => tx.audit(row))
          .catch((lost: unknown) => {
            log.warn('A failed read of a keychain entry left no audit row', { cache_key: cacheKey, error: lost });
          });
        throw error;
      }
      meter.count('svc_keychain_reads_total', { result: reading.status });
      if (reading.status !== 'not_found' && reading.renewal !== null) {
        meter.count('svc_keychain_renewal_grants_total', { granted: String(reading.renewal.granted) });
      }
      return reading;
    },

    async store(draft) {
      checkDraft(draft);
      const { rootExecutionId, cacheKey } = await addressed(draft);
      await ids.reserve(1);
      return store.transaction(async (tx) => {
        if (!(await tx.hasCatalogEntry(draft.catalogId))) {
          throw new DomainError('not_found', 'Catalog entry not found');
        }
        const owner = draft.scope === 'shared' ? rootExecutionId : draft.executionId;
        if (draft.scope !== 'global' && owner !== null && (await tx.holdOwner(owner))) throw ended(owner);
        const old = await tx.claim(cacheKey);
        const now = clock.now();
        const { expiresAt, ttlSeconds } = lifetimeOf(draft, now);
        const isRenewal = old !== null && old.renewalUntil !== null && instantOf(old.renewalUntil) > now;
        const row = rowOf(vault, draft, { cacheKey, rootExecutionId, expiresAt }, isRenewal ? old : null);
        await tx.put(row);
        await tx.append(cacheKey, isRenewal ? 'entry.renewed' : 'entry.stored', {
          scope: row.scope,
          credential_type: row.credentialType,
          cache_type: row.cacheType,
          expires_at: expiresAt,
          auto_renew: row.autoRenew,
          actor: caller().actor,
        });
        await tx.audit(audit('keychain.write', draft.name, { cache_key: cacheKey, replaced: old !== null }));
        return { cacheKey, expiresAt, ttlSeconds };
      });
    },

    async remove(address) {
      const { cacheKey } = await addressed(address);
      await ids.reserve(1);
      return store.transaction(async (tx) => {
        const old = await tx.claim(cacheKey);
        if (old !== null) {
          await tx.remove(cacheKey);
          await tx.append(cacheKey, 'entry.removed', { scope: old.scope, reason: 'deleted', actor: caller().actor });
        }
        const detail = { cache_key: cacheKey, deleted: old !== null };
        await tx.audit(audit('keychain.delete', address.name, detail));
        return old !== null;
      });
    },

    list: (catalogId) => store.list(catalogId),
    log: (filter) => store.log(filter),
    sweep: (limit) => store.removeExpired(KEPT, limit),
  };
}

/** Root of a tree (api 4.4): of the execution, else of its parent, else the execution itself. Known roots never change. */
function createRoots(store: Pick<KeychainStore, 'rootOf'>): (address: KeychainAddress) => Promise<number | null> {
  const known = new Map<number, number>();
  return async ({ executionId, parentExecutionId = null }) => {
    if (executionId === null) return null;
    const root = known.get(executionId);
    if (root !== undefined) return root;
    const found = await store.rootOf(parentExecutionId === null ? [executionId] : [executionId, parentExecutionId]);
    if (found === null) return executionId;
    known.set(executionId, found);
    const [oldest] = known.keys();
    if (known.size > ROOTS_MAX && oldest !== undefined) known.delete(oldest);
    return found;
  };
}

/** The row an entry's data is sealed for. */
export function keychainBinding(row: Pick<KeychainRow, 'cacheKey' | 'name' | 'scope'>): Binding {
  return { table: 'keychain', row: row.cacheKey, name: row.name, scope: row.scope };
}

/** The row and column its renewal request is sealed for. */
export function renewalBinding(row: Pick<KeychainRow, 'cacheKey' | 'name' | 'scope'>): Binding {
  return { ...keychainBinding(row), table: 'keychain.renew_config' };
}

/** Throws `decrypt_failed`. */
export function openEntry(vault: Vault, row: KeychainRow): JsonMap {
  const data = vault.open(keychainBinding(row), row.sealed);
  if (!isMap(data)) throw new Error('a keychain entry holds something else than a map');
  return data;
}

function openRenewal(vault: Vault, row: KeychainRow): RenewConfig | null {
  const { renewConfig } = row;
  if (renewConfig === null) return null;
  const opened = vault.open(renewalBinding(row), renewConfig.sealed);
  const parts = isMap(opened) ? opened : {};
  return {
    endpoint: renewConfig.endpoint,
    method: renewConfig.method,
    headers: mapAt(parts, 'headers'),
    data: mapAt(parts, 'data'),
    tokenField: renewConfig.token_field,
    ttlField: renewConfig.ttl_field,
  };
}

/** A renewal brings a new token and nothing else: scope, owner and schema stay those of the entry. */
function rowOf(
  vault: Vault,
  draft: KeychainDraft,
  computed: Pick<KeychainRow, 'cacheKey' | 'rootExecutionId' | 'expiresAt'>,
  renewed: SeenRow | null,
): KeychainRow {
  const { catalogId, name, scope, credentialType, cacheType, autoRenew } = draft;
  const bound = { cacheKey: computed.cacheKey, name, scope };
  return {
    ...bound,
    catalogId,
    credentialType,
    cacheType,
    executionId: renewed?.executionId ?? (scope === 'global' ? null : draft.executionId),
    parentExecutionId: renewed?.parentExecutionId ?? draft.parentExecutionId ?? null,
    rootExecutionId: computed.rootExecutionId,
    sealed: vault.seal(keychainBinding(bound), draft.tokenData),
    schema: draft.schema ?? renewed?.schema ?? null,
    expiresAt: computed.expiresAt,
    autoRenew,
    renewConfig: draft.renewConfig === null ? null : sealRenewal(vault, bound, draft.renewConfig),
  };
}

function sealRenewal(
  vault: Vault,
  bound: Pick<KeychainRow, 'cacheKey' | 'name' | 'scope'>,
  { endpoint, method, headers, data, tokenField, ttlField }: RenewConfig,
): StoredRenewConfig {
  const sealed = vault.seal(renewalBinding(bound), { headers, data });
  return { endpoint, method, token_field: tokenField, ttl_field: ttlField, sealed };
}

function checkDraft({ schema, tokenData }: KeychainDraft): void {
  if (schema === null) return;
  const problems = fieldSchemaProblems(schema);
  if (problems.length > 0) throw new DomainError('validation_error', problems.join('; '), { errors: problems });
  const errors = schemaErrors(schema, tokenData);
  if (errors.length === 0) return;
  throw new DomainError('schema_validation_failed', `Token validation failed: ${errors.join('; ')}`, { errors });
}

/** Such an entry could never be read, and nothing would remove it. */
function ended(executionId: number): DomainError {
  const message = `body.execution_id: execution ${executionId} has ended, and its entries with it`;
  return new DomainError('validation_error', message, { errors: [message] });
}

function mapAt(map: JsonMap, key: string): JsonMap {
  const value = map[key];
  return isMap(value) ? value : {};
}
