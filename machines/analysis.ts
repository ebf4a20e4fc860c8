/**
 * What an experienced reader of logs would say about a run (api 2.3.12), by rules: what failed, what was tried again, what
 * waited, where the time went. A function of the rows it is given, which may be the last part of a long log.
 */
import { instantOf } from './command/instant.ts';
import { type LogEvent, TERMINAL_TYPES } from './events.ts';
import { isMap, type Json, type JsonMap } from './json.ts';

export type Severity = 'error' | 'warning' | 'info';

export interface Finding {
  readonly severity: Severity;
  /** One word for machines. */
  readonly code: string;
  /** What kind of failure it tells of (language 7.4); advice follows from code and kind. */
  readonly kind?: string | null;
  readonly message: string;
  readonly step: string | null;
  readonly eventId: number | null;
}

export interface SlowStep {
  readonly step: string;
  /** Of all its activations. */
  readonly durationMs: number;
  readonly activations: number;
}

export interface Analysis {
  readonly steps: number;
  readonly commands: number;
  /** Tries beyond the first, of tasks and of claims. */
  readonly retries: number;
  readonly slowestSteps: readonly SlowStep[];
  readonly findings: readonly Finding[];
  readonly recommendations: readonly string[];
}

/** What is known of the run besides its rows. */
export interface Subject {
  readonly status: 'running' | 'completed' | 'failed' | 'cancelled';
  readonly durationMs: number;
  /** Of the whole log; more than the rows where only its end is looked at. */
  readonly eventCount: number;
  readonly error: string | null;
  /** Why it is waiting, where nothing alive can move it. */
  readonly stuck: string | null;
}

const FINDINGS_MAX = 100;
const SLOWEST_MAX = 5;
const WAITED_MS = 5_000;
const SLOW_MS = 10_000;

/** `events` in the order of their numbers. */
export function analyse(subject: Subject, events: readonly LogEvent[]): Analysis {
  const slowest = slowestSteps(events);
  const found = [
    ...ofTheEnd(subject, events),
    ...events.flatMap(ofFailure),
    ...ofClaims(events),
    ...events.flatMap(ofTries),
    ...ofTime(subject, slowest),
    ...ofLog(subject, events),
  ];
  const findings = found.sort((a, b) => RANK[a.severity] - RANK[b.severity]).slice(0, FINDINGS_MAX);
  return {
    steps: new Set(events.filter(({ type }) => type === 'step.enter').map(({ nodeName }) => nodeName)).size,
    commands: events.filter(({ type }) => type === 'command.issued').length,
    retries: events.reduce((sum, event) => sum + repeats(event), 0),
    slowestSteps: slowest,
    findings,
    recommendations: recommendationsFor(findings),
  };
}

const RANK: Readonly<Record<Severity, number>> = { error: 0, warning: 1, info: 2 };

function ofTheEnd(subject: Subject, events: readonly LogEvent[]): Finding[] {
  const end = events.findLast(({ type }) => TERMINAL_TYPES.has(type)) ?? null;
  const at = { step: null, eventId: end?.eventId ?? null };
  if (subject.stuck !== null) {
    return [{ severity: 'error', code: 'stuck', message: subject.stuck, step: null, eventId: null }];
  }
  if (subject.status === 'failed') {
    return [{ severity: 'error', code: 'execution_failed', message: subject.error ?? 'The execution failed', ...at }];
  }
  if (subject.status === 'cancelled') {
    const message = `The execution was cancelled: ${subject.error ?? 'no reason was given'}`;
    return [{ severity: 'warning', code: 'cancelled', message, ...at }];
  }
  return [];
}

function ofFailure(event: LogEvent): Finding[] {
  const { type, nodeName: step, eventId, result, error } = event;
  if (event.stale) return [];
  if (type === 'loop.stalled') {
    const message = textAt(event.context, 'message') ?? 'The loop could not go on';
    return [{ severity: 'error', code: 'loop_stalled', message, step, eventId }];
  }
  if (type !== 'call.error') return [];
  const failure = result?.context?.['error'];
  const code = textAt(failure, 'code') ?? textAt(failure, 'kind') ?? 'task_failed';
  const task = textAt(result?.context, 'failed_task');
  const where = task === null ? '' : ` (task '${task}')`;
  const message = `Step '${step}' failed${where}: ${textAt(failure, 'message') ?? error ?? 'no message'}`;
  return [{ severity: 'error', code, kind: textAt(failure, 'kind'), message, step, eventId }];
}

