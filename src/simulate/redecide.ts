/**
 * A recorded log decided again: each event from outside takes its turn on the chart and planner of this build, and what it
 * decides is compared with what was recorded, row by row. Ids and instants are those of the log, so the first difference is
 * a difference of behaviour: of the version, of the playbook's text, or of a log that was changed by hand.
 */
import { OUTCOME_REPORTED } from '../../actors/reported-outcome.ts';
import type { EventStatus, LogEvent } from '../../machines/events.ts';
import { compilePlan } from '../../machines/execution/plan.ts';
import type { EngineLimits, Identity, StoredValue } from '../../machines/execution/stage.ts';
import { absorbEvent, type ExecutionState, newExecution, takeTurn } from '../../machines/execution/take-turn.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { Playbook } from '../../machines/playbook/document.ts';
import { PREVIEW_MAX_BYTES, summarise } from '../../machines/playbook/summary.ts';
import { NeedPayload } from '../../machines/playbook/values.ts';
import { foldOrder } from '../../machines/replay.ts';
import { type Event, eventToWire } from '../wire/event.ts';
import { differences } from './differences.ts';

export interface Redecision {
  /** Turns that were decided again, and those that could only be folded. */
  readonly turns: number;
  readonly folded: number;
  readonly difference: Difference | null;
}

export interface Difference {
  /** The event that set the turn off. */
  readonly cause: LogEvent;
  /** Null: today nothing more is decided, or nothing more was recorded. */
  readonly recorded: Event | null;
  readonly decided: Event | null;
  /** What differs in the row, in words. */
  readonly sentences: readonly string[];
}

/** A stored value is needed to decide; ask again with it. */
export class PayloadMissing extends Error {
  readonly refs: readonly string[];
  constructor(refs: readonly string[]) {
    super(`the stored value ${refs[0]} is needed`);
    this.refs = refs;
  }
}

/** Throws PayloadMissing. */
export function redecide(
  log: readonly LogEvent[],
  playbook: Playbook,
  identity: Identity,
  limits: EngineLimits,
  payloads: ReadonlyMap<string, Json>,
): Redecision {
  const plan = compilePlan(playbook);
  const state = newExecution();
  const pending = new Set<number>();
  const attempts = new Map<number, number>();
  let [turns, folded] = [0, 0];
  for (const rows of turnsOf(log)) {
    const [cause, ...recorded] = rows;
    if (cause === undefined) continue;
    keepClaims(pending, attempts, rows);
    if (isOnlyFolded(cause, recorded)) {
      folded += 1;
      for (const row of rows) absorbEvent(state, row);
      continue;
    }
    turns += 1;
    const decided = decideTurn(state, cause, recorded, { plan, identity, limits, payloads, pending, attempts });
    const difference = firstDifference(cause, recorded, decided, identity);
    if (difference !== null) return { turns, folded, difference };
  }
  return { turns, folded, difference: null };
}

/** A row as the log holds it, from its wire form with all fields. */
export function logEventOf(row: Event): LogEvent {
  return {
    eventId: row.event_id,
    causeId: row.cause_id ?? row.event_id,
    type: row.event_type,
    // Written by a server, whose statuses these are.
    status: row.status as EventStatus,
    nodeId: row.node_id,
    nodeName: row.node_name,
    nodeType: row.node_type,
    parentEventId: row.parent_event_id,
    parentExecutionId: row.parent_execution_id,
    commandId: row.command_id ?? null,
    attempt: row.attempt ?? null,
    workerId: row.worker_id,
    reportId: row.report_id ?? null,
    reportSeq: null,
    closes: row.closes ?? false,
    stale: row.stale ?? false,
    duration: row.duration,
    context: row.context ?? {},
    // `{status, context?, reference?}` by the schema of the log.
    result: (row.result ?? null) as LogEvent['result'],
    error: row.error,
    meta: row.meta ?? {},
    engineVersion: row.engine_version ?? null,
    at: row.created_at,
  };
}

/** Each event from outside with what was decided because of it. */
function turnsOf(log: readonly LogEvent[]): readonly (readonly LogEvent[])[] {
  return [...Map.groupBy(foldOrder(log), (event) => event.causeId).values()];
}

/**
 * Outcomes that came in batches are written out by the door and not by the planner; a rerun from a step takes over values
 * of another log; and what is stale or late means nothing.
 */
function isOnlyFolded(cause: LogEvent, recorded: readonly LogEvent[]): boolean {
  const isRerun = cause.type === 'execution.started' && cause.context['from_step'] !== undefined;
  const isForeign = cause.type === OUTCOME_REPORTED || cause.type.startsWith('batch.');
  return isRerun || isForeign || cause.stale || (cause.meta['late'] === true && recorded.length === 0);
}

