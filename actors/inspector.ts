/**
 * Looking at charts: where an execution is and was, what it went through, what it would do. Everything is folded from the
 * log by the code that production folds with; live executions are not asked, so looking costs them nothing.
 */

import { foldCommand } from '../machines/command/history.ts';
import { isoOf } from '../machines/command/instant.ts';
import type { EventDraft, EventResult } from '../machines/events.ts';
import { Overlay } from '../machines/execution/overlay.ts';
import type { Plan } from '../machines/execution/plan.ts';
import type { EngineLimits } from '../machines/execution/stage.ts';
import {
  absorbEvent,
  completeDraft,
  type ExecutionState,
  restoreExecution,
  runOf,
} from '../machines/execution/take-turn.ts';
import { type Frame, Tape } from '../machines/execution/tape.ts';
import { runFromVisible, visibleRun } from '../machines/execution/visible-run.ts';
import { explainRun } from '../machines/execution/why.ts';
import {
  BATCH_CHART,
  type Chart,
  COMMAND_CHART,
  chartNamed,
  EXECUTION_CHART,
  KEYCHAIN_CHART,
} from '../machines/index.ts';
import { isMap, type Json, type JsonMap } from '../machines/json.ts';
import { foldEntry } from '../machines/keychain/history.ts';
import { cacheKeyOf } from '../machines/keychain/scope.ts';
import { activeStates, nextEvents } from '../machines/outline.ts';
import { stepGraphOf } from '../machines/playbook/step-graph.ts';
import { fold, initialSnapshot } from '../machines/turn.ts';
import { DomainError } from './errors.ts';
import type { ChartView, DrawnExecution, InspectionService, Trial, TrialRequest } from './inspection.ts';
import { Playback } from './playback.ts';
import type { Clock, Store } from './ports.ts';
import { Recent } from './recent.ts';
import { rehearse } from './rehearsal.ts';
import type { BatchService, Explanation, KeychainAddress, KeychainService, ReadService } from './services.ts';
import type { Trail, TrailHead, TrailPosition } from './trail.ts';

export interface InspectorParts {
  readonly trail: Trail;
  readonly store: Pick<Store, 'events' | 'iterations' | 'payload' | 'command' | 'commandEvents'>;
  readonly reads: Pick<ReadService, 'commands' | 'execution'>;
  readonly keychain: Pick<KeychainService, 'log'>;
  readonly batches: Pick<BatchService, 'find'>;
  plan(catalogId: number): Promise<Plan>;
  readonly limits: EngineLimits;
  readonly clock: Clock;
  explain(executionId: number): Promise<Pick<Explanation, 'sentence' | 'status'>>;
}

const CHUNK = 1000;
const COMMANDS_MAX = 1000;
const ENTRY_ROWS_MAX = 1000;
/** Executions whose drawing is kept, to go on from there. */
const DRAWINGS_MAX = 64;

