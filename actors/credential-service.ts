/**
 * Stored credentials (api 2.8). Data is sealed for its own row before it reaches the store and opened only to be
 * revealed; each reveal, write and delete leaves its audit row in the same transaction, so there is no reading without
 * a trace. Nothing here logs.
 */
import { isMap, type JsonMap } from '../machines/json.ts';
import { fieldSchemaProblems, schemaErrors } from '../machines/schema/field-schema.ts';
import { AUDIT_REQUIRED, type AuditPolicy, type AuditRow, audited, type Caller, type CurrentCaller } from './audit.ts';
import { DomainError } from './errors.ts';
import type { Ids, Meter } from './ports.ts';
import type { Credential, CredentialService } from './services.ts';
import type { Binding, Vault } from './vault.ts';

/** Everything of a row but its sealed data and its instants. */
export type CredentialDraft = Omit<Credential, 'id' | 'createdAt' | 'updatedAt'>;

export interface SealedCredential extends Credential {
  readonly sealed: string;
}

/** What one transaction may do with one row. */
export interface CredentialTransaction {
  /** By id (digits) first, then by name; `lock` keeps other writers away until the end. */
  find(identifier: string, lock: boolean): Promise<SealedCredential | null>;
  /** Locks the name itself, so that two first writes of it follow each other. */
  claimName(name: string): Promise<SealedCredential | null>;
  insert(id: string, draft: CredentialDraft, sealed: string): Promise<Credential>;
  update(id: string, draft: CredentialDraft, sealed: string): Promise<Credential>;
  remove(id: string): Promise<void>;
  audit(row: AuditRow): Promise<void>;
}

export interface CredentialStore {
  /** Commits what `work` did, or nothing when it throws. */
  transaction<T>(work: (tx: CredentialTransaction) => Promise<T>): Promise<T>;
  find(identifier: string): Promise<Credential | null>;
  list(filter: Parameters<CredentialService['list']>[0]): Promise<readonly Credential[]>;
}

export interface CredentialPorts {
  readonly store: CredentialStore;
  readonly vault: Vault;
  readonly ids: Ids;
  readonly caller: CurrentCaller;
  readonly meter?: Meter;
  /** By default a reveal without an audit row fails. */
  readonly audit?: AuditPolicy;
}

/** The row a credential's data is sealed for. */
export function credentialBinding(credential: { readonly id: string; readonly name: string }): Binding {
  return { table: 'credential', row: credential.id, name: credential.name, scope: '' };
}

export function createCredentialService(ports: CredentialPorts): CredentialService {
  const { store, vault, ids, caller } = ports;

  function audit(action: string, target: string, detail: JsonMap, more: Partial<Caller> = {}): AuditRow {
    return { ...caller(), ...more, auditId: ids.next(), action, target, outcome: 'ok', detail };
  }

  return {
    async save({ data, schema, ...fields }) {
      if (schema !== undefined && schema !== null) checkSchema(schema);
      await ids.reserve(2);
      return store.transaction(async (tx) => {
        const old = await tx.claimName(fields.name);
        const draft: CredentialDraft = { ...fields, schema: schema === undefined ? (old?.schema ?? null) : schema };
        checkData(draft.schema, data);
        const id = old?.id ?? String(ids.next());
        const sealed = vault.seal(credentialBinding({ id, name: draft.name }), data);
        const saved = old === null ? await tx.insert(id, draft, sealed) : await tx.update(id, draft, sealed);
        await tx.audit(audit('credential.write', draft.name, { id, type: draft.type, replaced: old !== null }));
        return saved;
      });
    },

    async get(identifier) {
      return (await store.find(identifier)) ?? notFound();
    },

    async reveal(identifier, { executionId, workerId, requestId }) {
      await ids.reserve(2);
      const { audit: policy = AUDIT_REQUIRED } = ports;
      const revealed = await audited(policy, identifier, (withRow) =>
        store.transaction(async (tx) => {
          const { sealed, ...credential } = (await tx.find(identifier, false)) ?? notFound();
          const detail = { id: credential.id, execution_id: executionId, worker_id: workerId };
          const row = audit('credential.reveal', credential.name, detail, { requestId });
          const data = openedOrNot(vault, credential, sealed);
          // What does not open was touched by somebody, and that is worth a trace more than anything.
          if (withRow) await tx.audit(data instanceof DomainError ? { ...row, outcome: 'error' } : row);
          return { credential, data };
        }),
      );
      if (revealed.data instanceof DomainError) throw revealed.data;
      ports.meter?.count('svc_credential_reveals_total');
      return { ...revealed.credential, data: revealed.data };
    },

    list: (filter) => store.list(filter),

    async patch(identifier, change) {
      if (change.schema !== undefined && change.schema !== null) checkSchema(change.schema);
      await ids.reserve(1);
      return store.transaction(async (tx) => {
        const { sealed, ...old } = (await tx.find(identifier, true)) ?? notFound();
        const { id, createdAt: _created, updatedAt: _updated, ...kept } = old;
        const { data, ...fields } = change;
        const draft: CredentialDraft = { ...kept, ...fields };
        // Stored data must fit a schema that is new to it, so it is opened to be judged, and not shown.
        if (data !== undefined || change.schema !== undefined)
          checkData(draft.schema, data ?? opened(vault, old, sealed));
        const resealed = data === undefined ? sealed : vault.seal(credentialBinding(old), data);
        const saved = await tx.update(id, draft, resealed);
        await tx.audit(audit('credential.write', old.name, { id, changed: Object.keys(change) }));
        return saved;
      });
    },

    async remove(identifier) {
      await ids.reserve(1);
      return store.transaction(async (tx) => {
        const { sealed: _sealed, ...credential } = (await tx.find(identifier, true)) ?? notFound();
        await tx.remove(credential.id);
        await tx.audit(audit('credential.delete', credential.name, { id: credential.id }));
        return credential;
      });
    },
  };
}

/** Reads type and data of a credential by name for the service's own use; the user of it leaves the trace. */
export function createCredentialReader(
  store: CredentialStore,
  vault: Vault,
): (name: string) => Promise<{ readonly type: string; readonly data: JsonMap } | null> {
  return (name) =>
    store.transaction(async (tx) => {
      const found = await tx.find(name, false);
      return found === null ? null : { type: found.type, data: opened(vault, found, found.sealed) };
    });
}

function opened(vault: Vault, credential: { readonly id: string; readonly name: string }, sealed: string): JsonMap {
  const data = vault.open(credentialBinding(credential), sealed);
  if (!isMap(data)) throw new Error('a credential holds something else than a map');
  return data;
}

/** The refusal as a value, so that the transaction that notes it can commit. */
function openedOrNot(
  vault: Vault,
  credential: { readonly id: string; readonly name: string },
  sealed: string,
): JsonMap | DomainError {
  try {
    return opened(vault, credential, sealed);
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
}

function checkSchema(schema: JsonMap): void {
  const problems = fieldSchemaProblems(schema);
  if (problems.length > 0) throw new DomainError('validation_error', problems.join('; '), { errors: problems });
}

function checkData(schema: JsonMap | null, data: JsonMap): void {
  const errors = schema === null ? [] : schemaErrors(schema, data);
  if (errors.length === 0) return;
  throw new DomainError('schema_validation_failed', 'Credential validation failed', { errors });
}

function notFound(): never {
  throw new DomainError('not_found', 'Credential not found');
}
