/**
 * The values a run's log positions stand for: inputs, written variables, step values, the items and results of open
 * loops. A cache of the log beside the chart, never part of it; whatever is missing is read back by event number.
 */
import type { Failure, LogEvent, ResultReference } from '../events.ts';
import { isMap, type Json, type JsonMap } from '../json.ts';
import type { Run, Settled } from './run.ts';

/** What of an event a template may need. With a reference, `data` is the summary. */
export interface Body {
  readonly data: Json | undefined;
  readonly reference: ResultReference | null;
  readonly error: Failure | null;
  readonly tasks: JsonMap | null;
  readonly failedTask: string | null;
  /** `ctx` writes of a command. */
  readonly writes: JsonMap | null;
  /** Values of a `ctx.updated`, by variable. */
  readonly values: JsonMap | null;
  readonly references: JsonMap | null;
}

export interface LoopMaterial {
  /** The collection, or where it is stored when it is large. */
  readonly items: readonly Json[] | null;
  readonly ref: string | null;
  /** By index; undefined until the iteration has ended. */
  readonly results: (Body | undefined)[];
}

const KEPT: ReadonlySet<string> = new Set([
  'call.done',
  'call.error',
  'loop.done',
  'ctx.updated',
  'command.completed',
  'command.failed',
]);
const SWEEP_FROM = 128;

export class Materials {
  workload: JsonMap = {};
  args: JsonMap = {};
  /** `execution.started` was seen. */
  isOpened = false;
  readonly loops = new Map<string, LoopMaterial>();
  readonly #bodies = new Map<number, Body>();
  /** The outcome of the iteration that ended last, whether or not its loop keeps it. */
  #lastIteration: { readonly outcome: number; readonly body: Body } | null = null;
  #sweepAt = SWEEP_FROM;

  /** Takes what is worth keeping from an event that is being folded. */
  absorb(event: LogEvent): void {
    if (event.stale) return;
    if (event.type === 'execution.started') {
      this.workload = mapIn(event.context, 'workload') ?? {};
      this.args = mapIn(event.context, 'args') ?? {};
      this.isOpened = true;
    } else if (event.type === 'step.enter') {
      const items = event.context['collection'];
      const ref = textIn(event.context, 'collection_ref');
      if (Array.isArray(items)) this.loops.set(event.nodeName, { items, ref: null, results: [] });
      else if (ref !== null) this.loops.set(event.nodeName, { items: null, ref, results: [] });
      // The rows of a cursor come frame by frame; of its bodies only the failures are kept.
      else if (event.context['mode'] === 'cursor')
        this.loops.set(event.nodeName, { items: null, ref: null, results: [] });
      else this.loops.delete(event.nodeName);
    } else if (KEPT.has(event.type) || isCopy(event)) {
      if (event.type === 'loop.done') this.loops.delete(event.nodeName);
      if (isSilent(event)) return;
      this.#bodies.set(event.eventId, bodyOf(event));
    }
  }

  body(eventId: number | null): Body | undefined {
    return eventId === null ? undefined : this.#bodies.get(eventId);
  }

  /** The outcome of an iteration goes to its loop, which needs it once more at its end. */
  keepIteration(settled: Settled): void {
    const { iteration, outcome, step, ok, current } = settled;
    const loop = this.loops.get(step);
    if (iteration === null || outcome === null || loop === undefined || !current) return;
    const isCursor = loop.items === null && loop.ref === null;
    const body = this.#bodies.get(outcome) ?? NOTHING;
    loop.results[iteration] = ok && isCursor ? NOTHING : body;
    this.#lastIteration = { outcome, body };
    this.#bodies.delete(outcome);
  }

  /** What the command that was closed just now had to say. */
  settledBody(settled: Settled): Body | null {
    const last = this.#lastIteration;
    return last !== null && last.outcome === settled.outcome ? last.body : (this.body(settled.outcome) ?? null);
  }

