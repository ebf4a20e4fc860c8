/** How far an accepted batch of events is. A batch is known by the number its sender was answered. */
import { get } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { navigate, ROOT, segments, to } from '../core/router.ts';
import { durationText } from '../core/time.ts';
import { Icon } from '../parts/icons.tsx';
import { When } from '../parts/instant.tsx';
import { Card, PageHead } from '../parts/page.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';

interface BatchStatus {
  readonly request_id: string;
  readonly execution_id: number;
  readonly state: string;
  readonly status: string;
  readonly error_code: string | null;
  readonly message: string | null;
  readonly event_count: number;
  readonly commands_generated: number;
  readonly idempotency_key: string | null;
  readonly queue_wait_ms: number | null;
  readonly timings: Readonly<Record<string, number>> | null;
  readonly created_at: string;
  readonly updated_at: string;
}

export function Batches() {
  const id = segments.value[1] ?? null;
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const wanted = String(new FormData(event.currentTarget).get('id') ?? '').trim();
    if (wanted !== '') navigate(`${ROOT}/batches/${encodeURIComponent(wanted)}`);
  };
  return (
    <>
      <PageHead
        title={id === null ? 'Batches' : `Batch ${id}`}
        lead="Events that workers send in one piece are stored first and handled afterwards."
      />
      <div class="stack">
        <form class="filters" onSubmit={submit}>
          <input
            class="wide"
            name="id"
            type="search"
            inputMode="numeric"
            aria-label="Number of the request"
            placeholder="Number of the request"
            defaultValue={id ?? ''}
            key={id}
          />
          <button type="submit" class="button">
            <Icon name="search" size={14} /> Look up
          </button>
        </form>
        {id === null ? (
          <section class="card">
            <Empty icon="batch" title="Which batch?">
              <p>
                Its sender was answered with a <code>request_id</code>. Executions also name theirs: look among their
                events for <code>batch.accepted</code>.
              </p>
            </Empty>
          </section>
        ) : (
          <BatchCard id={id} />
        )}
      </div>
    </>
  );
}

/** Durations only, of which some say nothing: the longest first, and those that took no time not at all. */
function timingsOf({ queue_wait_ms, timings }: BatchStatus): readonly (readonly [string, number])[] {
  const measured = Object.entries({ ...timings, ...(queue_wait_ms === null ? {} : { queue_wait_ms }) });
  return measured
    .flatMap(([name, ms]) => (name.endsWith('_ms') && typeof ms === 'number' && ms > 0 ? [[name, ms] as const] : []))
    .sort((a, b) => b[1] - a[1]);
}

function BatchCard({ id }: { id: string }) {
  const batch = useResource(
    `batch ${id}`,
    (signal) => get<BatchStatus>(`/api/events/batch/${encodeURIComponent(id)}/status`, {}, signal),
    (data) => (data === null || data.status === 'completed' || data.status === 'failed' ? null : 1_000),
  );
  if (batch.error !== null && batch.data === null) {
    return (
      <section class="card">
        <Failed error={batch.error} retry={batch.reload} />
      </section>
    );
  }
  if (batch.data === null) return <Loading what="the batch" />;
  const { data } = batch;
  const timings = timingsOf(data);
  const longest = Math.max(1, ...timings.map(([, ms]) => ms));
  return (
    <div class="columns">
      <Card title="State" actions={<StatusBadge status={data.state} />}>
        <dl class="facts">
          <dt>Execution</dt>
          <dd>
            <a href={to.execution(data.execution_id)}>#{data.execution_id}</a>
          </dd>
          <dt>Events</dt>
          <dd>{data.event_count}</dd>
          <dt>Commands issued</dt>
          <dd>{data.commands_generated}</dd>
          {data.idempotency_key !== null && (
            <>
              <dt>Key</dt>
              <dd>
                <code>{data.idempotency_key}</code>
              </dd>
            </>
          )}
          <dt>Accepted</dt>
          <dd>
            <When at={data.created_at} />
          </dd>
          <dt>Changed</dt>
          <dd>
            <When at={data.updated_at} />
          </dd>
        </dl>
        {data.error_code !== null && (
          <p class="problem">
            {data.error_code}: {data.message}
          </p>
        )}
      </Card>
      <Card title="Times">
        {timings.length === 0 ? (
          <p class="soft">Not measured yet.</p>
        ) : (
          <dl class="facts">
            {timings.map(([name, ms]) => [
              <dt key={name}>{name.replaceAll('_', ' ').replace(/ ms$/, '')}</dt>,
              <dd key={`${name} value`} class="progress">
                <progress max={longest} value={ms} aria-label={name} />
                <span class="small nowrap">{durationText(ms)}</span>
              </dd>,
            ])}
          </dl>
        )}
      </Card>
    </div>
  );
}
