/**
 * A Run as anybody may see it, and back: names, counters and event numbers in the spelling of the wire. Values are
 * never part of a Run; what is left out here are the sentences of errors, which tools have worded. Members that are null
 * are left out, so that a change between two of them is a plain JSON merge patch (RFC 7396, where null removes).
 */
import type { Failure } from '../events.ts';
import { isMap, type Json, type JsonMap } from '../json.ts';
import {
  type Arrival,
  type LoopRun,
  newRun,
  type OpenCommand,
  type Run,
  type Settled,
  type StepFailure,
  type StepRun,
} from './run.ts';

export function visibleRun(run: Run): JsonMap {
  return {
    ...visibleScalars(run),
    active: [...run.active],
    joins: [...run.joins],
    failures: run.failures.map(visibleFailure),
    steps: mapOf(run.steps, visibleStep),
    open: mapOf(run.open, visibleCommand),
    arrivals: mapOf(run.arrivals, visibleArrival),
    written: mapOf(run.written, (eventId) => eventId),
  };
}

/** The members that every event may change; small whatever the playbook is. */
export function visibleScalars(run: Run): JsonMap {
  return compact({
    started_at: run.startedAt === '' ? null : run.startedAt,
    failing: run.failing,
    open_count: run.openCount,
    last_entered: run.lastEntered,
    last_completed: run.lastCompleted,
    counts: { ...run.counts },
    settled: run.settled === null ? null : visibleSettled(run.settled),
  });
}

export function visibleStep({ activation, status, entered, value, stalls, loop }: StepRun): JsonMap {
  return compact({ activation, status, entered, value, stalls, loop: loop === null ? null : { ...loop } });
}

export function visibleCommand(command: OpenCommand): JsonMap {
  const { step, activation, iteration, issued, outcome, failed, parkedOn } = command;
  return compact({ step, activation, iteration, issued, outcome, failed, parked_on: parkedOn });
}

export function visibleArrival({ from, outcome, activation, value, failure, at }: Arrival): JsonMap {
  const shown = failure === null ? null : compact({ kind: failure.kind, code: failure.code });
  return compact({ from, outcome, activation, value, failure: shown, at });
}

export function visibleFailure({ step, event, iteration, task, kind, code }: StepFailure): JsonMap {
  return compact({ step, event, iteration, task, kind, code });
}

function visibleSettled({ commandId, step, activation, iteration, outcome, ok, current }: Settled): JsonMap {
  return compact({ command_id: commandId, step, activation, iteration, outcome, ok, current });
}

/** The run that `visibleRun` showed; anything else is read as far as it goes, so that a hand-made state can be tried. */
export function runFromVisible(shown: JsonMap): Run {
  const run = newRun();
  const steps = mapIn(shown, 'steps');
  for (const name of Object.keys(steps)) run.steps[name] = stepFrom(mapIn(steps, name));
  const open = mapIn(shown, 'open');
  for (const id of Object.keys(open)) run.open[id] = commandFrom(mapIn(open, id));
  const arrivals = mapIn(shown, 'arrivals');
  for (const join of Object.keys(arrivals)) run.arrivals[join] = arrivalFrom(mapIn(arrivals, join));
  const written = mapIn(shown, 'written');
  for (const name of Object.keys(written)) run.written[name] = integerIn(written, name) ?? 0;
  const counts = mapIn(shown, 'counts');
  run.counts.completed = integerIn(counts, 'completed') ?? 0;
  run.counts.failed = integerIn(counts, 'failed') ?? 0;
  run.counts.skipped = integerIn(counts, 'skipped') ?? 0;
  run.failures.push(...listIn(shown, 'failures').filter(isMap).map(failureFrom));
  run.startedAt = textIn(shown, 'started_at') ?? '';
  run.failing = shown['failing'] === true;
  run.openCount = integerIn(shown, 'open_count') ?? Object.keys(run.open).length;
  run.lastEntered = textIn(shown, 'last_entered');
  run.lastCompleted = textIn(shown, 'last_completed');
  run.active = listIn(shown, 'active').filter(isText);
  run.joins = listIn(shown, 'joins').filter(isText);
  run.settled = isMap(shown['settled']) ? settledFrom(shown['settled']) : null;
  return run;
}

