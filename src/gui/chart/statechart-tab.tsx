/**
 * The machine of an execution, now or at any earlier event: the chart, a scrubber through its log, what each event
 * changed, and what could happen next. The moment is in the address as ?at=, without it the view follows the present.
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, orNull, pretty } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { query, setQuery, to } from '../core/router.ts';
import { localText } from '../core/time.ts';
import type { Execution, MachineDetail, MachineView, TraceFrame } from '../core/wire.ts';
import { Icon } from '../parts/icons.tsx';
import { JsonView } from '../parts/json.tsx';
import { Card } from '../parts/page.tsx';
import { Failed, Loading, NotAvailable } from '../parts/states.tsx';
import { ChartView } from './chart-view.tsx';
import { type Change, changesBetween, contextAt, frameAt, marksOf, nextStateChange } from './trace.ts';

const PAGE = 500;
const FRAMES_MAX = 30_000;
const PLAY_MS = 500;
const CHANGES_SHOWN = 40;
const TICKS_MAX = 300;

interface Trace {
  readonly frames: readonly TraceFrame[];
  /** `loading` while later frames are on their way, `cut` where there are more than are kept. */
  readonly rest: 'none' | 'loading' | 'cut';
}

export function StatechartTab({ row, events }: { row: Execution; events: number }) {
  const chart = useResource('machine execution', (signal) =>
    orNull(get<MachineDetail>('/api/machines/execution', {}, signal)),
  );
  const trace = useTrace(row.execution_id, Math.max(events, row.last_event_id));
  if (chart.data === null && chart.error !== null) return <Failed error={chart.error} retry={chart.reload} />;
  if (trace.held === undefined && trace.error !== null) return <Failed error={trace.error} retry={trace.reload} />;
  if (chart.loading || trace.held === undefined) return <Loading what="the statechart" />;
  if (chart.data === null || trace.held === null) {
    return (
      <section class="card">
        <NotAvailable title="The statechart is not available">
          This server does not show its machines. Events, graph and timeline tell the same story.
        </NotAvailable>
      </section>
    );
  }
  return <TimeTravel row={row} chart={chart.data} trace={trace.held} />;
}

interface TraceResource {
  /** Undefined while loading, null when the server has no traces. */
  readonly held: Trace | null | undefined;
  readonly error: Error | null;
  reload(): void;
}

/** Grows with the log. A long one is shown from its beginning while the rest is loaded. */
function useTrace(id: number, last: number): TraceResource {
  const frames = useRef<TraceFrame[]>([]);
  const [part, setPart] = useState<Trace | undefined>(undefined);
  const load = async (signal: AbortSignal): Promise<{ readonly trace: Trace | null }> => {
    while (frames.current.length < FRAMES_MAX) {
      const after = frames.current.at(-1)?.n ?? 0;
      const path = `/api/executions/${id}/trace`;
      const found = await orNull(get<{ readonly frames: readonly TraceFrame[] }>(path, { after, limit: PAGE }, signal));
      signal.throwIfAborted();
      if (found === null) return { trace: null };
      frames.current.push(...found.frames.filter((frame) => frame.n > after));
      if (found.frames.length < PAGE) return { trace: { frames: [...frames.current], rest: 'none' } };
      setPart({ frames: [...frames.current], rest: 'loading' });
    }
    return { trace: { frames: [...frames.current], rest: 'cut' } };
  };
  const { data, error, reload } = useResource(`trace ${id}`, load, () => null, last);
  return { held: data === null ? part : data.trace, error, reload };
}

