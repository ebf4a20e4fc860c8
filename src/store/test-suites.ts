/** Rows of `core.test_suite`. */
import type { TestSuite, TestSuiteService } from '../../actors/services.ts';
import { onlyRow } from './only-row.ts';
import type { Sql } from './pool.ts';

const COLUMNS = `suite_id as "suiteId", playbook_path as "playbookPath", tests, metadata, updated_at as "updatedAt"`;

export function createTestSuiteStore(sql: Sql): TestSuiteService {
  return {
    async find(suiteId) {
      const rows = await sql.rows<TestSuite>(`select ${COLUMNS} from core.test_suite where suite_id = $1`, [suiteId]);
      return rows[0] ?? null;
    },
    async save({ suiteId, playbookPath, tests, metadata }) {
      const rows = await sql.rows<TestSuite>(
        `insert into core.test_suite (suite_id, playbook_path, tests, metadata)
         values ($1, $2, $3::text::jsonb, $4::text::jsonb)
         on conflict (suite_id) do update
         set playbook_path = excluded.playbook_path, tests = excluded.tests, metadata = excluded.metadata,
             updated_at = clock_timestamp()
         returning ${COLUMNS}`,
        [suiteId, playbookPath, JSON.stringify(tests), JSON.stringify(metadata)],
      );
      return onlyRow(rows);
    },
    async remove(suiteId) {
      return (await sql.run('delete from core.test_suite where suite_id = $1', [suiteId])) > 0;
    },
  };
}
