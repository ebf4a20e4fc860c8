/** Rows of `core.transient`. What has expired is not there for anybody; reconciliation takes the row away later. */
import type { Variable, VariableStore } from '../../actors/variable-service.ts';
import { onlyRow } from './only-row.ts';
import type { ReadPool } from './pool.ts';

const LIVE = '(expires_at is null or expires_at > clock_timestamp())';
const COLUMNS = `
  var_name as name, var_type as type, var_value as value, source_step as "sourceStep", created_at as "createdAt",
  accessed_at as "accessedAt", access_count as "accessCount"`;

export function createVariableStore(database: ReadPool): VariableStore {
  return {
    async exists(executionId) {
      const rows = await database.rows('select from core.execution where execution_id = $1', [executionId]);
      return rows.length > 0;
    },

    list: (executionId) =>
      database.rows<Variable>(
        `select ${COLUMNS} from core.transient where execution_id = $1 and ${LIVE} order by var_name collate "C"`,
        [executionId],
      ),

    async read(executionId, name) {
      const rows = await database.rows<Variable>(
        `update core.transient set access_count = access_count + 1, accessed_at = clock_timestamp()
         where execution_id = $1 and var_name = $2 and ${LIVE}
         returning ${COLUMNS}`,
        [executionId, name],
      );
      return rows[0] ?? null;
    },

    put: (executionId, drafts, { expiresInSeconds, max }) =>
      database.transaction(async (tx) => {
        // One writer at a time, so that the count below is true when it is used.
        await tx.run(`select pg_advisory_xact_lock(hashtextextended('core.transient', $1))`, [executionId]);
        const names = drafts.map((draft) => draft.name);
        const others = await tx.rows<{ count: number }>(
          `select count(*)::int as count from core.transient
           where execution_id = $1 and ${LIVE} and var_name <> all ($2::text[])`,
          [executionId, names],
        );
        if (onlyRow(others).count + drafts.length > max) return false;
        await tx.run(
          `insert into core.transient (execution_id, var_name, var_type, var_value, source_step, expires_at)
           select $1, name, type, value::jsonb, step, clock_timestamp() + $6::float8 * interval '1 second'
           from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as given (name, type, value, step)
           on conflict (execution_id, var_name) do update
           set var_type = excluded.var_type, var_value = excluded.var_value, source_step = excluded.source_step,
               expires_at = excluded.expires_at,
               created_at = case when transient.expires_at <= clock_timestamp() then excluded.created_at
                 else transient.created_at end`,
          [
            executionId,
            names,
            drafts.map((draft) => draft.type),
            drafts.map((draft) => JSON.stringify(draft.value)),
            drafts.map((draft) => draft.sourceStep),
            expiresInSeconds,
          ],
        );
        return true;
      }),

    async remove(executionId, name) {
      const rows = await database.rows<{ isLive: boolean }>(
        `delete from core.transient where execution_id = $1 and ($2::text is null or var_name = $2)
         returning ${LIVE} as "isLive"`,
        [executionId, name],
      );
      return rows.filter((row) => row.isLive).length;
    },
  };
}