function TimeTravel({ row, chart, trace }: { row: Execution; chart: MachineDetail; trace: Trace }) {
  const { frames } = trace;
  const wanted = query.value.get('at');
  const isAhead = trace.rest === 'loading' && Number(wanted) > (frames.at(-1)?.event_id ?? 0);
  const index = wanted === null ? frames.length - 1 : Math.max(0, frameAt(frames, Number(wanted)));
  const frame = frames[index];
  const live = wanted === null;
  const [playing, setPlaying] = useState(false);

  const go = (next: number): void => {
    const goal = frames[Math.min(frames.length - 1, Math.max(0, next))];
    if (goal !== undefined) setQuery({ at: String(goal.event_id) });
  };
  useEffect(() => {
    if (!playing) return;
    if (index >= frames.length - 1) {
      setPlaying(false);
      return;
    }
    const timer = setTimeout(() => go(index + 1), PLAY_MS);
    return () => clearTimeout(timer);
  }, [playing, index, frames.length]);

  const onKeyDown = (event: KeyboardEvent): void => {
    const forward = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : null;
    if (forward !== null) go(event.shiftKey ? nextStateChange(frames, index, forward) : index + forward);
    else if (event.key === 'Home') go(0);
    else if (event.key === 'End') go(frames.length - 1);
    else if (event.key === ' ') setPlaying(!playing);
    else return;
    event.preventDefault();
  };

  const present = useResource(`machine ${row.execution_id} ${frame?.event_id} ${live}`, (signal) =>
    orNull(
      get<MachineView>(`/api/executions/${row.execution_id}/machine`, live ? {} : { at: frame?.event_id }, signal),
    ),
  );
  if (isAhead) return <Loading what="the moment" />;
  if (frame === undefined)
    return <NotAvailable title="Nothing has been folded yet">The log of this execution is empty.</NotAvailable>;
  const { before, after } = contextAt(frames, index);
  const states = live ? (present.data?.states ?? frame.states) : frame.states;
  return (
    <div class="stack">
      <ChartView
        name={chart.name}
        config={chart.config}
        active={states}
        taken={{ event: frame.type, before: frames[index - 1]?.states ?? [] }}
      />
      <section class="card scrubber" aria-label="Time travel">
        <div class="row">
          <button
            type="button"
            class="button"
            aria-label="Previous frame"
            disabled={index === 0}
            onClick={() => go(index - 1)}
          >
            <Icon name="left" size={14} />
          </button>
          <button
            type="button"
            class="button"
            aria-label={playing ? 'Pause' : 'Play'}
            onClick={() => setPlaying(!playing)}
          >
            <Icon name={playing ? 'stop' : 'play'} size={14} />
          </button>
          <button
            type="button"
            class="button"
            aria-label="Next frame"
            disabled={index >= frames.length - 1}
            onClick={() => go(index + 1)}
          >
            <Icon name="right" size={14} />
          </button>
          <span class="track">
            <Ticks frames={frames} />
            <input
              type="range"
              min={0}
              max={frames.length - 1}
              value={index}
              aria-label="Frame"
              aria-valuetext={`Event ${frame.event_id}, ${frame.type}`}
              onInput={(event) => go(Number(event.currentTarget.value))}
              onKeyDown={onKeyDown}
            />
          </span>
          <button type="button" class="toggle" aria-pressed={live} onClick={() => setQuery({ at: null })}>
            {row.status === 'running' ? 'Live' : 'Latest'}
          </button>
        </div>
        <p class="row between">
          <span>
            Event <a href={`${to.execution(row.execution_id, 'events')}?event=${frame.event_id}`}>{frame.event_id}</a>{' '}
            <strong>{frame.type}</strong>
            {frame.cause_id !== frame.event_id && <span class="soft"> because of event {frame.cause_id}</span>}
          </span>
          <span class="soft small">
            frame {index + 1} of {frames.length}
            {trace.rest === 'loading' && ', more are loading'}
            {trace.rest === 'cut' && ' (the first ones)'} · {localText(frame.at)}
          </span>
        </p>
      </section>
      <div class="columns">
        <Changes changes={changesBetween(before, after)} />
        <div class="stack">
          <Next view={present.data} row={row} at={frame.event_id} />
          <Card title="Context at this event">
            <details>
              <summary>Show all of it</summary>
              <JsonView value={after} label="context" />
            </details>
          </Card>
        </div>
      </div>
    </div>
  );
}

/** Where in the log states changed and where something failed: the places one looks for. */
function Ticks({ frames }: { frames: readonly TraceFrame[] }) {
  const ticks = useMemo(() => marksOf(frames, TICKS_MAX), [frames]);
  const last = Math.max(1, frames.length - 1);
  return (
    <span class="ticks" aria-hidden="true">
      {ticks.map((each) => (
        <span
          key={each.index}
          class={`tick tone-${each.tone}`}
          style={{ left: `${(each.index / last) * 100}%` }}
          title={`${each.eventId} ${each.type}`}
        />
      ))}
    </span>
  );
}

function Changes({ changes }: { changes: readonly Change[] }) {
  return (
    <Card title="What this event changed" flush={changes.length > 0}>
      {changes.length === 0 ? (
        <p class="soft">Nothing that the machine remembers.</p>
      ) : (
        <div class="scroll-x">
          <table class="list">
            <thead>
              <tr>
                <th>Where</th>
                <th>Before</th>
                <th>After</th>
              </tr>
            </thead>
            <tbody>
              {changes.slice(0, CHANGES_SHOWN).map((each) => (
                <tr key={each.path}>
                  <td class="grow">
                    <code class="break">{each.path}</code>
                  </td>
                  <td>
                    <code class="break">{each.before === undefined ? '–' : pretty(each.before)}</code>
                  </td>
                  <td>
                    <code class="break">{each.after === undefined ? 'gone' : pretty(each.after)}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function Next({ view, row, at }: { view: MachineView | null; row: Execution; at: number }) {
  return (
    <Card
      title="What could happen next"
      actions={<a href={`${to.machine('execution')}?execution=${row.execution_id}&at=${at}`}>Try it out</a>}
    >
      {view === null ? (
        <p class="soft">Not known.</p>
      ) : view.next_events.length === 0 ? (
        <p class="soft">Nothing: this state is final.</p>
      ) : (
        <ul class="plain-list">
          {view.next_events.map((each) => (
            <li key={each.type}>
              <code>{each.type}</code>
              {each.guards.length > 0 && <span class="soft small"> if {each.guards.join(', else if ')}</span>}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
