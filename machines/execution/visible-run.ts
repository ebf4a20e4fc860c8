/**
 * A Run as anybody may see it, and back: names, counters and event numbers in the spelling of the wire. Values are
 * never part of a Run; what is left out here are the sentences of errors, which tools have worded. Members that are null
 * are left out, so that a change between two of them is a plain JSON merge patch (RFC 7396, where null removes).
 */
import type { Failure } from '../events.ts';
import { isMap, type Json, type JsonMap } from '../json.ts';
import {
  type Arrival,
  type CursorRun,
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
    failures: run.failures.map(visible),
    steps: mapOf(run.steps, visible),
    open: mapOf(run.open, visible),
    arrivals: mapOf(run.arrivals, visible),
    written: mapOf(run.written, (eventId) => eventId),
  };
}

/** The members that every event may change; small whatever the playbook is. */
export function visibleScalars(run: Run): JsonMap {
  const { startedAt, failing, openCount, lastEntered, lastCompleted, counts, settled } = run;
  return visible({
    startedAt: startedAt === '' ? null : startedAt,
    failing,
    openCount,
    lastEntered,
    lastCompleted,
    counts,
    settled,
  });
}

/** One member of a run: a step, a command, an arrival, a failure. */
export function visible(member: object): JsonMap {
  const shown: [string, Json][] = [];
  for (const [key, value] of Object.entries(member)) {
    if (value === null || value === undefined || key === 'message') continue;
    // Members of a run are scalars or further members (run.ts).
    shown.push([snake(key), typeof value === 'object' ? visible(value) : (value as Json)]);
  }
  return Object.fromEntries(shown);
}

/** The run that `visibleRun` showed; anything else is read as far as it goes, so that a hand-made state can be tried. */
export function runFromVisible(shown: JsonMap): Run {
  const run = newRun();
  const { startedAt, failing, openCount, lastEntered, lastCompleted } = run;
  Object.assign(run, filled({ startedAt, failing, openCount, lastEntered, lastCompleted }, shown));
  for (const [name, each] of membersOf(shown, 'steps')) {
    const failure = failureIn(each);
    run.steps[name] = { ...filled(STEP, each), loop: loopIn(each), ...(failure === null ? {} : { failure }) };
  }
  for (const [id, each] of membersOf(shown, 'open')) run.open[id] = filled(COMMAND, each);
  for (const [join, each] of membersOf(shown, 'arrivals')) {
    run.arrivals[join] = { ...filled(ARRIVAL, each), failure: failureIn(each) };
  }
  const written = mapIn(shown, 'written') ?? {};
  for (const [name, eventId] of Object.entries(written)) if (typeof eventId === 'number') run.written[name] = eventId;
  Object.assign(run.counts, filled(run.counts, mapIn(shown, 'counts') ?? {}));
  run.failures.push(...listIn(shown, 'failures').flatMap((each) => (isMap(each) ? [filled(FAILURE, each)] : [])));
  run.active = listIn(shown, 'active').filter(isText);
  run.joins = listIn(shown, 'joins').filter(isText);
  const settled = mapIn(shown, 'settled');
  run.settled = settled === null ? null : filled(SETTLED, settled);
  return run;
}

function failureIn(member: JsonMap): Failure | null {
  const failure = member['failure'];
  return isMap(failure) ? filled({ kind: 'unknown', code: null, message: '' }, failure) : null;
}

function loopIn(step: JsonMap): LoopRun | null {
  const loop = mapIn(step, 'loop');
  if (loop === null) return null;
  const cursor = mapIn(loop, 'cursor');
  return { ...filled(LOOP, loop), cursor: cursor === null ? null : filled(CURSOR, cursor) };
}

const STEP: StepRun = { activation: 0, status: 'open', entered: 0, value: null, loop: null, stalls: 0 };
const CURSOR: CursorRun = { frame: 0, rows: null, row: 0 };
const LOOP: LoopRun = {
  mode: 'sequential',
  total: 0,
  limit: 1,
  next: 0,
  open: 0,
  succeeded: 0,
  failed: 0,
  cursor: null,
};
const COMMAND: OpenCommand = {
  step: '',
  activation: 1,
  iteration: null,
  issued: 0,
  outcome: null,
  failed: false,
  parkedOn: null,
  isClaim: false,
};
const ARRIVAL: Arrival = { from: '', outcome: 'ok', activation: 1, value: null, failure: null, at: '' };
const FAILURE: StepFailure = { step: '', event: null, iteration: null, task: null, kind: '', code: null, message: '' };
const SETTLED: Settled = {
  commandId: 0,
  step: '',
  activation: 1,
  iteration: null,
  outcome: null,
  ok: false,
  isClaim: false,
  current: false,
};

/** The template with what is shown of it; a scalar of another type than the template's is not taken. */
function filled<T extends object>(template: T, shown: JsonMap): T {
  const members = Object.entries(template).map(([key, usual]) => {
    const given = shown[snake(key)];
    const fits = usual === null ? given !== undefined && !isMap(given) : typeof given === typeof usual;
    return [key, fits && typeof given !== 'object' ? given : usual];
  });
  // The keys are those of the template, and so are the types, as far as they are not null there.
  return Object.fromEntries(members) as T;
}

function snake(key: string): string {
  return key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Own keys only, and as own keys: a step may be named like anything. */
function mapOf<T>(map: { readonly [name: string]: T }, show: (member: T) => Json): JsonMap {
  return Object.fromEntries(Object.entries(map).map(([name, member]) => [name, show(member)]));
}

function membersOf(map: JsonMap, key: string): readonly (readonly [string, JsonMap])[] {
  return Object.entries(mapIn(map, key) ?? {}).flatMap(([name, each]) => (isMap(each) ? [[name, each] as const] : []));
}

function mapIn(map: JsonMap, key: string): JsonMap | null {
  const value = map[key];
  return isMap(value) ? value : null;
}

function listIn(map: JsonMap, key: string): readonly Json[] {
  const value = map[key];
  return Array.isArray(value) ? value : [];
}

function isText(value: Json): value is string {
  return typeof value === 'string';
}
