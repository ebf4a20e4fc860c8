/**
 * What those outside of the service were told: starts, grants, receipts, batches, reads. Promises are judged against this
 * book and the log, never against what a server believes.
 */
import type { BatchReceipt, ReportReceipt, StartReceipt } from '../../actors/services.ts';

export interface GrantNote {
  readonly commandId: number;
  readonly attempt: number;
  readonly worker: string;
  readonly instance: string;
}

export class Ledger {
  /** By idempotency key; every answer of a key. */
  readonly starts = new Map<string, StartReceipt[]>();
  readonly grants: GrantNote[] = [];
  /** Commands that the worker they were given to knows nothing of. */
  readonly forgotten = new Set<number>();
  /** Events written by hand, by execution. */
  readonly byHand = new Map<number, number>();
  readonly reports: { readonly executionId: number; readonly receipt: ReportReceipt }[] = [];
  /** By execution and key. */
  readonly batches = new Map<string, { readonly executionId: number; readonly receipt: BatchReceipt }[]>();
  /** Events that were acknowledged one by one. */
  readonly events: { readonly executionId: number; readonly eventId: number }[] = [];
  readonly dryRuns: {
    readonly ids: readonly number[];
    readonly minutes: number;
    readonly from: number;
    readonly to: number;
  }[] = [];
  readonly reads: {
    readonly name: string;
    readonly cacheKey: string;
    readonly status: string;
    readonly data: unknown;
    /** The number that this read was told to be. */
    readonly accessCount: number | null;
    /** Who asked. */
    readonly executionId: number;
    readonly rootExecutionId: number;
    readonly catalogId: number;
  }[] = [];
  /** Reads that were asked for, by cache key, answered or not. */
  readonly asked = new Map<string, number>();
  /** Entries a client put in and was told so, by name; each name is used once. */
  readonly kept = new Map<
    string,
    {
      readonly cacheKey: string;
      readonly scope: string;
      readonly secret: string;
      readonly executionId: number;
      readonly rootExecutionId: number;
      readonly catalogId: number;
      readonly isSure: boolean;
    }
  >();
  /** States of a batch as one reader saw them, in order. */
  readonly seen: { readonly requestId: number; readonly states: readonly string[] }[] = [];
}
