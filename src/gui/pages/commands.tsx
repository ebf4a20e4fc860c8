/** Who works, and what waits: workers by their heartbeat, and commands that have not ended, oldest first. */
import { get } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { query, setQuery, to } from '../core/router.ts';
import { durationText } from '../core/time.ts';
import type { CommandItem, Worker } from '../core/wire.ts';
import { When } from '../parts/instant.tsx';
import { More, ROWS_SHOWN } from '../parts/more.tsx';
import { Card, PageHead } from '../parts/page.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';
import { ReaperCard } from './reaper-card.tsx';

const EVERY_MS = 3_000;
const OPEN = ['PENDING', 'CLAIMED', 'RUNNING'];

export function Commands() {
  const status = query.value.get('status') ?? '';
  const workers = useResource(
    'workers',
    (signal) => get<{ readonly items: readonly Worker[] }>('/api/worker/pools', {}, signal),
    () => EVERY_MS,
  );
  const commands = useResource(
    `commands ${status}`,
    (signal) =>
      get<{ readonly commands: readonly CommandItem[]; readonly next_after: number | null }>(
        '/api/commands',
        { status: status === '' ? OPEN.join(',') : status, limit: 200 },
        signal,
      ),
    () => EVERY_MS,
  );
  return (
    <>
      <PageHead title="Workers and commands" lead="Who works, and what waits to be worked on." />
      <div class="stack">
        <Card title="Workers" flush>
          {workers.data === null ? (
            workers.error === null ? (
              <Loading what="workers" />
            ) : (
              <Failed error={workers.error} retry={workers.reload} />
            )
          ) : workers.data.items.length === 0 ? (
            <Empty icon="workers" title="No worker has said a word yet">
              <p>
                Commands wait until one does. Start one with <code>npx callboard worker</code>.
              </p>
            </Empty>
          ) : (
            <WorkerTable workers={workers.data.items} />
          )}
        </Card>
        <Card
          title="Commands"
          flush
          actions={
            <select
              aria-label="Which commands"
              value={status}
              onChange={(event) => setQuery({ status: event.currentTarget.value })}
            >
              <option value="">All that have not ended</option>
              {[...OPEN, 'FAILED', 'CANCELLED', 'COMPLETED'].map((each) => (
                <option key={each} value={each}>
                  {each.toLowerCase()}
                </option>
              ))}
            </select>
          }
        >
          {commands.data === null ? (
            commands.error === null ? (
              <Loading what="commands" />
            ) : (
              <Failed error={commands.error} retry={commands.reload} />
            )
          ) : commands.data.commands.length === 0 ? (
            <Empty icon="check" title={status === '' ? 'Nothing waits' : 'There is none'}>
              <p>{status === '' ? 'Every command that was issued has ended.' : 'No command has this status.'}</p>
            </Empty>
          ) : (
            <CommandTable commands={commands.data.commands} more={commands.data.next_after !== null} />
          )}
        </Card>
        <ReaperCard />
      </div>
    </>
  );
}

function livelyFirst(a: Worker, b: Worker): number {
  return Number(a.status === 'offline') - Number(b.status === 'offline') || a.name.localeCompare(b.name);
}

function WorkerTable({ workers }: { workers: readonly Worker[] }) {
  return (
    <div class="scroll-x">
      <table class="list">
        <thead>
          <tr>
            <th>Status</th>
            <th>Worker</th>
            <th>Pools</th>
            <th>Busy</th>
            <th>Last heard</th>
          </tr>
        </thead>
        <tbody>
          {[...workers]
            .sort(livelyFirst)
            .slice(0, ROWS_SHOWN)
            .map((each) => (
              <tr key={`${each.kind} ${each.name}`}>
                <td>
                  <StatusBadge status={each.stale && each.status === 'ready' ? 'stale' : each.status} />
                </td>
                <td class="break">
                  {each.name}
                  <span class="sub">
                    {[each.kind, each.hostname, each.version].filter((part) => part !== null).join(' · ')}
                  </span>
                </td>
                <td>{each.pools.join(', ')}</td>
                <td>
                  <span class="progress">
                    <progress max={each.capacity} value={each.open_commands} aria-label={`Commands of ${each.name}`} />
                    <span class="small nowrap">
                      {each.open_commands} of {each.capacity}
                    </span>
                  </span>
                </td>
                <td>
                  <When at={each.heartbeat} />
                </td>
              </tr>
            ))}
        </tbody>
      </table>
      <More total={workers.length} hint="Those that are offline come last." />
    </div>
  );
}

function CommandTable({ commands, more }: { commands: readonly CommandItem[]; more: boolean }) {
  return (
    <div class="scroll-x">
      <table class="list">
        <thead>
          <tr>
            <th>Status</th>
            <th>Command</th>
            <th>Worker</th>
            <th class="number">Attempt</th>
            <th>Next look</th>
            <th class="number">Age</th>
          </tr>
        </thead>
        <tbody>
          {commands.map((each) => (
            <tr key={each.command_id}>
              <td>
                <StatusBadge status={each.status} />
              </td>
              <td>
                {each.step} <span class="soft small">#{each.command_id}</span>
                <span class="sub">
                  of <a href={to.execution(each.execution_id)}>execution {each.execution_id}</a>
                </span>
              </td>
              <td class="break">
                {each.worker_id ?? <span class="soft">nobody yet</span>}
                {each.worker_status !== null && each.worker_status !== 'ready' && (
                  <span class="sub">{each.worker_status}</span>
                )}
              </td>
              <td class="number">{each.attempt}</td>
              <td>
                <When at={each.next_wake_at} />
              </td>
              <td class="number">{durationText(each.age_seconds * 1000)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {more && <p class="soft small pad">Only the first 200 are shown.</p>}
    </div>
  );
}
