/** The log, newest first, as long as it may be: filters in the address, arrow keys, and one event in full beside it. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, queryText } from '../core/api.ts';
import { timeStyle } from '../core/preferences.ts';
import { useResource } from '../core/resource.ts';
import { query, setQuery } from '../core/router.ts';
import { durationText, localText, utcText } from '../core/time.ts';
import type { EventPage, Execution, LogEvent } from '../core/wire.ts';
import { Download } from '../parts/download.tsx';
import { Icon } from '../parts/icons.tsx';
import { JsonView } from '../parts/json.tsx';
import { Card } from '../parts/page.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { StatusBadge, toneIcon, toneOf } from '../parts/status.tsx';
import { VirtualRows } from '../parts/virtual-rows.tsx';
import { createEventSource, type EventFilters, isFiltered } from './event-source.ts';

const ROW_PX = 34;
const STATUSES: readonly string[] = ['pending', 'started', 'running', 'completed', 'failed', 'skipped', 'cancelled'];
const KINDS: readonly (readonly [string, string])[] = [
  ['', 'All events'],
  ['step.*', 'Steps'],
  ['command.*', 'Commands'],
  ['call.*', 'Calls'],
  ['loop.*', 'Loops'],
  ['ctx.*', 'Variables'],
  ['execution.*,playbook.*,workflow.*', 'Beginning and end'],
];

interface Choice {
  /** Where it stood when it was chosen. */
  readonly index: number;
  /** Null where a row was chosen that is not loaded yet. */
  readonly eventId: number | null;
}

export function EventsTab({ row, last }: { row: Execution; last: number }) {
  const params = query.value;
  const filters: EventFilters = {
    event_type: params.get('type') ?? '',
    status: params.get('status') ?? '',
    step: params.get('step') ?? '',
    q: params.get('q') ?? '',
  };
  const open = Number(params.get('event') ?? 0) || null;
  const [, redraw] = useState(0);
  const [error, setError] = useState<Error | null>(null);
  const filtered = isFiltered(filters);
  const [chosen, setChosen] = useState<Choice>({ index: -1, eventId: null });
  const place = useRef<HTMLDivElement>(null);
  const source = useMemo(
    () =>
      createEventSource(row.execution_id, filters, last, (problem) => {
        setError(problem);
        redraw((before) => before + 1);
      }),
    [row.execution_id, ...Object.values(filters)],
  );
  useEffect(() => source.grow(last), [source, last]);
  useEffect(() => source.stop, [source]);
  useEffect(() => {
    if (open !== null) setChosen((before) => (before.eventId === open ? before : { index: -1, eventId: open }));
  }, [open]);
  // Chosen is an event, not its place: that shifts while the log grows above it.
  const found = chosen.eventId === null ? -1 : source.find(chosen.eventId);
  const at = found === -1 ? chosen.index : found;

  const show = (index: number): void => {
    const event = source.at(index);
    if (event !== null) setQuery({ event: String(event.event_id) });
  };
  const close = (): void => {
    setQuery({ event: null });
    place.current?.querySelector<HTMLElement>('[role=listbox]')?.focus();
  };
  return (
    <div class="stack">
      <EventFilterBar filters={filters} />
      <div class={open === null ? undefined : 'columns wide-first'}>
        <section
          class="card"
          aria-label="Events"
          ref={place}
          onKeyDown={(event) => {
            if (event.key === 'Escape' && open !== null) close();
          }}
        >
          <header>
            <p class="small soft" role="status">
              {source.counted ? countText(source.total, filtered) : ''}
            </p>
            <Download
              path={`/api/events/${row.execution_id}${queryText({ ...filters, format: 'ndjson' })}`}
              name={`execution-${row.execution_id}.ndjson`}
              tiny
            >
              <Icon name="down" size={14} /> Download
            </Download>
          </header>
          {error !== null && source.total === 0 ? (
            <Failed error={error} />
          ) : !source.counted ? (
            <Loading what="events" />
          ) : source.total === 0 ? (
            <Empty icon="search" title="No events match these filters" />
          ) : (
            <VirtualRows
              count={source.total}
              rowHeight={ROW_PX}
              label="Events, newest first"
              chosen={at}
              reveal={filtered ? null : open}
              onChoose={(index) => {
                setChosen({
                  index,
                  eventId: filtered ? (source.at(index)?.event_id ?? null) : source.total - index,
                });
                // With one open, the arrow keys go from one to the next.
                if (open !== null) show(index);
              }}
              onOpen={show}
              onRange={(from, to) => source.want(from, to)}
              row={(index) => <EventRow event={source.at(index)} start={row.start_time} />}
            />
          )}
        </section>
        {open !== null && <EventCard id={row.execution_id} eventId={open} onClose={close} />}
      </div>
    </div>
  );
}

