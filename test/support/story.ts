/**
 * One execution without a store: turns are taken on the real chart and planner, reports are given by hand, and after each
 * turn the log is folded anew and compared with the live state. `given(steps).start().ok('a')` reads like the story.
 */
import { expect } from 'vitest';
import type { EventDraft, LogEvent } from '../../machines/events.ts';
import { compilePlan, type Plan } from '../../machines/execution/plan.ts';
import type { Run } from '../../machines/execution/run.ts';
import type { EngineLimits, Identity, IssuedCommand, StoredValue } from '../../machines/execution/stage.ts';
import {
  absorbEvent,
  completeDraft,
  type ExecutionState,
  newExecution,
  runOf,
  type Turn,
  takeTurn,
} from '../../machines/execution/take-turn.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { Playbook } from '../../machines/playbook/document.ts';
import { writeReference } from '../../machines/playbook/reference.ts';
import { PREVIEW_MAX_BYTES, summarise } from '../../machines/playbook/summary.ts';
import { DEFAULT_LIMITS } from '../../machines/playbook/template/run.ts';
import { MissingPayload, NeedPayload } from '../../machines/playbook/values.ts';
import { mergeInputs } from '../../machines/playbook/workload.ts';
import { foldOrder, replayExecution } from '../../machines/replay.ts';
import { playbookOf } from './playbooks.ts';

export const LIMITS: EngineLimits = {
  maxStepActivations: 100_000,
  loopMaxItems: 100_000,
  loopMaxInFlight: 1_000,
  inlineMaxBytes: 65_536,
  maxDenials: 1_000,
  template: DEFAULT_LIMITS,
};

export const IDENTITY: Identity = { executionId: 41_007, catalogId: 2_003, path: 'tests/told', version: 3 };

export interface Outcome {
  readonly data?: Json;
  readonly error?: JsonMap;
  readonly ctx?: JsonMap;
  readonly meta?: JsonMap;
}

export interface Issued extends IssuedCommand {
  readonly step: IssuedCommand['step'];
  isClaimed: boolean;
}

export function given(steps: readonly JsonMap[], keys: JsonMap = {}, limits: Partial<EngineLimits> = {}): Story {
  return new Story(playbookOf(steps, keys), { ...LIMITS, ...limits });
}

export class Story {
  readonly plan: Plan;
  readonly limits: EngineLimits;
  readonly log: LogEvent[] = [];
  /** Commands in order of issue. */
  readonly issued: Issued[] = [];
  readonly abandoned: number[] = [];
  /** What the last turn decided. */
  decided: readonly LogEvent[] = [];
  state: ExecutionState = newExecution();
  /** Fold the log after each turn and compare; costs a fold per turn. */
  isChecked = true;
  now = Date.UTC(2026, 10, 20, 10, 15);
  readonly #stored = new Map<string, Json>();
  readonly #fetched = new Map<string, Json>();
  /** Stored by the turn under way. */
  readonly #fresh = new Map<string, Json>();
  readonly #lost = new Set<string>();
  /** What an earlier run completed; copied before the first step is entered. */
  copied: readonly EventDraft[] = [];
  #nextId = 9_000;

  constructor(playbook: Playbook, limits: EngineLimits = LIMITS) {
    this.plan = compilePlan(playbook);
    this.limits = limits;
  }

  // ---------------------------------------------------------------- what happens

  start(inputs: JsonMap = {}, more: JsonMap = {}): this {
    return this.tell({
      type: 'execution.started',
      status: 'running',
      nodeName: IDENTITY.path,
      nodeType: 'execution',
      context: { workload: mergeInputs(this.plan.playbook.workload, inputs), args: inputs, ...more },
    });
  }

  /** The open command of `step` (or of `step#index`) succeeds: `call.done`, `command.completed`. */
  ok(key: string, data: Json = null, more: Outcome = {}): this {
    return this.settle(key, 'ok', { data, ...more });
  }

  fail(key: string, error: JsonMap = {}, more: Outcome = {}): this {
    return this.settle(key, 'error', {
      error: { kind: 'tool_error', code: 'E', message: 'it broke', ...error },
      ...more,
    });
  }

