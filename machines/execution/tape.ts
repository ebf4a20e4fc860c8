/**
 * The log of an execution, played through its chart frame by frame: where the chart was after each event, and what that
 * event changed of the run. The fold is the one that brings executions back; nothing is decided. An event touches few
 * parts of a run, so only those are compared: a frame costs the same in a run of ten steps and of a thousand.
 */
import type { LogEvent } from '../events.ts';
import { isMap, type Json, type JsonMap } from '../json.ts';
import { mergePatch } from '../merge-patch.ts';
import { activeStates } from '../outline.ts';
import { executionMachine } from './machine.ts';
import type { Run } from './run.ts';
import { absorbEvent, type ExecutionState, newExecution, restoreExecution, runOf } from './take-turn.ts';
import { visible, visibleRun, visibleScalars } from './visible-run.ts';

/** Every so many events a frame carries everything, so that a viewer can begin there. */
export const KEYFRAME_EVERY = 200;

export interface Frame {
  /** Place of the event in the order of the fold, from 1: the cursor of the trace. */
  readonly n: number;
  readonly event: Pick<LogEvent, 'eventId' | 'causeId' | 'type' | 'at'>;
  readonly changed: boolean;
  readonly states: readonly string[];
  /** A merge patch on the run before; on a key frame the whole run. */
  readonly patch: JsonMap;
  readonly isKeyframe: boolean;
}

/** A place of a log from which it can be played on; immutable. */
export interface Mark {
  readonly n: number;
  readonly causeId: number;
  readonly eventId: number;
  readonly value: Json;
  readonly run: Run;
}

export class Tape {
  #n: number;
  #causeId: number;
  #eventId: number;
  readonly #state: ExecutionState;
  /** The run as it was shown last, member by member; null while nobody has asked for a frame. */
  #shown: Shown | null = null;

  /** From the first event, or from a mark. */
  constructor(from: Mark | null = null) {
    this.#n = from?.n ?? 0;
    this.#causeId = from?.causeId ?? 0;
    this.#eventId = from?.eventId ?? 0;
    this.#state = from === null ? newExecution() : restoreExecution(from.value, copyRun(from.run));
  }

  get n(): number {
    return this.#n;
  }

