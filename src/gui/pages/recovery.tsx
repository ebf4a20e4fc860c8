/** Care for what got stuck: clean-up, which shows what it would do first, and the sweep for forgotten commands. */
import { useState } from 'preact/hooks';
import { get, orNull, post } from '../core/api.ts';
import { loadExecution } from '../core/executions.ts';
import { useResource } from '../core/resource.ts';
import type { Json } from '../core/wire.ts';
import { ExecutionTable } from '../execution/execution-table.tsx';
import { Confirm } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { Card, PageHead } from '../parts/page.tsx';
import { NotAvailable, Problem } from '../parts/states.tsx';
import { say } from '../parts/toasts.tsx';
import { ReaperCard } from './reaper-card.tsx';

const SHOWN = 50;

interface CleanupAnswer {
  readonly cancelled_count: number;
  readonly execution_ids: readonly number[];
  readonly message: string;
}

export function Recovery() {
  return (
    <>
      <PageHead
        title="Recovery"
        lead="What to do when something got stuck. Everything here shows first what it will do."
      />
      <div class="columns">
        <Cleanup />
        <div class="stack">
          <ReaperCard />
          <Invariants />
        </div>
      </div>
    </>
  );
}

function Cleanup() {
  const [minutes, setMinutes] = useState(60);
  const [found, setFound] = useState<CleanupAnswer | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [asking, setAsking] = useState(false);
  const clean = (dryRun: boolean) =>
    post<CleanupAnswer>('/api/executions/cleanup', { older_than_minutes: minutes, dry_run: dryRun });
  const look = async (event: Event): Promise<void> => {
    event.preventDefault();
    setError(null);
    try {
      const answer = await clean(true);
      await Promise.all(answer.execution_ids.slice(0, SHOWN).map((id) => loadExecution(id)));
      setFound(answer);
    } catch (caught) {
      setError(caught instanceof Error ? caught : new Error(String(caught)));
    }
  };
  return (
    <Card title="Clean up stuck executions">
      <form class="stack" onSubmit={(event) => void look(event)}>
        <p class="soft">
          Cancels executions that started longer ago than this and have not ended, also those that are still at work.
        </p>
        <div class="row">
          <label class="row">
            Older than
            <input
              type="number"
              min={1}
              class="short"
              value={minutes}
              onInput={(event) => {
                setMinutes(Math.max(1, Number(event.currentTarget.value) || 1));
                setFound(null);
              }}
            />
            minutes
          </label>
          <button type="submit" class="button">
            <Icon name="search" size={14} /> Show what would be cancelled
          </button>
        </div>
        <Problem error={error} />
        {found !== null && (
          <div class="stack" aria-live="polite">
            <p>
              {found.cancelled_count === 0
                ? 'Nothing is stuck for that long.'
                : `${found.cancelled_count} would be cancelled. Nothing has been changed yet.`}
            </p>
            {found.cancelled_count > 0 && (
              <>
                <ExecutionTable ids={found.execution_ids.slice(0, SHOWN)} compact />
                <p>
                  <button type="button" class="button danger" onClick={() => setAsking(true)}>
                    {found.cancelled_count === 1 ? 'Cancel it…' : `Cancel these ${found.cancelled_count}…`}
                  </button>
                </p>
              </>
            )}
          </div>
        )}
      </form>
      {asking && found !== null && (
        <Confirm
          title={
            found.cancelled_count === 1
              ? 'Cancel one stuck execution?'
              : `Cancel ${found.cancelled_count} stuck executions?`
          }
          act={found.cancelled_count === 1 ? 'Cancel it' : `Cancel ${found.cancelled_count}`}
          word="clean up"
          onClose={() => setAsking(false)}
          onAct={async () => {
            const answer = await clean(false);
            await Promise.all(answer.execution_ids.slice(0, SHOWN).map((id) => loadExecution(id)));
            say(answer.message);
            setFound(null);
          }}
        >
          <p>
            They end as cancelled, and so do their running children. It cannot be undone, but each can be run again.
          </p>
        </Confirm>
      )}
    </Card>
  );
}

function Invariants() {
  const [asked, setAsked] = useState(0);
  const report = useResource(asked === 0 ? null : `invariants ${asked}`, (signal) =>
    orNull(
      get<{
        readonly status: string;
        readonly checks: readonly {
          readonly name: string;
          readonly ok: boolean;
          readonly count: number;
          readonly sample: readonly Json[];
        }[];
      }>('/api/admin/invariants', {}, signal),
    ),
  );
  return (
    <Card title="Check what is stored">
      <div class="stack">
        <p class="soft">
          Reads the log and everything derived from it, and names whatever does not agree. It changes nothing.
        </p>
        <p>
          <button
            type="button"
            class="button"
            disabled={report.loading && asked > 0}
            onClick={() => setAsked(asked + 1)}
          >
            <Icon name="check" size={14} /> Check now
          </button>
        </p>
        <Problem error={report.error} />
        {asked > 0 && !report.loading && report.data === null && report.error === null && (
          <NotAvailable title="This server has no such check" />
        )}
        {report.data !== null && (
          <ul class="rows" role="status">
            {report.data.checks.map((each) => (
              <li key={each.name}>
                <span>{each.name.replaceAll('_', ' ')}</span>
                <span class={`badge tone-${each.ok ? 'completed' : 'failed'}`}>
                  <Icon name={each.ok ? 'check' : 'cross'} size={13} />
                  {each.ok ? 'holds' : `${each.count} violations`}
                </span>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Card>
  );
}
