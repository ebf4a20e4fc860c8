/** Rows of `core.credential`; data comes and goes sealed. */
import type { CredentialDraft, CredentialStore, SealedCredential } from '../../actors/credential-service.ts';
import type { Credential } from '../../actors/services.ts';
import type { JsonMap } from '../../machines/json.ts';
import { insertAudit } from './audit.ts';
import { schemaInKeyOrder, schemaWithKeyOrder } from './key-order.ts';
import { onlyRow } from './only-row.ts';
import type { ReadPool, Sql } from './pool.ts';

interface CredentialRow {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly description: string | null;
  readonly tags: readonly string[];
  readonly meta: JsonMap | null;
  readonly schema: JsonMap | null;
  readonly created_at: string;
  readonly updated_at: string;
}

interface SealedRow extends CredentialRow {
  readonly data_encrypted: string;
}

const OPEN_COLUMNS = `
  id::text as id, name, type, description, tags, meta, schema,
  created_at, updated_at`;

export function createCredentialStore(database: ReadPool): CredentialStore {
  return {
    transaction: (work) =>
      database.transaction((tx) =>
        work({
          find: (identifier, lock) => findSealed(tx, identifier, lock),
          claimName: (name) => claimName(tx, name),
          insert: (id, draft, sealed) => insertCredential(tx, id, draft, sealed),
          update: (id, draft, sealed) => updateCredential(tx, id, draft, sealed),
          remove: (id) => deleteCredential(tx, id),
          audit: (row) => insertAudit(tx, row),
        }),
      ),

    async find(identifier) {
      const answer = await database.rows<CredentialRow>(
        `select ${OPEN_COLUMNS} from core.credential where ${IDENTIFIED}`,
        identified(identifier),
      );
      const [row] = answer;
      return row === undefined ? null : credentialOf(row);
    },

    async list(filter) {
      const answer = await database.rows<CredentialRow>(
        `select ${OPEN_COLUMNS}
         from core.credential
         where ($1::text is null or lower(type) = lower($1))
           and ($2::text is null or $2 = any (tags))
           and ($3::text is null
             or strpos(lower(name), lower($3)) > 0
             or strpos(lower(description), lower($3)) > 0
             or exists (select from unnest(tags) as tag where strpos(lower(tag), lower($3)) > 0))
         order by name collate "C"`,
        [filter.type ?? null, filter.tag ?? null, filter.q ?? null],
      );
      return answer.map(credentialOf);
    },
  };
}

/** $1 is the number when the identifier is one, $2 the text; a row of that id beats one of that name. */
const IDENTIFIED = `(id = $1 or name = $2) order by (id = $1) desc nulls last limit 1`;

function identified(identifier: string): unknown[] {
  const id = /^[1-9]\d{0,15}$/.test(identifier) ? identifier : null;
  return [id, identifier];
}

async function findSealed(tx: Sql, identifier: string, lock: boolean): Promise<SealedCredential | null> {
  const answer = await tx.rows<SealedRow>(
    `select ${OPEN_COLUMNS}, data_encrypted from core.credential where ${IDENTIFIED} ${lock ? 'for update' : ''}`,
    identified(identifier),
  );
  const [row] = answer;
  return row === undefined ? null : sealedOf(row);
}

async function claimName(tx: Sql, name: string): Promise<SealedCredential | null> {
  await tx.run(`select pg_advisory_xact_lock(hashtextextended('core.credential:' || $1, 0))`, [name]);
  const answer = await tx.rows<SealedRow>(
    `select ${OPEN_COLUMNS}, data_encrypted from core.credential where name = $1 for update`,
    [name],
  );
  const [row] = answer;
  return row === undefined ? null : sealedOf(row);
}

async function insertCredential(tx: Sql, id: string, draft: CredentialDraft, sealed: string): Promise<Credential> {
  const answer = await tx.rows<CredentialRow>(
    `insert into core.credential (id, name, type, description, tags, meta, schema, data_encrypted)
     values ($1, $2, $3, $4, $5, $6::text::jsonb, $7::text::jsonb, $8)
     returning ${OPEN_COLUMNS}`,
    valuesOf(id, draft, sealed),
  );
  return credentialOf(onlyRow(answer));
}

async function updateCredential(tx: Sql, id: string, draft: CredentialDraft, sealed: string): Promise<Credential> {
  const answer = await tx.rows<CredentialRow>(
    `update core.credential
     set name = $2, type = $3, description = $4, tags = $5, meta = $6::text::jsonb, schema = $7::text::jsonb,
         data_encrypted = $8, updated_at = clock_timestamp()
     where id = $1
     returning ${OPEN_COLUMNS}`,
    valuesOf(id, draft, sealed),
  );
  return credentialOf(onlyRow(answer));
}

async function deleteCredential(tx: Sql, id: string): Promise<void> {
  await tx.run('delete from core.credential where id = $1', [id]);
}

function valuesOf(id: string, draft: CredentialDraft, sealed: string): unknown[] {
  const { name, type, description, tags, meta, schema } = draft;
  return [
    id,
    name,
    type,
    description,
    tags,
    jsonOrNull(meta),
    jsonOrNull(schema && schemaWithKeyOrder(schema)),
    sealed,
  ];
}

function jsonOrNull(value: JsonMap | null): string | null {
  return value === null ? null : JSON.stringify(value);
}

function sealedOf({ data_encrypted, ...row }: SealedRow): SealedCredential {
  return { ...credentialOf(row), sealed: data_encrypted };
}

function credentialOf({ created_at, updated_at, schema, ...row }: CredentialRow): Credential {
  return { ...row, schema: schema && schemaInKeyOrder(schema), createdAt: created_at, updatedAt: updated_at };
}