/** Claims that came late, and those of workers that were lost. */
function ofClaims(events: readonly LogEvent[]): Finding[] {
  const issued = new Map<number, LogEvent>();
  const found: Finding[] = [];
  for (const event of events) {
    const { type, commandId, nodeName: step, eventId, meta } = event;
    if (commandId === null) continue;
    if (type === 'command.issued') issued.set(commandId, event);
    if (type !== 'command.claimed') continue;
    if (meta['reclaimed'] === true) {
      const from = textAt(meta, 'reclaimed_from') ?? 'its worker';
      const message = `Command ${commandId} was taken from ${from} (${textAt(meta, 'reason') ?? 'unknown'}) and run again`;
      found.push({ severity: 'warning', code: 'worker_lost', message, step, eventId });
      continue;
    }
    const waitedMs = instantOf(event.at) - instantOf(issued.get(commandId)?.at ?? event.at);
    if (waitedMs >= WAITED_MS) {
      const message = `Command ${commandId} waited ${secondsOf(waitedMs)} s for a worker`;
      found.push({ severity: 'warning', code: 'slow_claim', message, step, eventId });
    }
  }
  return found;
}

/** What a call needed before it ended as it did, and what it warned of. */
function ofTries(event: LogEvent): Finding[] {
  const { type, nodeName: step, eventId, meta } = event;
  if (type !== 'call.done' && type !== 'call.error') return [];
  const found: Finding[] = [];
  for (const [label, task] of Object.entries(mapAt(meta, 'tasks'))) {
    const attempts = triesOf(task);
    if (attempts <= 1) continue;
    const message = `Task '${label}' of step '${step}' took ${attempts} tries`;
    found.push({ severity: type === 'call.done' ? 'info' : 'warning', code: 'retried', message, step, eventId });
  }
  const { warnings } = meta;
  for (const warning of Array.isArray(warnings) ? warnings : []) {
    if (typeof warning !== 'string') continue;
    found.push({ severity: 'warning', code: 'task_warning', message: warning, step, eventId });
  }
  return found;
}

function ofTime(subject: Subject, slowest: readonly SlowStep[]): Finding[] {
  return slowest
    .filter(({ durationMs }) => durationMs >= SLOW_MS && durationMs * 2 >= subject.durationMs)
    .map(({ step, durationMs }) => ({
      severity: 'info',
      code: 'slow_step',
      message: `Step '${step}' took ${secondsOf(durationMs)} s of ${secondsOf(subject.durationMs)} s`,
      step,
      eventId: null,
    }));
}

function ofLog(subject: Subject, events: readonly LogEvent[]): Finding[] {
  const found: Finding[] = [];
  const note = (code: string, message: string) =>
    found.push({ severity: 'info', code, message, step: null, eventId: null });
  const late = events.filter(({ meta }) => meta['late'] === true).length;
  const stale = events.filter((event) => event.stale).length;
  if (late > 0) note('late_events', `${late} events came after the end and decided nothing`);
  if (stale > 0) note('stale_events', `${stale} events came from claims that were no longer current`);
  if (subject.eventCount > events.length) {
    note('partial', `Only the last ${events.length} of ${subject.eventCount} events were looked at`);
  }
  return found;
}

function slowestSteps(events: readonly LogEvent[]): readonly SlowStep[] {
  const steps = new Map<string, { durationMs: number; activations: number }>();
  for (const { type, nodeName, duration, stale } of events) {
    if (type !== 'step.exit' || duration === null || stale) continue;
    const sum = steps.get(nodeName) ?? { durationMs: 0, activations: 0 };
    steps.set(nodeName, { durationMs: sum.durationMs + duration, activations: sum.activations + 1 });
  }
  return [...steps]
    .map(([step, sum]) => ({ step, ...sum }))
    .sort((a, b) => b.durationMs - a.durationMs)
    .slice(0, SLOWEST_MAX);
}

