/** The first page: what runs, what failed lately, and for someone new what to do first. */
import { useState } from 'preact/hooks';
import { get } from '../core/api.ts';
import { executionSignal, learn } from '../core/executions.ts';
import { useResource } from '../core/resource.ts';
import { to } from '../core/router.ts';
import type { CatalogEntry, DashboardStats, Execution } from '../core/wire.ts';
import { ExecutionTable } from '../execution/execution-table.tsx';
import { Icon } from '../parts/icons.tsx';
import { When } from '../parts/instant.tsx';
import { Card, PageHead } from '../parts/page.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { RunDialog } from '../playbook/run-dialog.tsx';

const SHOWN = 8;
const EVERY_MS = 3_000;
const QUIET_EVERY_MS = 10_000;

export function Overview() {
  const stats = useResource(
    'stats',
    (signal) => get<DashboardStats>('/api/dashboard/stats', {}, signal),
    () => 5_000,
  );
  const recent = useResource(
    'recent',
    async (signal) => {
      const [latest, failed] = await Promise.all([
        get<readonly Execution[]>('/api/executions', { page_size: SHOWN, roots_only: true }, signal),
        get<readonly Execution[]>('/api/executions', { page_size: 5, status: 'failed' }, signal),
      ]);
      for (const each of [...latest, ...failed]) learn(each);
      return {
        latest: latest.map((each) => each.execution_id),
        failed: failed.map((each) => each.execution_id),
        running: latest.some((each) => each.status === 'running'),
      };
    },
    (data) => (data?.running === true ? EVERY_MS : QUIET_EVERY_MS),
  );
  return (
    <>
      <PageHead title="Overview" lead="What runs now, what went wrong lately, and what can be run." />
      {recent.error !== null && recent.data === null ? (
        <Failed error={recent.error} retry={recent.reload} />
      ) : (
        <div class="stack">
          <Numbers stats={stats.data} />
          <div class="columns wide-first">
            <Card title="Latest executions" flush actions={<a href={to.executions}>All executions</a>}>
              {recent.data === null ? (
                <Loading what="executions" />
              ) : recent.data.latest.length === 0 ? (
                <Empty icon="play" title="Nothing has run yet">
                  <p>Choose one of the playbooks and press its Run button: it opens a form with its inputs.</p>
                </Empty>
              ) : (
                <ExecutionTable ids={recent.data.latest} compact />
              )}
            </Card>
            <div class="stack">
              <Card title="Recent failures" flush actions={<a href={`${to.executions}?status=failed`}>All failed</a>}>
                {recent.data === null ? (
                  <Loading what="failures" />
                ) : recent.data.failed.length === 0 ? (
                  <Empty icon="check" title="No failures" />
                ) : (
                  <ul class="rows">
                    {recent.data.failed.map((id) => (
                      <FailedRow key={id} id={id} />
                    ))}
                  </ul>
                )}
              </Card>
              <QuickRun />
            </div>
          </div>
        </div>
      )}
    </>
  );
}

function FailedRow({ id }: { id: number }) {
  const row = executionSignal(id).value;
  if (row === null) return null;
  return (
    <li>
      <a href={to.execution(id)}>
        {row.path} <span class="soft small">#{id}</span>
        <span class="sub" title={row.error ?? undefined}>
          {row.error}
        </span>
      </a>
      <span class="soft small">
        <When at={row.end_time} />
      </span>
    </li>
  );
}

function Numbers({ stats }: { stats: DashboardStats | null }) {
  const tiles: readonly (readonly [string, number | undefined, string, string])[] = [
    ['Running', stats?.running_executions, `${to.executions}?status=running`, 'running'],
    ['Completed', stats?.successful_executions, `${to.executions}?status=completed`, 'completed'],
    ['Failed', stats?.failed_executions, `${to.executions}?status=failed`, 'failed'],
    ['Cancelled', stats?.cancelled_executions, `${to.executions}?status=cancelled`, 'cancelled'],
    ['Waiting', stats?.queue_depth, '/ui/commands', 'pending'],
    ['Workers', stats?.total_workers, '/ui/commands', 'pending'],
  ];
  return (
    <div class="tiles">
      {tiles.map(([name, value, href, tone]) => (
        <a key={name} class={`tile tone-${tone}`} href={href}>
          <span class="tile-value">{value?.toLocaleString('en') ?? '–'}</span>
          <span class="tile-name">{name}</span>
        </a>
      ))}
    </div>
  );
}

function QuickRun() {
  const playbooks = useResource('quick', (signal) =>
    get<readonly CatalogEntry[]>('/api/catalog/playbooks', { limit: 8 }, signal),
  );
  const [run, setRun] = useState<string | null>(null);
  return (
    <Card title="Run a playbook" flush actions={<a href={to.playbooks}>All playbooks</a>}>
      {playbooks.data === null ? (
        <Loading what="playbooks" />
      ) : playbooks.data.length === 0 ? (
        <Empty icon="book" title="No playbooks yet">
          <a class="button primary" href={to.editor()}>
            Write the first one
          </a>
        </Empty>
      ) : (
        <ul class="rows">
          {playbooks.data.map((each) => (
            <li key={each.path}>
              <a href={to.playbook(each.path)}>
                {each.path}
                {each.description !== null && <span class="sub">{each.description}</span>}
              </a>
              <button
                type="button"
                class="button tiny"
                aria-label={`Run ${each.path}`}
                onClick={() => setRun(each.path)}
              >
                <Icon name="play" size={12} /> Run
              </button>
            </li>
          ))}
        </ul>
      )}
      {run !== null && <RunDialog path={run} version={null} onClose={() => setRun(null)} />}
    </Card>
  );
}
