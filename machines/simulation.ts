/** What a simulation is asked for (api 2.2.16), as plain JSON: it crosses from the server to the thread that simulates. */
import type { Json, JsonMap } from './json.ts';

export interface SimulationRequest {
  readonly document: SimulatedDocument;
  readonly workload: JsonMap;
  readonly outcomes: readonly ScriptedOutcome[];
  readonly defaultOutcome: DefaultOutcome | 'fail';
  /** `noop` is really evaluated. */
  readonly pureTools: boolean;
  /** Results of children by catalog path; a child that is not here is simulated too. */
  readonly children: JsonMap;
  readonly cancelAtMs: number | null;
  readonly seed: number;
  /** ISO 8601 UTC. */
  readonly startTime: string;
  readonly limits: SimulationLimits;
}

export interface SimulatedDocument {
  readonly content: string;
  /** Overrides what the text says; null where only the text knows. */
  readonly path: string | null;
  readonly version: number;
  /** Null for a text that is stored nowhere. */
  readonly catalogId: number | null;
}

export interface SimulationLimits {
  /** Rows of all executions together. */
  readonly maxEvents: number;
  readonly maxVirtualSeconds: number;
}

export interface ScriptedError {
  readonly kind: string;
  readonly code: string;
  readonly message: string;
  readonly statusCode: number | null;
  /** Null: as the kind says. */
  readonly retryable: boolean | null;
}

export interface DefaultOutcome {
  readonly result: Json;
  /** With an error, `result` is the data of the failed try. */
  readonly error: ScriptedError | null;
  readonly durationMs: number;
}

/** What a try ends with when everything that is said of it here holds; null says nothing. */
export interface ScriptedOutcome extends DefaultOutcome {
  readonly step: string;
  /** Playbook the step belongs to, for children. */
  readonly path: string | null;
  readonly task: string | null;
  readonly kind: string | null;
  readonly activation: number | null;
  /** Index of the loop item, from 0. */
  readonly iteration: number | null;
  /** Of the task in its command, from 1; goes on when the command moves to another worker. */
  readonly try: number | null;
  /** A condition over the rendered task. */
  readonly when: string | boolean | null;
  /** The worker is gone after `durationMs`, without a word. */
  readonly workerLost: boolean;
  /** How often it may be used; null: always. */
  readonly times: number | null;
}

export const DEFAULT_OUTCOME: DefaultOutcome = { result: {}, error: null, durationMs: 0 };
export const DEFAULT_START_TIME = '2026-01-01T00:00:00.000Z';
export const DEFAULT_LIMITS: SimulationLimits = { maxEvents: 10_000, maxVirtualSeconds: 31_536_000 };

/** A document a simulation asks for: by path, or by the id of a version. */
export interface DocumentQuery {
  readonly path?: string;
  readonly catalogId?: number;
  readonly version?: number | 'latest';
  readonly resourceKind?: string;
}

export type DocumentAnswer =
  | { readonly found: SimulatedDocument & { readonly path: string; readonly catalogId: number } }
  /** A code of api 1.7. */
  | { readonly refused: { readonly code: string; readonly message: string } };
