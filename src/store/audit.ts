/** The audit trail (api 8.5). Append-only; the row goes through the transaction of what it tells about. */
import type { AuditRow } from '../../actors/audit.ts';
import type { Sql } from './pool.ts';

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