function repeats({ type, meta }: LogEvent): number {
  if (type === 'command.claimed') return meta['reclaimed'] === true ? 1 : 0;
  if (type !== 'call.done' && type !== 'call.error') return 0;
  return Object.values(mapAt(meta, 'tasks')).reduce<number>((sum, task) => sum + Math.max(0, triesOf(task) - 1), 0);
}

function triesOf(task: Json): number {
  const attempts = isMap(task) ? task['attempts'] : undefined;
  return typeof attempts === 'number' ? attempts : 1;
}

/** What to do about each kind of finding, once. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  ['stuck', 'Start a worker for its pool or cancel the execution; `explain` names what it waits for.'],
  ['execution_failed', 'Mend what failed first and run it again from that step (`rerun` with `from_step`).'],
  ['cancelled', 'Run it again if it was cancelled by mistake; the inputs are kept.'],
  ['loop_stalled', 'Look at the iterations that were not issued, and at `max_in_flight` of the loop.'],
  ['worker_lost', 'Look at the logs and the memory of the worker that was lost; make its step safe to run twice.'],
  ['slow_claim', 'Add workers to the pool, or raise SVC_WORKER_CONCURRENCY of those there are.'],
  ['retried', 'See why the first tries failed; where that is expected, a longer `delay` between tries costs less.'],
  ['task_warning', 'Read the warnings of the tasks: their work was done, but not quite as it was written.'],
  ['slow_step', 'Split the slow step or run its work in a parallel loop.'],
  ['ENGINE_DEFECT', 'Report this with the log of the execution (`format=ndjson`): it is a defect of the engine.'],
  ['ATTEMPTS_EXHAUSTED', 'The command was lost with several workers: look for what ends them, such as memory.'],
  ['EGRESS_DENIED', 'Allow the address in SVC_EGRESS_ALLOW of the worker, if the request is meant to leave.'],
  ['timeout', 'Raise the time-out of the task, or make it do less at a time.'],
  ['auth', 'Check that the credential of the task is there and still valid.'],
  ['connection', 'Check that the address answers from where the workers run; a retry rule bridges short outages.'],
  ['rate_limit', 'Ask less often: a retry rule with a longer `delay`, or a smaller `max_in_flight`.'],
  ['transform', 'Try the template with `POST /api/context/render`; `strict` tells what is undefined.'],
  ['missing_reference', 'Keep stored results longer: their lifetime or the retention took away what was needed.'],
]);

function recommendationsFor(findings: readonly Finding[]): readonly string[] {
  const advice = findings.flatMap(({ code, kind }) => {
    const sentence = ADVICE.get(code) ?? ADVICE.get(kind ?? '');
    return sentence === undefined ? [] : [sentence];
  });
  return [...new Set(advice)];
}

/** Events that tell most: every failure and end, else spread evenly; in order, at most `size`. */
export function sampleOf(events: readonly LogEvent[], size: number): readonly LogEvent[] {
  if (events.length <= size) return events;
  const chosen = new Set<LogEvent>();
  const choose = (event: LogEvent | undefined): void => {
    if (event !== undefined && chosen.size < size) chosen.add(event);
  };
  choose(events[0]);
  choose(events.at(-1));
  for (const event of events) if (event.status === 'failed' || TERMINAL_TYPES.has(event.type)) choose(event);
  const stride = events.length / Math.max(1, size - chosen.size);
  for (let at = 0; at < events.length; at += stride) choose(events[Math.floor(at)]);
  return events.filter((event) => chosen.has(event));
}

function secondsOf(ms: number): number {
  return Math.round(ms / 100) / 10;
}

function mapAt(map: JsonMap, key: string): JsonMap {
  const member = map[key];
  return isMap(member) ? member : {};
}

function textAt(value: Json | undefined, key: string): string | null {
  const member = isMap(value) ? value[key] : undefined;
  return typeof member === 'string' && member !== '' ? member : null;
}