function keepClaims(pending: Set<number>, attempts: Map<number, number>, rows: readonly LogEvent[]): void {
  for (const { type, commandId, attempt, context } of rows) {
    if (commandId === null) continue;
    if (type === 'command.claimed') attempts.set(commandId, attempt ?? 0);
    if (type === 'command.issued') pending.add(commandId);
    else if (type === 'command.claimed') pending.delete(commandId);
    // Nobody works on it until its next try.
    else if (type === 'command.heartbeat' && context['resume_at'] !== undefined) pending.add(commandId);
  }
}

interface Host {
  readonly plan: ReturnType<typeof compilePlan>;
  readonly identity: Identity;
  readonly limits: EngineLimits;
  readonly payloads: ReadonlyMap<string, Json>;
  readonly pending: ReadonlySet<number>;
  readonly attempts: ReadonlyMap<number, number>;
}

function decideTurn(state: ExecutionState, cause: LogEvent, recorded: readonly LogEvent[], host: Host) {
  const { plan, identity, limits, payloads, pending, attempts } = host;
  const eventIds = recorded.map(({ eventId }) => eventId);
  const commandIds = recorded.flatMap(({ type, commandId }) =>
    type === 'command.issued' && commandId ? [commandId] : [],
  );
  const refs = recorded.flatMap(refsIn);
  const stored = new Map<string, Json>();
  let beyond = Math.max(cause.eventId, ...eventIds);
  const nextEventId = (): number => {
    const known = eventIds.shift();
    if (known !== undefined) return known;
    beyond += 1;
    return beyond;
  };
  try {
    const { decided } = takeTurn(state, cause, {
      plan,
      identity,
      limits,
      at: recorded[0]?.at ?? cause.at,
      nextEventId,
      newId: () => commandIds.shift() ?? 0,
      isPending: (commandId) => pending.has(commandId),
      attemptOf: (commandId) => attempts.get(commandId) ?? 0,
      payload: (ref) => stored.get(ref) ?? payloads.get(ref),
      store(value, name, inlineMaxBytes): StoredValue | null {
        const text = JSON.stringify(value);
        const bytes = Buffer.byteLength(text);
        if (bytes <= inlineMaxBytes) return null;
        const ref = refs.shift() ?? `callboard://execution/${identity.executionId}/result/${name}/0`;
        stored.set(ref, value);
        const summary = summarise(value, text, {
          ref,
          store: 'db',
          bytes,
          select: [],
          previewMaxBytes: PREVIEW_MAX_BYTES,
        });
        return { summary, reference: { ref, store: 'db', bytes, sha256: '' } };
      },
    });
    // Whoever stores a decision names the parent; every row of a log has the same.
    return decided.map((row) => ({ ...row, parentExecutionId: cause.parentExecutionId }));
  } catch (error) {
    if (!(error instanceof NeedPayload)) throw error;
    throw new PayloadMissing('refs' in error && Array.isArray(error.refs) ? error.refs.map(String) : [error.ref]);
  }
}

function firstDifference(
  cause: LogEvent,
  recorded: readonly LogEvent[],
  decided: readonly LogEvent[],
  identity: Identity,
): Difference | null {
  for (let index = 0; index < Math.max(recorded.length, decided.length); index += 1) {
    const [then, now] = [recorded[index], decided[index]].map((row) =>
      row === undefined ? null : eventToWire(row, identity, 'all'),
    );
    const sentences = rowDifferences(then ?? null, now ?? null);
    if (sentences.length > 0) return { cause, recorded: then ?? null, decided: now ?? null, sentences };
  }
  return null;
}

function rowDifferences(then: Event | null, now: Event | null): readonly string[] {
  if (then === null) return [`today ${now?.event_type} ${now?.node_id} is decided as well`];
  if (now === null) return [`${then.event_type} ${then.node_id} was recorded; today it is not decided`];
  if (then.event_type !== now.event_type || then.node_id !== now.node_id) {
    return [`${then.event_type} ${then.node_id} was recorded; today ${now.event_type} ${now.node_id} is decided`];
  }
  return differences(comparable(then), comparable(now), then.event_type);
}

/** Without what a build says of itself, and without hashes, which are not computed again. */
function comparable({ engine_version: _, report_id: __, ...row }: Event): Json {
  const result = row.result ?? null;
  const reference = result?.['reference'];
  const shown = isMap(reference) ? { ...result, reference: { ...reference, sha256: '' } } : result;
  // A row on the wire is JSON.
  return JSON.parse(JSON.stringify({ ...row, result: shown })) as Json;
}

/** References a row holds, in the order in which they were made. */
function refsIn({ result, context }: LogEvent): readonly string[] {
  const own = result?.reference === undefined ? [] : [result.reference.ref];
  const written: JsonMap = isMap(context['references']) ? context['references'] : {};
  return [...own, ...Object.values(written).filter((ref) => typeof ref === 'string')];
}
