/** The executions this one started, and those of the whole family when it is the root. */
import { get } from '../core/api.ts';
import { learn } from '../core/executions.ts';
import { useResource } from '../core/resource.ts';
import { to } from '../core/router.ts';
import type { Execution } from '../core/wire.ts';
import { Card } from '../parts/page.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { ExecutionTable } from './execution-table.tsx';

const EVERY_MS = 3_000;
const SHOWN = 200;

export function Children({ row }: { row: Execution }) {
  const children = useResource(
    `children ${row.execution_id}`,
    async (signal) => {
      const rows = await get<readonly Execution[]>(
        '/api/executions',
        { parent_execution_id: row.execution_id, page_size: SHOWN, order: 'start_time' },
        signal,
      );
      for (const each of rows) learn(each);
      return rows.map((each) => each.execution_id);
    },
    () => (row.status === 'running' ? EVERY_MS : null),
  );
  return (
    <div class="stack">
      {row.parent_execution_id !== null && (
        <p class="notice">
          This is a child of <a href={to.execution(row.parent_execution_id)}>#{row.parent_execution_id}</a>
          {row.root_execution_id !== row.parent_execution_id && (
            <>
              {' '}
              in the family of <a href={to.execution(row.root_execution_id)}>#{row.root_execution_id}</a>
            </>
          )}
          .
        </p>
      )}
      <Card title="Children" flush>
        {children.error !== null && children.data === null ? (
          <Failed error={children.error} retry={children.reload} />
        ) : children.data === null ? (
          <Loading what="children" />
        ) : children.data.length === 0 ? (
          <Empty icon="runs" title="It started no other execution">
            <p>A step with a playbook tool starts one; it appears here as soon as it exists.</p>
          </Empty>
        ) : (
          <>
            <ExecutionTable ids={children.data} />
            {children.data.length === SHOWN && <p class="soft small pad">Only the first {SHOWN} are shown.</p>}
          </>
        )}
      </Card>
    </div>
  );
}