export function createInspector(parts: InspectorParts): InspectionService {
  const { trail, store, reads, keychain, batches, clock } = parts;
  const playback = new Playback(trail);
  const drawings = new Recent<number, Promise<Drawing>>({ countMax: DRAWINGS_MAX, sizeMax: Number.MAX_SAFE_INTEGER });

  async function headOf(executionId: number): Promise<TrailHead> {
    const head = await trail.head(executionId);
    if (head === null) throw new DomainError('not_found', `Execution ${executionId} not found`);
    return head;
  }

  /** The place of an event that has been handled; null: the present, which is also what an event still to be handled has. */
  async function placeOf(
    { row }: TrailHead,
    at: number | null,
    from: 'query' | 'body' = 'query',
  ): Promise<TrailPosition | null> {
    if (at === null) return null;
    const place = at > row.lastEventId ? null : await trail.locate(row.executionId, at);
    if (place === null) {
      const message = `${from}.at: the log of execution ${row.executionId} ends at event ${row.lastEventId}`;
      throw new DomainError('validation_error', message, { errors: [message] });
    }
    return place.causeId > row.handledThrough ? null : place;
  }

  async function trialOfExecution(request: TrialRequest, executionId: number): Promise<Trial> {
    const head = await headOf(executionId);
    const place = await placeOf(head, request.at, 'body');
    const tape = await playback.at(head, place);
    const plan = await parts.plan(head.row.catalogId);
    const attempts = await attemptsAt(executionId, Object.keys(runOf(tape.state).open).map(Number), place);
    const draft = draftOf(request.event, tape.state, head.row.path);
    const now = isoOf(clock.now());
    const { state, recorded } = await rehearse(parts, head.row, plan, tape.mark(), attempts, draft, now);
    const view = viewOfRun(state);
    return { view, changed: !same(view, viewOfRun(tape.state)), recorded, decisions: [] };
  }

  /** Why it waits at present; null where it has ended since the row was read. */
  async function whyNow({ executionId, status }: TrailHead['row']): Promise<string | null> {
    const explanation = await parts.explain(executionId);
    return explanation.status === status ? explanation.sentence : null;
  }

  /** How often these open commands had been claimed: by their rows at present, by the log in the past. */
  async function attemptsAt(executionId: number, open: readonly number[], place: TrailPosition | null) {
    if (place === null) {
      const rows = await reads.commands({
        executionId,
        statuses: ['PENDING', 'CLAIMED', 'RUNNING'],
        limit: COMMANDS_MAX,
      });
      return new Map(rows.map((row) => [row.commandId, row.attempt]));
    }
    const attempts = new Map<number, number>();
    for (const commandId of open.slice(0, COMMANDS_MAX)) {
      const events = await store.commandEvents(executionId, commandId);
      const claims = events.filter((event) => event.type === 'command.claimed' && event.eventId <= place.eventId);
      attempts.set(commandId, claims.length);
    }
    return attempts;
  }

  return {
    async execution(executionId, at) {
      const head = await headOf(executionId);
      const place = await placeOf(head, at);
      const tape = await playback.at(head, place);
      const { row } = head;
      const [state = ''] = tape.states;
      const isPresent = place === null;
      return {
        ...viewOfRun(tape.state),
        row,
        at: at ?? row.lastEventId,
        cursor: isPresent
          ? { lastEventId: row.lastEventId, handledThrough: row.handledThrough }
          : // Without a gap before it, nothing was waiting in the log at that place.
            { lastEventId: place.eventId, handledThrough: tape.n === place.eventId ? place.eventId : place.causeId },
        sentence:
          (isPresent ? await whyNow(row) : null) ??
          explainRun(runOf(tape.state), state.slice(state.lastIndexOf('.') + 1)),
      };
    },

    async trace(executionId, { after, limit, all }) {
      return playback.frames(await headOf(executionId), after, limit, all);
    },

    async keyframe(executionId) {
      const head = await headOf(executionId);
      const tape = await playback.at(head, null);
      const { eventId, causeId } = tape.position;
      const frame: Frame = {
        n: tape.n,
        event: { eventId, causeId, type: head.row.lastEventType, at: isoOf(clock.now()) },
        changed: false,
        states: tape.states,
        patch: visibleRun(runOf(tape.state)),
        isKeyframe: true,
      };
      return { ...frame, status: head.row.status };
    },

    async command(commandId) {
      const row = await store.command(commandId);
      if (row === null) throw new DomainError('not_found', `Command ${commandId} not found`);
      const events = await store.commandEvents(row.executionId, commandId);
      const folded = foldCommand(events);
      // A wait that was given up because its execution failed has no row of its own in the log.
      const isGivenUp = row.status === 'CANCELLED' && folded.status === 'active';
      const snapshot = isGivenUp ? fold(COMMAND_CHART.machine, folded, { type: 'command.cancelled' }).snapshot : folded;
      const context = { ...toSnake(snapshot.context), republish_count: row.republishCount };
      return { ...viewOf(COMMAND_CHART, snapshot, context), row, at: events.at(-1)?.eventId ?? row.eventId };
    },

    async batch(requestId) {
      const row = await batches.find(requestId);
      if (row === null) throw new DomainError('not_found', `Batch request not found: ${requestId}`);
      const { eventCount, commandsGenerated, errorCode, workerId } = row;
      // A batch has no context: its row keeps the one thing a fold of its markers would give.
      const snapshot = BATCH_CHART.machine.resolveState({ value: row.state, context: {} });
      const context = toSnake({ eventCount, commandsGenerated, errorCode, workerId });
      return { ...viewOf(BATCH_CHART, snapshot, context), isActive: row.state !== 'completed', row };
    },

    async entry(address) {
      const cacheKey = await keyOf(address);
      const records = await keychain.log({
        catalogId: address.catalogId,
        name: address.name,
        after: { cacheKey, seq: 0 },
        limit: ENTRY_ROWS_MAX,
      });
      const own = records.filter((record) => record.cacheKey === cacheKey);
      if (own.length === 0) throw new DomainError('not_found', `Keychain entry '${address.name}' not found`);
      const snapshot = foldEntry(own, isoOf(clock.now()));
      return { ...viewOf(KEYCHAIN_CHART, snapshot, toSnake(snapshot.context)), at: own.at(-1)?.seq ?? 0 };
    },

    async trial(request) {
      const chart = chartNamed(request.machine);
      if (chart === null) throw new DomainError('not_found', `Machine '${request.machine}' not found`);
      if (chart !== EXECUTION_CHART) return trialOfChart(chart, request);
      if (request.executionId !== null) return trialOfExecution(request, request.executionId);
      return trialOfRun(request);
    },

    async drawn(executionId) {
      const head = await headOf(executionId);
      const before = drawings.get(executionId);
      // One after the other: a drawing is a tape that is played on, and two players would tear it.
      const next = drawOn(before);
      drawings.put(executionId, next, 1);
      next.catch(() => drawings.delete(executionId));
      const { playbook, graph, overlay, tape } = await next;
      return { row: head.row, playbook, graph, overlay, run: runOf(tape.state) };

      async function drawOn(known: Promise<Drawing> | undefined): Promise<Drawing> {
        const drawing = (await known) ?? (await beginDrawing(head.row.catalogId));
        const { row } = head;
        for (;;) {
          const rows = await trail.rows(executionId, drawing.tape.position, row.handledThrough, CHUNK);
          for (const event of rows) {
            drawing.tape.skip(event);
            drawing.overlay.see(event, runOf(drawing.tape.state));
          }
          if (rows.length < CHUNK) return drawing;
        }
      }
    },
  };

  async function beginDrawing(catalogId: number): Promise<Drawing> {
    const { playbook } = await parts.plan(catalogId);
    const graph = stepGraphOf(playbook);
    return { playbook, graph, overlay: new Overlay(graph), tape: new Tape() };
  }

  async function keyOf(address: KeychainAddress): Promise<string> {
    const { executionId } = address;
    if (address.scope !== 'global' && executionId === null) {
      const message = 'query.execution_id: is required for this scope';
      throw new DomainError('validation_error', message, { errors: [message] });
    }
    const row = address.scope === 'shared' && executionId !== null ? await reads.execution(executionId) : null;
    return cacheKeyOf({ ...address, rootExecutionId: row?.rootExecutionId ?? executionId });
  }
}