function stepFrom(shown: JsonMap): StepRun {
  const status = shown['status'];
  return {
    activation: integerIn(shown, 'activation') ?? 0,
    status: status === 'completed' || status === 'failed' || status === 'skipped' ? status : 'open',
    entered: integerIn(shown, 'entered') ?? 0,
    value: integerIn(shown, 'value'),
    stalls: integerIn(shown, 'stalls') ?? 0,
    loop: isMap(shown['loop']) ? loopFrom(shown['loop']) : null,
  };
}

function loopFrom(shown: JsonMap): LoopRun {
  const mode = shown['mode'];
  return {
    mode: mode === 'parallel' || mode === 'cursor' ? mode : 'sequential',
    total: integerIn(shown, 'total') ?? 0,
    limit: integerIn(shown, 'limit') ?? 1,
    next: integerIn(shown, 'next') ?? 0,
    open: integerIn(shown, 'open') ?? 0,
    succeeded: integerIn(shown, 'succeeded') ?? 0,
    failed: integerIn(shown, 'failed') ?? 0,
  };
}

function commandFrom(shown: JsonMap): OpenCommand {
  return {
    step: textIn(shown, 'step') ?? '',
    activation: integerIn(shown, 'activation') ?? 1,
    iteration: integerIn(shown, 'iteration'),
    issued: integerIn(shown, 'issued') ?? 0,
    outcome: integerIn(shown, 'outcome'),
    failed: shown['failed'] === true,
    parkedOn: integerIn(shown, 'parked_on'),
  };
}

function arrivalFrom(shown: JsonMap): Arrival {
  const failure: Failure | null = isMap(shown['failure'])
    ? { kind: textIn(shown['failure'], 'kind') ?? 'unknown', code: textIn(shown['failure'], 'code'), message: '' }
    : null;
  return {
    from: textIn(shown, 'from') ?? '',
    outcome: outcomeIn(shown),
    activation: integerIn(shown, 'activation') ?? 1,
    value: integerIn(shown, 'value'),
    failure,
    at: textIn(shown, 'at') ?? '',
  };
}

function outcomeIn(shown: JsonMap): Arrival['outcome'] {
  const outcome = shown['outcome'];
  return outcome === 'failed' || outcome === 'skipped' ? outcome : 'ok';
}

function failureFrom(shown: JsonMap): StepFailure {
  return {
    step: textIn(shown, 'step') ?? '',
    event: integerIn(shown, 'event'),
    iteration: integerIn(shown, 'iteration'),
    task: textIn(shown, 'task'),
    kind: textIn(shown, 'kind') ?? 'unknown',
    code: textIn(shown, 'code'),
    message: '',
  };
}

function settledFrom(shown: JsonMap): Settled {
  return {
    commandId: integerIn(shown, 'command_id') ?? 0,
    step: textIn(shown, 'step') ?? '',
    activation: integerIn(shown, 'activation') ?? 1,
    iteration: integerIn(shown, 'iteration'),
    outcome: integerIn(shown, 'outcome'),
    ok: shown['ok'] === true,
    current: shown['current'] === true,
  };
}

function compact(members: { readonly [name: string]: Json }): JsonMap {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));
}

/** Own keys only, and as own keys: a step may be named like anything. */
function mapOf<T>(map: { readonly [name: string]: T }, show: (member: T) => Json): JsonMap {
  return Object.fromEntries(Object.entries(map).map(([name, member]) => [name, show(member)]));
}

function mapIn(map: JsonMap, key: string): JsonMap {
  const value = Object.hasOwn(map, key) ? map[key] : null;
  return isMap(value) ? value : {};
}

function listIn(map: JsonMap, key: string): readonly Json[] {
  const value = map[key];
  return Array.isArray(value) ? value : [];
}

function textIn(map: JsonMap, key: string): string | null {
  const value = map[key];
  return typeof value === 'string' ? value : null;
}

function integerIn(map: JsonMap, key: string): number | null {
  const value = Object.hasOwn(map, key) ? map[key] : null;
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : null;
}

function isText(value: Json): value is string {
  return typeof value === 'string';
}
