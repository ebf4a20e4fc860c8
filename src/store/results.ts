/**
 * Rows of `core.result`: JSON text, gzipped when that pays. The execution id stands in every condition, because it is
 * what finds the partition.
 */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { ExecutionStatus, ResultRow } from '../../actors/ports.ts';
import type { ResultStore } from '../../actors/result-service.ts';
import type { StoredResult } from '../../actors/services.ts';
import type { JsonMap } from '../../machines/json.ts';
import { onlyRow } from './only-row.ts';
import type { Sql } from './pool.ts';

const GZIP_MIN_BYTES = 4096;
/** What a stored text may grow to; puts are bounded at 64 MiB, the server's own values by the loops that make them. */
const JSON_BYTES_MAX = 512 * 1024 * 1024;

const compress = promisify(gzip);
const expand = promisify(gunzip);

export interface EncodedPayload {
  readonly data: Buffer;
  readonly encoding: 'json' | 'gzip';
}

/** What is stored of the bytes of a JSON text; compressed off the event loop when it has more than a few KiB and that saves any. */
export async function encodePayload(bytes: Uint8Array): Promise<EncodedPayload> {
  const plain = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (plain.length < GZIP_MIN_BYTES) return { data: plain, encoding: 'json' };
  const packed = await compress(plain, { level: 1 });
  return packed.length < plain.length ? { data: packed, encoding: 'gzip' } : { data: plain, encoding: 'json' };
}

/** The JSON text of stored bytes, expanded off the event loop. */
export async function decodePayload({ data, encoding }: EncodedPayload): Promise<Uint8Array> {
  return encoding === 'gzip' ? await expand(data, { maxOutputLength: JSON_BYTES_MAX }) : data;
}

interface StoredRow {
  readonly ref: string;
  readonly name: string;
  readonly store: string;
  readonly scope: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly summary: JsonMap | null;
  readonly created_at: string;
  readonly expires_at: string | null;
}

const COLUMNS = `
  ref, name, store, scope, bytes, sha256, summary,
  created_at, expires_at`;
const LIVE = '(expires_at is null or expires_at > clock_timestamp())';

export function createResultStore(database: Sql): ResultStore {
  return {
    async executionStatus(executionId) {
      const answer = await database.rows<{ status: ExecutionStatus }>(
        'select status from core.execution where execution_id = $1',
        [executionId],
      );
      return answer[0]?.status ?? null;
    },

    async put(row, data) {
      return putRow(database, row, await encodePayload(data));
    },

    async load(executionId, ref) {
      const answer = await database.rows<EncodedPayload & { readonly sha256: string }>(
        `select data, encoding, sha256 from core.result where execution_id = $1 and ref = $2 and ${LIVE}`,
        [executionId, ref],
      );
      const [row] = answer;
      return row === undefined ? null : { data: await decodePayload(row), sha256: row.sha256 };
    },

    async list(executionId) {
      const answer = await database.rows<StoredRow>(
        `select ${COLUMNS} from core.result where execution_id = $1 and ${LIVE}
         order by created_at desc, result_id desc`,
        [executionId],
      );
      return answer.map(storedOf);
    },

    async newest(executionId, name) {
      const answer = await database.rows<StoredRow>(
        `select ${COLUMNS} from core.result where execution_id = $1 and name = $2 and ${LIVE}
         order by created_at desc, result_id desc limit 1`,
        [executionId, name],
      );
      const [row] = answer;
      return row === undefined ? null : storedOf(row);
    },

    async remove(executionId, scope) {
      return database.run('delete from core.result where execution_id = $1 and ($2::text is null or scope = $2)', [
        executionId,
        scope,
      ]);
    },
  };
}

/** The same name and bytes keep their first reference; a repeat may only make it live longer. */
async function putRow(database: Sql, row: Omit<ResultRow, 'data'>, payload: EncodedPayload): Promise<StoredResult> {
  const answer = await database.rows<StoredRow>(
    `insert into core.result (execution_id, result_id, ref, name, command_id, scope, store, data, encoding, bytes,
       sha256, media_type, summary, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13::text::jsonb, $14)
     on conflict (execution_id, name, sha256) do update
     set expires_at = case
       when excluded.expires_at is null or result.expires_at is null then null
       else greatest(excluded.expires_at, result.expires_at)
     end
     returning ${COLUMNS}`,
    [
      row.executionId,
      row.resultId,
      row.ref,
      row.name,
      row.commandId,
      row.scope,
      row.store,
      payload.data,
      payload.encoding,
      row.bytes,
      row.sha256,
      row.mediaType,
      row.summary === null ? null : JSON.stringify(row.summary),
      row.expiresAt,
    ],
  );
  return storedOf(onlyRow(answer));
}

function storedOf(row: StoredRow): StoredResult {
  return {
    ref: row.ref,
    name: row.name,
    store: row.store,
    scope: row.scope,
    bytes: row.bytes,
    sha256: row.sha256,
    summary: row.summary ?? {},
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  };
}