function countText(count: number, filtered: boolean): string {
  const events = `${count.toLocaleString('en')} ${count === 1 ? 'event' : 'events'}`;
  return filtered ? `${events} ${count === 1 ? 'matches' : 'match'}` : `${events}, newest first`;
}

function EventRow({ event, start }: { event: LogEvent | null; start: string }) {
  if (event === null) return <span class="soft small">…</span>;
  const tone = toneOf(event.status);
  const at =
    timeStyle.value === 'utc'
      ? utcText(event.created_at)
      : timeStyle.value === 'local'
        ? localText(event.created_at)
        : `+${durationText(Date.parse(event.created_at) - Date.parse(start))}`;
  return (
    <>
      <span class="event-id">{event.event_id}</span>
      <span class={`event-type tone-${tone}`}>
        <Icon name={toneIcon(event.status)} size={12} />
        <span class="visually-hidden">{event.status}</span> {event.event_type}
      </span>
      <span class="event-node">{event.node_id}</span>
      <span class="event-text">{event.error ?? event.worker_id ?? ''}</span>
      <span class="event-time">{event.duration === null ? '' : durationText(event.duration)}</span>
      <span class="event-time">{at}</span>
    </>
  );
}

function EventFilterBar({ filters }: { filters: EventFilters }) {
  return (
    <search class="filters">
      <select
        aria-label="Kind of event"
        value={filters.event_type}
        onChange={(event) => setQuery({ type: event.currentTarget.value })}
      >
        {KINDS.map(([value, name]) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
        {!KINDS.some(([value]) => value === filters.event_type) && <option>{filters.event_type}</option>}
      </select>
      <select
        aria-label="Status of the event"
        value={filters.status}
        onChange={(event) => setQuery({ status: event.currentTarget.value })}
      >
        <option value="">Any status</option>
        {STATUSES.map((each) => (
          <option key={each}>{each}</option>
        ))}
        {filters.status !== '' && !STATUSES.includes(filters.status) && <option>{filters.status}</option>}
      </select>
      <button
        type="button"
        class="toggle"
        aria-pressed={filters.status === 'failed'}
        onClick={() => setQuery({ status: filters.status === 'failed' ? null : 'failed' })}
      >
        Failed only
      </button>
      <input
        type="search"
        aria-label="Step"
        placeholder="Step"
        key={`step ${filters.step}`}
        defaultValue={filters.step}
        onChange={(event) => setQuery({ step: event.currentTarget.value.trim() })}
      />
      <input
        type="search"
        aria-label="Text"
        placeholder="Text"
        key={`q ${filters.q}`}
        defaultValue={filters.q}
        onChange={(event) => setQuery({ q: event.currentTarget.value.trim() })}
      />
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          if (!(event.currentTarget instanceof HTMLFormElement)) return;
          const wanted = Number(new FormData(event.currentTarget).get('number'));
          if (Number.isInteger(wanted) && wanted > 0) setQuery({ event: String(wanted) });
        }}
      >
        <input class="short" name="number" inputMode="numeric" aria-label="Number of an event" placeholder="Number" />
      </form>
    </search>
  );
}

function EventCard({ id, eventId, onClose }: { id: number; eventId: number; onClose: () => void }) {
  const found = useResource(`event ${id} ${eventId}`, async (signal) => {
    const page = await get<EventPage>(
      `/api/events/${id}`,
      { since_event_id: eventId - 1, until_event_id: eventId, fields: 'all', page_size: 10 },
      signal,
    );
    return { event: page.events[0] ?? null };
  });
  const event = found.data?.event ?? null;
  return (
    <Card
      title={event === null ? `Event ${eventId}` : `${eventId} · ${event.event_type}`}
      reveal={eventId}
      actions={
        <button type="button" class="button quiet tiny" aria-label="Close the event" onClick={onClose}>
          <Icon name="cross" size={14} />
        </button>
      }
    >
      {found.error !== null && <Failed error={found.error} retry={found.reload} />}
      {found.loading && <Loading what="the event" />}
      {found.data !== null && event === null && (
        <Empty icon="search" title="There is no such event">
          <p>The log has no event {eventId}.</p>
        </Empty>
      )}
      {event !== null && (
        <div class="stack">
          <p class="row">
            <StatusBadge status={event.status} /> {event.node_id} <span class="soft">{utcText(event.created_at)}</span>
          </p>
          {event.error !== null && <p class="problem break">{event.error}</p>}
          {/* The whole object, as the API gives it. */}
          <JsonView value={JSON.parse(JSON.stringify(event))} label={`event ${eventId}`} />
        </div>
      )}
    </Card>
  );
}
