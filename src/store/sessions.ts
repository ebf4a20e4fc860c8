/** Rows of `core.session`, by the clock of the database. A dead session is answered like one that never was. */
import type { SessionStore, StoredSession } from '../../actors/session-service.ts';
import { onlyRow } from './only-row.ts';
import type { Sql } from './pool.ts';

const ALIVE = 'revoked_at is null and idle_expires_at > clock_timestamp() and expires_at > clock_timestamp()';

export function createSessionStore(sql: Sql): SessionStore {
  return {
    async insert({ tokenHash, subject, email, name, roles, userAgent, ip, idleSeconds, maxSeconds }) {
      // A login is the moment to clear away what ended long ago; nobody waits for more than a few rows.
      await sql.run(
        `delete from core.session where token_hash in (
           select token_hash from core.session where expires_at < clock_timestamp() - interval '1 day' limit 100)`,
      );
      const rows = await sql.rows<{ expiresAt: string }>(
        `insert into core.session
           (token_hash, subject, email, name, roles, user_agent, ip, idle_expires_at, expires_at)
         values ($1, $2, $3, $4, $5::text[], $6, $7,
           clock_timestamp() + least($8::float8, $9::float8) * interval '1 second',
           clock_timestamp() + $9::float8 * interval '1 second')
         returning expires_at as "expiresAt"`,
        [Buffer.from(tokenHash), subject, email, name, [...roles], userAgent, ip, idleSeconds, maxSeconds],
      );
      return onlyRow(rows).expiresAt;
    },
    async use(tokenHash, idleSeconds) {
      const [row] = await sql.rows<StoredSession>(
        `update core.session
         set last_seen_at = clock_timestamp(),
             idle_expires_at = least(expires_at, clock_timestamp() + $2::float8 * interval '1 second')
         where token_hash = $1 and ${ALIVE}
         returning subject, email, name, roles, expires_at as "expiresAt"`,
        [Buffer.from(tokenHash), idleSeconds],
      );
      return row ?? null;
    },
    revokeToken: (tokenHash) => revoke('token_hash = $1', Buffer.from(tokenHash)),
    revokeSubject: (subject) => revoke('subject = $1', subject),
  };

  function revoke(which: 'token_hash = $1' | 'subject = $1', value: unknown): Promise<number> {
    return sql.run(`update core.session set revoked_at = clock_timestamp() where ${which} and ${ALIVE}`, [value]);
  }
}
