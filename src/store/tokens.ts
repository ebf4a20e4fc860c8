/** Rows of `core.api_token`, by the clock of the database. A token that has ended is answered like one that never was. */
import type { StoredToken, TokenStore } from '../../actors/token-service.ts';
import { insertAudit } from './audit.ts';
import type { ReadPool } from './pool.ts';

const COLUMNS = `name, role, created_at as "createdAt", expires_at as "expiresAt", last_used_at as "lastUsedAt",
  revoked_at as "revokedAt"`;
const ALIVE = '(revoked_at is null and (expires_at is null or expires_at > clock_timestamp()))';

export function createTokenStore(database: ReadPool): TokenStore {
  return {
    list: () => database.rows<StoredToken>(`select ${COLUMNS} from core.api_token order by name collate "C"`),

    insert: ({ name, role, expiresAt, tokenHash }, audit) =>
      database.transaction(async (tx) => {
        const [row] = await tx.rows<StoredToken>(
          `insert into core.api_token as token (name, role, expires_at, token_hash)
           values ($1, $2, $3, $4)
           on conflict (name) do update
             set role = excluded.role, expires_at = excluded.expires_at, token_hash = excluded.token_hash,
                 created_at = clock_timestamp(), last_used_at = null, revoked_at = null
             where token.revoked_at is not null or token.expires_at <= clock_timestamp()
           returning ${COLUMNS}`,
          [name, role, expiresAt, Buffer.from(tokenHash)],
        );
        if (row !== undefined) await insertAudit(tx, audit);
        return row ?? null;
      }),

    revoke: (name, audit) =>
      database.transaction(async (tx) => {
        const [row] = await tx.rows<{ alive: boolean }>(
          `select ${ALIVE} as alive from core.api_token where name = $1 for update`,
          [name],
        );
        if (row === undefined) return null;
        if (!row.alive) return 'gone';
        await tx.run('update core.api_token set revoked_at = clock_timestamp() where name = $1', [name]);
        await insertAudit(tx, audit);
        return 'revoked';
      }),

    async find(tokenHash) {
      const [row] = await database.rows<{
        name: string;
        role: string;
        expiresAt: string | null;
        tokenHash: Buffer;
      }>(
        `with used as (
           update core.api_token set last_used_at = clock_timestamp()
           where token_hash = $1 and ${ALIVE}
             and (last_used_at is null or last_used_at < clock_timestamp() - interval '1 minute'))
         select name, role, expires_at as "expiresAt", token_hash as "tokenHash"
         from core.api_token where token_hash = $1 and ${ALIVE}`,
        [Buffer.from(tokenHash)],
      );
      return row ?? null;
    },
  };
}
