/**
 * What a planner works with during one turn: the compiled playbook, the run and its values, and the ways to say what it
 * decided. Ids, instants and payloads come from the host as arguments, so a decision is a function of what is here.
 */
import type { EventDraft, Failure, LogEvent, ResultReference } from '../events.ts';
import type { Json, JsonMap } from '../json.ts';
import type { Limits } from '../playbook/template/run.ts';
import type { Body, Materials } from './materials.ts';
import type { Plan, StepPlan } from './plan.ts';
import type { RenderContext } from './render-context.ts';
import type { Run } from './run.ts';

export interface EngineLimits {
  readonly maxStepActivations: number;
  readonly loopMaxItems: number;
  readonly loopMaxInFlight: number;
  readonly inlineMaxBytes: number;
  readonly maxDenials: number;
  readonly template: Limits;
}

export interface Identity {
  readonly executionId: number;
  readonly catalogId: number;
  readonly path: string;
  readonly version: number;
}

/** A command to be offered to workers; the host makes its row from this and its `command.issued`. */
export interface IssuedCommand {
  readonly commandId: number;
  readonly event: LogEvent;
  readonly step: StepPlan;
  /** The step's, or the cursor's for a claim. */
  readonly toolKind: string;
  readonly activation: number;
  readonly iterationIndex: number | null;
  readonly iterationTotal: number | null;
  readonly key: string;
  readonly context: RenderContext;
}

export interface StoredValue {
  readonly summary: JsonMap;
  readonly reference: ResultReference;
}

export interface Stage {
  readonly plan: Plan;
  readonly run: Run;
  readonly materials: Materials;
  readonly identity: Identity;
  readonly limits: EngineLimits;
  /** What is taken over from an earlier run before the first step is entered. */
  readonly copied: readonly EventDraft[];
  /** Records a decided event and folds it; the next decision sees its effect. */
  record(draft: EventDraft): LogEvent;
  issue(command: IssuedCommand): void;
  newId(): number;
  /** Nobody has claimed it yet. */
  isPending(commandId: number): boolean;
  /** How often it was granted. */
  attemptOf(commandId: number): number;
  /** A child that was being waited for is waited for no more: the host cancels it. */
  cancelChild(executionId: number): void;
  /** A stored payload; undefined when the host has to fetch it first. */
  payload(ref: string): Json | undefined;
  /** Stores a value apart from the log when it is larger than the inline limit; null when it is not. */
  store(value: Json, name: string, inlineMaxBytes: number): StoredValue | null;
}

/** The end of an activation, while it is being handled (language 5.2). */
export interface Situation {
  readonly step: StepPlan;
  readonly outcome: 'ok' | 'failed' | 'skipped';
  readonly isLoop: boolean;
  readonly activation: number;
  readonly body: Body | null;
  /** Set when the engine itself failed the step. */
  readonly failure: Failure | null;
  /** Total of the loop that ended. */
  readonly total: number | null;
  /** Instant of the event that ended it. */
  readonly at: string;
}