interface Drawing extends Pick<DrawnExecution, 'playbook' | 'graph' | 'overlay'> {
  readonly tape: Tape;
}

type AnySnapshot = ReturnType<typeof initialSnapshot>;

function viewOf(chart: Chart, snapshot: Pick<AnySnapshot, 'value' | 'status'>, context: JsonMap): ChartView {
  return {
    machine: chart.name,
    machineVersion: chart.version,
    // The value of a chart is a string or a map of them.
    value: snapshot.value as Json,
    states: activeStates(chart.machine, snapshot.value),
    isActive: snapshot.status === 'active',
    context,
    nextEvents: nextEvents(chart.machine, snapshot),
  };
}

function viewOfRun(state: ExecutionState): ChartView {
  return viewOf(EXECUTION_CHART, state.snapshot, visibleRun(runOf(state)));
}

/** A chart that needs nothing but its snapshot. */
function trialOfChart(chart: Chart, { snapshot, event }: TrialRequest): Trial {
  const { machine } = chart;
  return guarded(() => {
    const first = initialSnapshot(machine);
    const context = { ...first.context, ...(snapshot === null ? {} : toCamel(snapshot.context)) };
    const before = snapshot === null ? first : machine.resolveState({ value: snapshot.value as never, context });
    const { snapshot: after, decisions } =
      before.status === 'active'
        ? fold(machine, before, toCamel(event) as { type: string })
        : { snapshot: before, decisions: [] };
    const view = viewOf(chart, after, toSnake(after.context ?? {}));
    return {
      view,
      changed: !same(view, viewOf(chart, before, toSnake(before.context ?? {}))),
      recorded: [],
      decisions,
    };
  });
}