  /** Log positions the run refers to whose values are not here. */
  missing(run: Run): readonly number[] {
    return [...referenced(run)].filter((eventId) => !this.#bodies.has(eventId));
  }

  /** Drops what the run no longer refers to; amortised, so that no event pays for all. */
  sweep(run: Run): void {
    if (this.#bodies.size < this.#sweepAt) return;
    const live = referenced(run);
    for (const eventId of this.#bodies.keys()) if (!live.has(eventId)) this.#bodies.delete(eventId);
    this.#sweepAt = Math.max(SWEEP_FROM, this.#bodies.size * 2);
  }
}

function referenced(run: Run): ReadonlySet<number> {
  const live = new Set<number>();
  for (const name in run.steps) {
    const value = run.steps[name]?.value ?? null;
    if (value !== null) live.add(value);
    live.add(run.steps[name]?.loop?.cursor?.rows ?? 0);
  }
  for (const id in run.open) {
    const outcome = run.open[id]?.outcome ?? null;
    if (outcome !== null) live.add(outcome);
  }
  for (const eventId of Object.values(run.written)) live.add(eventId);
  for (const { value } of Object.values(run.arrivals)) live.add(value ?? 0);
  live.delete(0);
  return live;
}

/** A command that succeeded and said nothing. */
export const NOTHING: Body = {
  data: null,
  reference: null,
  error: null,
  tasks: null,
  failedTask: null,
  writes: null,
  values: null,
  references: null,
};

export function bodyOf(event: LogEvent): Body {
  const context = event.result?.context ?? {};
  const reference = event.result?.reference ?? null;
  return {
    data: reference === null ? context['data'] : summaryOf(event, context),
    reference,
    error: failureOf(event),
    tasks: mapIn(event.meta, 'tasks'),
    failedTask: textIn(context, 'failed_task') ?? textIn(event.meta, 'failed_task'),
    writes: mapIn(event.meta, 'ctx'),
    values: mapIn(event.context, 'values'),
    references: mapIn(event.context, 'references'),
  };
}

/** The summary of a stored value; a failure tells its error beside it, which is no member of the value. */
function summaryOf(event: LogEvent, context: JsonMap): JsonMap {
  if (event.type !== 'call.error') return context;
  const { error: _error, failed_task: _task, ...summary } = context;
  return summary;
}

/** What closed an iteration had to say; as `Materials` keeps it when the row is folded. */
export function outcomeBody(event: LogEvent): Body {
  return isSilent(event) ? NOTHING : bodyOf(event);
}

/** A command's own closing row matters only when it had no call row; that it failed is something to say. */
function isSilent({ type, result, error }: LogEvent): boolean {
  return type === 'command.completed' && result === null && error === null;
}

/** The value of a step that an earlier run completed. */
function isCopy(event: LogEvent): boolean {
  return event.type === 'step.exit' && event.eventId !== event.causeId && event.meta['copied_from'] !== undefined;
}

/** The error an event carries, or null when it is none. */
export function failureOf(event: LogEvent): Failure | null {
  const failed = event.type === 'call.error' || event.type === 'command.failed' || event.status === 'failed';
  if (!failed) return null;
  const error = mapIn(event.result?.context ?? {}, 'error') ?? mapIn(event.context, 'error');
  return {
    kind: textIn(error ?? {}, 'kind') ?? 'unknown',
    code: textIn(error ?? {}, 'code'),
    message: textIn(error ?? {}, 'message') ?? event.error ?? 'the command failed without a reason',
    retryable: error?.['retryable'] === true,
    source: textIn(error ?? {}, 'source') ?? event.nodeType,
    status_code: numberIn(error ?? {}, 'status_code'),
    details: error?.['details'] ?? null,
  };
}

export function mapIn(map: JsonMap, key: string): JsonMap | null {
  const value = map[key];
  return isMap(value) ? value : null;
}

export function textIn(map: JsonMap, key: string): string | null {
  const value = map[key];
  return typeof value === 'string' && value !== '' ? value : null;
}

function numberIn(map: JsonMap, key: string): number | null {
  const value = map[key];
  return typeof value === 'number' ? value : null;
}
