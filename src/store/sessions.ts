/** Rows of `core.session`, by the clock of the database. A dead session is answered like one that never was. */
import type { SessionStore, StoredSession } from '../../actors/session-service.ts';
import { insertAudit } from './audit.ts';
import { onlyRow } from './only-row.ts';
import type { ReadPool } from './pool.ts';

const ALIVE = 'revoked_at is null and idle_expires_at > clock_timestamp() and expires_at > clock_timestamp()';

export function createSessionStore(database: ReadPool): SessionStore {
  return {
    async insert({ tokenHash, subject, email, name, roles, userAgent, ip, idleSeconds, maxSeconds }, audit) {
      // A login is the moment to clear away what ended long ago; nobody waits for more than a few rows.
      await database.run(
        `delete from core.session where token_hash in (
           select token_hash from core.session where expires_at < clock_timestamp() - interval '1 day' limit 100)`,
      );
      return database.transaction(async (tx) => {
        const rows = await tx.rows<{ expiresAt: string }>(
          `insert into core.session
             (token_hash, subject, email, name, roles, user_agent, ip, idle_expires_at, expires_at)
           values ($1, $2, $3, $4, $5::text[], $6, $7,
             clock_timestamp() + least($8::float8, $9::float8) * interval '1 second',
             clock_timestamp() + $9::float8 * interval '1 second')
           returning expires_at as "expiresAt"`,
          [Buffer.from(tokenHash), subject, email, name, [...roles], userAgent, ip, idleSeconds, maxSeconds],
        );
        await insertAudit(tx, audit);
        return onlyRow(rows).expiresAt;
      });
    },
    async use(tokenHash, idleSeconds) {
      // A session in use is asked for every second; it is written only where that moves its end by a good part.
      const [row] = await database.rows<StoredSession>(
        `with used as (
           update core.session
           set last_seen_at = clock_timestamp(),
               idle_expires_at = least(expires_at, clock_timestamp() + $2::float8 * interval '1 second')
           where token_hash = $1 and ${ALIVE}
             and idle_expires_at + least(10, $2::float8 / 10) * interval '1 second'
               < least(expires_at, clock_timestamp() + $2::float8 * interval '1 second'))
         select subject, email, name, roles, expires_at as "expiresAt"
         from core.session where token_hash = $1 and ${ALIVE}`,
        [Buffer.from(tokenHash), idleSeconds],
      );
      return row ?? null;
    },
    revoke: (which, audit) =>
      database.transaction(async (tx) => {
        const [where, value] =
          'subject' in which
            ? (['subject = $1', which.subject] as const)
            : (['token_hash = $1', Buffer.from(which.tokenHash)] as const);
        const ended = await tx.rows<{ subject: string }>(
          `update core.session set revoked_at = clock_timestamp() where ${where} and ${ALIVE} returning subject`,
          [value],
        );
        const [first] = ended;
        if (first !== undefined) await insertAudit(tx, audit(first.subject, ended.length));
        return ended.length;
      }),
  };
}
