/** What inspection answers (api 2.16), as types: charts where they are and were, frame by frame, and what would happen if. */
import type { LogEvent } from '../machines/events.ts';
import type { Overlay } from '../machines/execution/overlay.ts';
import type { Run } from '../machines/execution/run.ts';
import type { Frame } from '../machines/execution/tape.ts';
import type { Json, JsonMap } from '../machines/json.ts';
import type { NextEvent } from '../machines/outline.ts';
import type { Playbook } from '../machines/playbook/document.ts';
import type { StepGraph } from '../machines/playbook/step-graph.ts';
import type { TracePage } from './playback.ts';
import type { BatchRow, CommandRow, ExecutionRow } from './ports.ts';
import type { KeychainAddress } from './services.ts';

/** A chart as it stands; the context is metadata only. */
export interface ChartView {
  readonly machine: string;
  readonly machineVersion: number;
  readonly value: Json;
  readonly states: readonly string[];
  /** `active` until the chart has ended. */
  readonly isActive: boolean;
  readonly context: JsonMap;
  readonly nextEvents: readonly NextEvent[];
}

export interface ExecutionView extends ChartView {
  readonly row: ExecutionRow;
  /** The event after which this is. */
  readonly at: number;
  readonly cursor: { readonly lastEventId: number; readonly handledThrough: number };
  /** What it waits for (or waited for, in the past). */
  readonly sentence: string;
}

export interface CommandView extends ChartView {
  readonly row: CommandRow;
  readonly at: number;
}

export interface BatchView extends ChartView {
  readonly row: BatchRow;
}

export interface EntryView extends ChartView {
  /** Rows its log has. */
  readonly at: number;
}

export interface TrialRequest {
  readonly machine: string;
  readonly snapshot: { readonly value: Json; readonly context: JsonMap } | null;
  readonly executionId: number | null;
  readonly at: number | null;
  /** In the spelling of the wire; `type` is there. */
  readonly event: JsonMap;
}

export interface Trial {
  readonly view: ChartView;
  readonly changed: boolean;
  /** What the turn would write: the event and its decisions. Empty where only a snapshot was given. */
  readonly recorded: readonly LogEvent[];
  /** Decisions the chart asks for by name. */
  readonly decisions: readonly string[];
}

export interface DrawnExecution {
  readonly row: ExecutionRow;
  readonly playbook: Playbook;
  readonly graph: StepGraph;
  readonly run: Run;
  readonly overlay: Overlay;
}

/** Questions about charts; none of them changes anything. */
export interface InspectionService {
  /** Throws not_found; validation_error where `at` is beyond the log. */
  execution(executionId: number, at: number | null): Promise<ExecutionView>;
  /** Throws not_found. */
  trace(executionId: number, request: { after: number; limit: number; all: boolean }): Promise<TracePage>;
  /** A key frame of the present and its number; later frames follow it by `trace`. Throws not_found. */
  keyframe(executionId: number): Promise<Frame & { readonly status: ExecutionRow['status'] }>;
  /** Throws not_found. */
  command(commandId: number): Promise<CommandView>;
  /** Throws not_found. */
  batch(requestId: number): Promise<BatchView>;
  /** Throws not_found where the entry never was. */
  entry(address: KeychainAddress): Promise<EntryView>;
  /** Throws not_found, validation_error. */
  trial(request: TrialRequest): Promise<Trial>;
  /** Throws not_found. */
  drawn(executionId: number): Promise<DrawnExecution>;
}
