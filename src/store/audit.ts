/** The audit trail (api 8.5). Append-only; the row goes through the transaction of what it tells about. */
import type { AuditStore } from '../../actors/admin-service.ts';
import type { AuditRow } from '../../actors/audit.ts';
import type { StoredAudit } from '../../actors/services.ts';
import { createConditions } from './conditions.ts';
import type { Sql } from './pool.ts';

export function createAuditStore(sql: Sql): AuditStore {
  return {
    insert: (row) => insertAudit(sql, row),
    async list({ action, actor, target, since, until, after, limit }) {
      const where = createConditions();
      if (action !== null) where.add('action = ?', action);
      if (actor !== null) where.add('actor = ?', actor);
      if (target !== null) where.add('target = ?', target);
      if (since !== null) where.add('at >= ?', since);
      if (until !== null) where.add('at < ?', until);
      // Ids grow with time only roughly, so a page goes on behind the row and not behind its number.
      if (after !== null) where.add('(at, audit_id) < (select at, audit_id from core.audit where audit_id = ?)', after);
      const most = where.bind(limit);
      return sql.rows<StoredAudit>(
        `select audit_id as "auditId", at, actor, role, action, target, outcome, request_id as "requestId", ip, detail
         from core.audit
         ${where.clause()}
         order by at desc, audit_id desc
         limit ${most}`,
        where.values,
      );
    },
  };
}

export async function insertAudit(database: Sql, row: AuditRow): Promise<void> {
  await database.run(
    `insert into core.audit (audit_id, actor, role, action, target, outcome, request_id, ip, detail)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb)`,
    [
      row.auditId,
      row.actor,
      row.role,
      row.action,
      row.target,
      row.outcome,
      row.requestId,
      row.ip,
      JSON.stringify(row.detail),
    ],
  );
}
