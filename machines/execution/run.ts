/**
 * What an execution knows of itself: counters, open commands, and *where* in the log values lie, never the values.
 *
 * A Run belongs to whoever holds its snapshot. Folding an event changes it in place: copying a map of a thousand steps
 * for each event would make the cost of an event grow with the playbook. A turn that fails therefore throws its
 * snapshot away, and the log gives a new one.
 */
import type { Failure } from '../events.ts';

export interface Run {
  /** ISO instant of `execution.started`. */
  startedAt: string;
  /** Steps that were entered or skipped, by name. */
  readonly steps: { [name: string]: StepRun };
  /** Open commands by id. */
  readonly open: { [commandId: string]: OpenCommand };
  openCount: number;
  /** Steps waiting at their barrier, in order of arrival. */
  joins: string[];
  /** How each of them was reached last. */
  readonly arrivals: { [join: string]: Arrival };
  /** Written variables: name to the event that holds the value. */
  readonly written: { [name: string]: number };
  /** Steps that failed without an arc to handle it, in order. */
  readonly failures: StepFailure[];
  failing: boolean;
  /** The step that completed last. */
  lastCompleted: string | null;
  /** The step entered last. */
  lastEntered: string | null;
  /** Steps with an open activation, in order of entry. */
  active: string[];
  /** Steps by the status of their last activation. */
  readonly counts: { completed: number; failed: number; skipped: number };
  /** The command closed by the event folded last; what a decision is about. */
  settled: Settled | null;
}

/** The end that led to a join: its admission and its loop are evaluated with it when the barrier opens (language 5.3). */
export interface Arrival {
  readonly from: string;
  readonly outcome: 'ok' | 'failed' | 'skipped';
  readonly activation: number;
  /** The event that holds what `from` ended with. */
  readonly value: number | null;
  /** Set when the engine itself failed the step. */
  readonly failure: Failure | null;
  readonly at: string;
}

export interface StepRun {
  /** Activations so far. */
  activation: number;
  status: 'open' | 'completed' | 'failed' | 'skipped';
  /** Number of the last `step.enter`; 0 when it was only skipped. */
  entered: number;
  /** The event that holds its value (or its error), null before the first end. */
  value: number | null;
  loop: LoopRun | null;
  /** Consecutive activations with items and without a success (language 9.4). */
  stalls: number;
  /** Why the step failed although its tools did not (its `set`); absent otherwise. */
  failure?: Failure | null;
}

export interface LoopRun {
  readonly mode: 'sequential' | 'parallel' | 'cursor';
  readonly total: number;
  readonly limit: number;
  /** Index of the next iteration to issue. For a cursor: bodies issued so far. */
  next: number;
  open: number;
  succeeded: number;
  failed: number;
  /** Null for loops over a collection. */
  readonly cursor: CursorRun | null;
}

/** A loop that drains a store frame by frame (language 9.6). */
export interface CursorRun {
  frame: number;
  /** The event with the rows of the present frame; null while it is being claimed. */
  rows: number | null;
  /** Next row of the frame. */
  row: number;
}

export interface OpenCommand {
  readonly step: string;
  readonly activation: number;
  readonly iteration: number | null;
  readonly issued: number;
  /** The first recorded `call.done` or `call.error`. */
  outcome: number | null;
  failed: boolean;
  parkedOn: number | null;
  /** The claim of a cursor loop, not a body. */
  readonly isClaim: boolean;
}

export interface Settled {
  readonly commandId: number;
  readonly step: string;
  readonly activation: number;
  readonly iteration: number | null;
  readonly outcome: number | null;
  readonly ok: boolean;
  readonly isClaim: boolean;
  /** False when the activation it belongs to has been superseded. */
  readonly current: boolean;
}

/** `event` holds the error; null when the engine itself found it (then the fields below say what). */
export interface StepFailure {
  readonly step: string;
  readonly event: number | null;
  readonly iteration: number | null;
  readonly task: string | null;
  readonly kind: string;
  readonly code: string | null;
  readonly message: string;
}

export function newRun(): Run {
  return {
    startedAt: '',
    steps: Object.create(null),
    open: Object.create(null),
    openCount: 0,
    joins: [],
    arrivals: Object.create(null),
    written: Object.create(null),
    failures: [],
    failing: false,
    lastCompleted: null,
    lastEntered: null,
    active: [],
    counts: { completed: 0, failed: 0, skipped: 0 },
    settled: null,
  };
}

export function isOpen(run: Run, step: string): boolean {
  return run.steps[step]?.status === 'open';
}