  settle(key: string, outcome: 'ok' | 'error', { data, error, ctx, meta }: Outcome): this {
    const command = this.command(key);
    command.isClaimed = true;
    const ok = outcome === 'ok';
    const status = ok ? 'completed' : 'failed';
    const body: JsonMap = { ...(data === undefined ? {} : { data }), ...(error === undefined ? {} : { error }) };
    this.note({
      ...this.#nodeOf(command),
      type: ok ? 'call.done' : 'call.error',
      status,
      error: typeof error?.['message'] === 'string' ? error['message'] : null,
      result: { status, context: body },
      meta: { ...this.#metaOf(command), ...(ctx === undefined ? {} : { ctx }), ...meta },
    });
    return this.close(key, ok ? 'command.completed' : 'command.failed');
  }

  /** The closing row alone. */
  close(
    key: string,
    type: 'command.completed' | 'command.failed' | 'command.cancelled',
    more: Partial<EventDraft> = {},
  ): this {
    const command = this.command(key);
    command.isClaimed = true;
    const status = type === 'command.completed' ? 'completed' : 'failed';
    return this.tell({
      ...this.#nodeOf(command),
      type,
      status,
      closes: true,
      context: { command_id: command.commandId },
      meta: this.#metaOf(command),
      ...more,
    });
  }

  park(key: string, child: number): this {
    return this.close(key, 'command.completed', {
      closes: false,
      context: { pending_callback: true, child_execution_id: child },
    });
  }

  /** The child of a parked command ended: its call row closes it. */
  unpark(key: string, outcome: 'ok' | 'error', data: Json = null): this {
    const command = this.command(key);
    const status = outcome === 'ok' ? 'completed' : 'failed';
    return this.tell({
      ...this.#nodeOf(command),
      type: outcome === 'ok' ? 'call.done' : 'call.error',
      status,
      closes: true,
      result: {
        status,
        context:
          outcome === 'ok' ? { data } : { error: { kind: 'tool_error', code: 'CHILD_FAILED', message: 'child' } },
      },
      meta: this.#metaOf(command),
    });
  }

  claim(...keys: readonly string[]): this {
    for (const key of keys) this.command(key).isClaimed = true;
    return this;
  }

  cancel(reason = 'enough'): this {
    return this.tell({
      type: 'execution.cancelled',
      status: 'cancelled',
      nodeName: IDENTITY.path,
      context: { reason, cancelled_at: this.at, cancelled_by: 'api' },
    });
  }

  /** Any inbox event, with its turn. */
  tell(draft: EventDraft): this {
    const event = completeDraft(draft, this.log.length + 1, this.log.length + 1, this.at);
    this.log.push(event);
    this.#take(event);
    this.#check();
    return this;
  }

  /** An inbox event that is folded and decides nothing. */
  note(draft: EventDraft): LogEvent {
    const event = completeDraft(draft, this.log.length + 1, this.log.length + 1, this.at);
    this.log.push(event);
    absorbEvent(this.state, event);
    return event;
  }

  // ---------------------------------------------------------------- what can be seen

  get run(): Run {
    return runOf(this.state);
  }

  get at(): string {
    return new Date(this.now).toISOString();
  }

  get value(): string {
    return JSON.stringify(this.state.snapshot.value).replaceAll(/["{}]/g, '').replace(':', '.');
  }

  get isEnded(): boolean {
    return this.state.snapshot.status === 'done';
  }

  /** `type node` of what the last turn decided. */
  get told(): readonly string[] {
    return this.decided.map(lineOf);
  }

  /** `type node` of the whole log, without what workers said. */
  get decisions(): readonly string[] {
    return this.log.filter((event) => event.eventId !== event.causeId).map(lineOf);
  }

  /** Steps that were entered, in order. */
  get entered(): readonly string[] {
    return this.log.filter((event) => event.type === 'step.enter').map((event) => event.nodeName);
  }

  get skipped(): readonly string[] {
    return this.log.filter((event) => event.type === 'step.skipped').map((event) => event.nodeName);
  }

  get open(): readonly Issued[] {
    return this.issued.filter((command) => this.run.open[command.commandId] !== undefined);
  }

  get openKeys(): readonly string[] {
    return this.open.map(keyOf);
  }

  /** The open command of a step, or of an iteration (`step#2`). */
  command(key: string): Issued {
    const found = this.open.find((command) => keyOf(command) === key || command.step.step.name === key);
    if (found === undefined) throw new Error(`no open command '${key}' among ${this.openKeys.join(', ')}`);
    return found;
  }

  /** The newest command of a step, open or not. */
  last(step: string): Issued {
    const found = this.issued.findLast((command) => command.step.step.name === step);
    if (found === undefined) throw new Error(`step '${step}' was never issued`);
    return found;
  }

  events(type: string): readonly LogEvent[] {
    return this.log.filter((event) => event.type === type);
  }

  get end(): LogEvent {
    const event = this.log.find((row) => /^(playbook\.|execution\.cancelled)/.test(row.type));
    if (event === undefined) throw new Error(`the execution is ${this.value}; open: ${this.openKeys.join(', ')}`);
    return event;
  }

  get result(): Json {
    return this.end.context['result'] ?? null;
  }

  /** Variables written so far, as a template sees them. */
  get variables(): JsonMap {
    const values: { [name: string]: Json } = {};
    for (const [name, eventId] of Object.entries(this.run.written)) {
      values[name] = this.state.materials.body(eventId)?.values?.[name] ?? null;
    }
    return values;
  }

  storedPayload(ref: string): Json | undefined {
    return this.#stored.get(ref);
  }

  /** The payload behind this reference is gone. */
  lose(ref: string): this {
    this.#lost.add(ref);
    return this;
  }

  /** Forgets everything but the log, as a crash does. */
  restart(): this {
    this.state = this.#replayed();
    this.#fetched.clear();
    return this;
  }

  // ---------------------------------------------------------------- how

  #take(event: LogEvent): void {
    const at = this.log.length;
    for (let tries = 0; ; tries += 1) {
      this.#fresh.clear();
      try {
        this.#apply(event);
        return;
      } catch (error) {
        if (!(error instanceof NeedPayload) || tries > 5) throw error;
        // A turn that throws leaves its state unusable: the log gives a new one, and the payload is there now.
        this.log.length = at;
        for (const ref of refsOf(error)) this.#fetched.set(ref, this.#stored.get(ref) ?? null);
        const before = this.log.slice(0, -1);
        this.state = this.#replayed(before);
      }
    }
  }

  #apply(event: LogEvent): void {
    let next = event.eventId;
    const turn: Turn = takeTurn(this.state, event, {
      plan: this.plan,
      identity: IDENTITY,
      limits: this.limits,
      at: this.at,
      nextEventId: () => {
        next += 1;
        return next;
      },
      newId: () => {
        this.#nextId += 1;
        return this.#nextId;
      },
      attemptOf: (commandId) => Number(this.issued.some((each) => each.commandId === commandId && each.isClaimed)),
      isPending: (commandId) => this.issued.some((each) => each.commandId === commandId && !each.isClaimed),
      copied: this.copied,
      payload: (ref) => {
        if (this.#lost.has(ref)) throw new MissingPayload(ref);
        return this.#fresh.get(ref) ?? this.#fetched.get(ref);
      },
      store: (value, name, inlineMaxBytes) => this.store(value, name, inlineMaxBytes),
    });
    this.decided = turn.decided;
    this.log.push(...turn.decided);
    for (const command of turn.issued) this.issued.push({ ...command, isClaimed: false });
    this.abandoned.push(...turn.abandoned);
  }

  store(value: Json, name: string, inlineMaxBytes: number): StoredValue | null {
    const json = JSON.stringify(value);
    if (json.length <= inlineMaxBytes) return null;
    this.#nextId += 1;
    const ref = writeReference({ executionId: IDENTITY.executionId, name, resultId: this.#nextId });
    this.#stored.set(ref, JSON.parse(json));
    this.#fresh.set(ref, value);
    const bytes = json.length;
    const summary = summarise(value, json, { ref, store: 'db', bytes, select: [], previewMaxBytes: PREVIEW_MAX_BYTES });
    return { summary, reference: { ref, store: 'db', bytes, sha256: 'hash' } };
  }

  #replayed(log: readonly LogEvent[] = this.log): ExecutionState {
    const state = replayExecution(log);
    // Results of iterations that ended are read back by whoever hydrates; here the log itself is at hand.
    return state;
  }

  #check(): void {
    if (!this.isChecked) return;
    expect(foldOrder(this.log)).toEqual(this.log);
    const replayed = this.#replayed();
    expect(replayed.snapshot.value).toEqual(this.state.snapshot.value);
    expect(runOf(replayed)).toEqual(this.run);
  }

  #nodeOf(command: Issued) {
    return {
      nodeName: command.step.step.name,
      nodeId: command.event.nodeId,
      nodeType: command.step.toolKind,
      commandId: command.commandId,
      parentEventId: command.event.eventId,
      attempt: 1,
    };
  }

  #metaOf(command: Issued): JsonMap {
    return command.event.meta;
  }
}

export function lineOf(event: LogEvent): string {
  return `${event.type} ${event.nodeId}`;
}

function keyOf(command: IssuedCommand): string {
  return command.event.nodeId;
}

function refsOf(error: NeedPayload): readonly string[] {
  return 'refs' in error && Array.isArray(error.refs) ? error.refs : [error.ref];
}