/** The execution chart without an execution: facts are folded, and what would be decided is only named. */
function trialOfRun({ snapshot, event }: TrialRequest): Trial {
  return guarded(() => {
    const begin = () => restoreExecution(snapshot?.value ?? 'created', runFromVisible(snapshot?.context ?? {}));
    const state = begin();
    const draft = draftOf(event, state);
    const decisions = absorbEvent(state, completeDraft(draft, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, EPOCH));
    const view = viewOfRun(state);
    return { view, changed: !same(view, viewOfRun(begin())), recorded: [], decisions };
  });
}

const EPOCH = '1970-01-01T00:00:00.000Z';

/** A hand-made snapshot or event may be anything; what a chart throws at it is the caller's to mend. */
function guarded(work: () => Trial): Trial {
  try {
    return work();
  } catch (error) {
    if (error instanceof DomainError) throw error;
    const message = `body: the snapshot or the event does not fit the chart: ${misfitOf(error)}`;
    throw new DomainError('validation_error', message, { errors: [message] });
  }
}

/** What a chart says itself, such as an unknown state; of what its code stumbles over only the place it names. */
function misfitOf(error: unknown): string {
  if (!(error instanceof Error) || error instanceof TypeError) return 'the event lacks what the chart needs of it';
  const [sentence = ''] = error.message.split('\n');
  return sentence.replace(/:$/, '');
}

/** The event of a trial as a row: what it leaves out is taken from the command it names. */
function draftOf(event: JsonMap, state: ExecutionState, path = ''): EventDraft {
  const commandId = numberIn(event, 'command_id');
  const command = commandId === null ? undefined : runOf(state).open[commandId];
  const type = textIn(event, 'type') ?? '';
  const status = FAILED.test(type) ? 'failed' : type === 'execution.cancelled' ? 'cancelled' : 'completed';
  const context = mapIn(event, 'context');
  const error = event['error'];
  return {
    type,
    status,
    nodeName: textIn(event, 'node_name') ?? textIn(event, 'step') ?? command?.step ?? (OF_RUN.test(type) ? path : ''),
    commandId,
    attempt: numberIn(event, 'attempt'),
    stale: event['stale'] === true,
    context,
    meta: mapIn(event, 'meta'),
    error: typeof error === 'string' ? error : isMap(error) ? textIn(error, 'message') : null,
    result: resultIn(event, status),
  };
}

const OF_RUN = /^(?:execution|playbook)\./;
const FAILED = /\.(failed|error)$/;

/** A result in the form of a row is taken as it is; anything else is the data. */
function resultIn(event: JsonMap, status: string): EventResult | null {
  const { result, error } = event;
  if (isMap(result) && typeof result['status'] === 'string' && isMap(result['context'])) {
    return { status: result['status'], context: result['context'] };
  }
  if (result === undefined && !isMap(error)) return null;
  return { status, context: { data: result ?? null, ...(isMap(error) ? { error } : {}) } };
}

function same(a: ChartView, b: ChartView): boolean {
  return JSON.stringify([a.value, a.context]) === JSON.stringify([b.value, b.context]);
}

/** Members without a value are left out, as in the context of an execution. */
function toSnake(context: object): JsonMap {
  return Object.fromEntries(
    Object.entries(context)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([key, value]) => [key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]),
  );
}

function toCamel(map: JsonMap): { [name: string]: unknown } {
  return Object.fromEntries(
    Object.entries(map).map(([key, value]) => [
      key.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      isMap(value) ? toCamel(value) : value,
    ]),
  );
}

function mapIn(map: JsonMap, key: string): JsonMap {
  const value = map[key];
  return isMap(value) ? value : {};
}

function textIn(map: JsonMap, key: string): string | null {
  const value = map[key];
  return typeof value === 'string' ? value : null;
}

function numberIn(map: JsonMap, key: string): number | null {
  const value = map[key];
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : null;
}
