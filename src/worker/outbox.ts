/**
 * Reports the server has not acknowledged yet. A report keeps its id from the first to the last time it is sent, so
 * sending it again is always right; it leaves only by an answer that names it.
 */
import type { ReportAnswer, ReportBody } from '../wire/exchange.ts';

interface Entry {
  report: ReportBody;
  bytes: number;
  /** Not to be sent before this moment (monotonic milliseconds). */
  notBefore: number;
  deferrals: number;
  /** It already stands in for a report that was refused. */
  readonly substitute: boolean;
}

/** Limits of one exchange (api 1.9), well below the largest body a server takes. */
const REPORTS_MAX = 256;
const BYTES_MAX = 4 * 1024 * 1024;
const DEFERRED_MS = 100;
const DEFERRED_MAX_MS = 5_000;

export class Outbox {
  readonly #entries = new Map<string, Entry>();

  get size(): number {
    return this.#entries.size;
  }

  has(reportId: string): boolean {
    return this.#entries.has(reportId);
  }

  add(report: ReportBody, substitute = false): void {
    const bytes = Buffer.byteLength(JSON.stringify(report));
    this.#entries.set(report.report_id, { report, bytes, notBefore: 0, deferrals: 0, substitute });
  }

  /** Forgets a report that something newer makes pointless. */
  withdraw(reportId: string): void {
    this.#entries.delete(reportId);
  }

  /** What the next exchange should carry, oldest first; at least one report if any is due. */
  due(now: number, max: number = REPORTS_MAX): ReportBody[] {
    const batch: ReportBody[] = [];
    let bytes = 0;
    for (const entry of this.#entries.values()) {
      if (entry.notBefore > now) continue;
      bytes += entry.bytes;
      if (batch.length > 0 && (batch.length >= Math.min(max, REPORTS_MAX) || bytes > BYTES_MAX)) break;
      batch.push(entry.report);
    }
    return batch;
  }

  /** When the next report is due; infinity without any. */
  dueAt(): number {
    let earliest = Number.POSITIVE_INFINITY;
    for (const { notBefore } of this.#entries.values()) earliest = Math.min(earliest, notBefore);
    return earliest;
  }

  /** Applies the server's verdict. True: the report was refused and something else must take its place. */
  settle(answer: ReportAnswer, now: number): 'settled' | 'deferred' | 'refused' {
    const entry = answer.report_id === null ? undefined : this.#entries.get(answer.report_id);
    if (entry === undefined) return 'settled';
    if (answer.result === 'deferred') {
      entry.deferrals += 1;
      entry.notBefore = now + Math.min(DEFERRED_MAX_MS, DEFERRED_MS * 2 ** (entry.deferrals - 1));
      return 'deferred';
    }
    this.#entries.delete(entry.report.report_id);
    return answer.result === 'invalid' && !entry.substitute ? 'refused' : 'settled';
  }

  /** Takes a report out that the server refused as a whole. True: it may be replaced once. */
  refuse(reportId: string): boolean {
    const entry = this.#entries.get(reportId);
    this.#entries.delete(reportId);
    return entry !== undefined && !entry.substitute;
  }
}
