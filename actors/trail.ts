/**
 * The log as inspection reads it, as a port: heads with their snapshots, and rows in the order of the fold, without the
 * values in them. A row of the trail holds what a chart folds and nothing a tool has said.
 */
import type { LogEvent } from '../machines/events.ts';
import type { ExecutionRow, StoredSnapshot } from './ports.ts';

/** A place in the order of the fold: rows are ordered by cause, then number. */
export interface TrailPosition {
  readonly causeId: number;
  readonly eventId: number;
}

export interface TrailHead {
  readonly row: ExecutionRow;
  readonly snapshot: StoredSnapshot | null;
}

export interface Trail {
  head(executionId: number): Promise<TrailHead | null>;
  /** The place of an event; null when there is no such row. */
  locate(executionId: number, eventId: number): Promise<TrailPosition | null>;
  /** Handled rows (their cause is at most `handledThrough`) after the place, in the order of the fold. */
  rows(executionId: number, after: TrailPosition, handledThrough: number, limit: number): Promise<readonly LogEvent[]>;
}