  /** The event played last; events are played by (cause, event). */
  get position(): { readonly causeId: number; readonly eventId: number } {
    return { causeId: this.#causeId, eventId: this.#eventId };
  }

  get state(): ExecutionState {
    return this.#state;
  }

  get states(): readonly string[] {
    return activeStates(executionMachine, this.#state.snapshot.value);
  }

  /** Plays one event without looking at what it changes. */
  skip(event: LogEvent): void {
    this.#advance(event);
    this.#shown = null;
  }

  /** Plays one event; `whole` makes its frame a key frame whatever its number is. */
  play(event: LogEvent, whole = false): Frame {
    const run = runOf(this.#state);
    this.#shown ??= showAll(run);
    const before = this.#state.snapshot.value;
    const step = event.commandId === null ? null : (run.open[event.commandId]?.step ?? null);
    this.#advance(event);
    const patch = changesOf(this.#shown, runOf(this.#state), event, step);
    const isMoved = before !== this.#state.snapshot.value && !sameValue(before, this.#state.snapshot.value);
    const isKeyframe = whole || this.#n % KEYFRAME_EVERY === 0 || this.#n === 1;
    return {
      n: this.#n,
      event: { eventId: event.eventId, causeId: event.causeId, type: event.type, at: event.at },
      changed: isMoved || patch !== null,
      states: this.states,
      patch: isKeyframe ? visibleRun(runOf(this.#state)) : (patch ?? {}),
      isKeyframe,
    };
  }

  /** The place it is at, to be played on from later. */
  mark(): Mark {
    // A chart value is a string or a map of them.
    const value = this.#state.snapshot.value as Json;
    return { n: this.#n, ...this.position, value, run: copyRun(runOf(this.#state)) };
  }

  #advance(event: LogEvent): void {
    absorbEvent(this.#state, event);
    // Values are not shown; what the fold kept of them is let go of now and then.
    this.#state.materials.sweep(runOf(this.#state));
    this.#n += 1;
    this.#causeId = event.causeId;
    this.#eventId = event.eventId;
  }
}

/** A Run of its own; its maps get no prototype, so that a step named `constructor` is only a step. */
export function copyRun(run: Run): Run {
  const copy = structuredClone({ ...run });
  return {
    ...copy,
    steps: bare(copy.steps),
    open: bare(copy.open),
    arrivals: bare(copy.arrivals),
    written: bare(copy.written),
  };
}

function bare<T>(map: { [name: string]: T }): { [name: string]: T } {
  return Object.assign(Object.create(null), map);
}

/** The shown run as maps that can be changed in place. */
interface Shown {
  scalars: JsonMap;
  active: readonly Json[];
  joins: readonly Json[];
  failures: readonly Json[];
  readonly steps: Map<string, JsonMap>;
  readonly open: Map<string, JsonMap>;
  readonly arrivals: Map<string, JsonMap>;
  readonly written: Map<string, number>;
}

function showAll(run: Run): Shown {
  const { steps, open, arrivals, written } = run;
  return {
    scalars: visibleScalars(run),
    active: [...run.active],
    joins: [...run.joins],
    failures: run.failures.map(visible),
    steps: allOf(steps),
    open: allOf(open),
    arrivals: allOf(arrivals),
    written: new Map(Object.entries(written)),
  };
}

function allOf(members: { readonly [name: string]: object }): Map<string, JsonMap> {
  return new Map(Object.entries(members).map(([name, member]) => [name, visible(member)]));
}

/** Brings `shown` up to the run and says what that took; null: nothing. `step` is the one of the event's open command. */
function changesOf(shown: Shown, run: Run, event: LogEvent, step: string | null): JsonMap | null {
  const patch: [string, Json][] = [];
  const scalars = visibleScalars(run);
  patch.push(...Object.entries(mergePatch(shown.scalars, scalars) ?? {}));
  shown.scalars = scalars;
  for (const key of ['active', 'joins'] as const) {
    if (sameList(shown[key], run[key])) continue;
    shown[key] = [...run[key]];
    patch.push([key, shown[key]]);
  }
  if (shown.failures.length !== run.failures.length) {
    shown.failures = run.failures.map(visible);
    patch.push(['failures', shown.failures]);
  }
  // Failing closes commands of any step; all other events touch what they name.
  const isWide = event.meta['failures'] !== undefined;
  const steps = isWide ? Object.keys(run.steps) : [event.nodeName, ...(step === null ? [] : [step])];
  const commands = isWide ? [...shown.open.keys()] : event.commandId === null ? [] : [String(event.commandId)];
  const isJoin = event.commandId === null;
  const arrivals = isJoin ? [...new Set([...shown.arrivals.keys(), ...Object.keys(run.arrivals)])] : [];
  changed(patch, 'steps', shown.steps, steps, (name) => shownStep(run, name));
  changed(patch, 'open', shown.open, commands, (id) => shownCommand(run, id));
  changed(patch, 'arrivals', shown.arrivals, arrivals, (join) => shownArrival(run, join));
  const values = event.context['values'];
  const written: [string, Json][] = [];
  for (const name of isMap(values) ? Object.keys(values) : []) {
    const eventId = run.written[name];
    if (eventId === undefined || shown.written.get(name) === eventId) continue;
    shown.written.set(name, eventId);
    written.push([name, eventId]);
  }
  if (written.length > 0) patch.push(['written', Object.fromEntries(written)]);
  return patch.length === 0 ? null : Object.fromEntries(patch);
}

function changed(
  patch: [string, Json][],
  key: string,
  shown: Map<string, JsonMap>,
  names: readonly string[],
  of: (name: string) => JsonMap | null,
): void {
  const changes: [string, Json][] = [];
  for (const name of new Set(names)) {
    const before = shown.get(name);
    const after = of(name);
    if (after === null) {
      if (shown.delete(name)) changes.push([name, null]);
      continue;
    }
    const change = before === undefined ? after : mergePatch(before, after);
    if (change === null) continue;
    shown.set(name, after);
    changes.push([name, change]);
  }
  if (changes.length > 0) patch.push([key, Object.fromEntries(changes)]);
}

function shownStep(run: Run, name: string): JsonMap | null {
  const step = run.steps[name];
  return step === undefined ? null : visible(step);
}

function shownCommand(run: Run, id: string): JsonMap | null {
  const command = run.open[id];
  return command === undefined ? null : visible(command);
}

function shownArrival(run: Run, join: string): JsonMap | null {
  const arrival = run.arrivals[join];
  return arrival === undefined ? null : visible(arrival);
}

function sameList(a: readonly Json[], b: readonly string[]): boolean {
  return a.length === b.length && b.every((item, index) => a[index] === item);
}

function sameValue(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
