/** Batches over the world of the actors: a queue in memory, and what a worker would send. */
import { createHash } from 'node:crypto';
import { type Batches, type BatchSettings, createBatches } from '../../actors/batches.ts';
import { createMemoryJobs, type MemoryJobs } from '../../actors/memory/memory-jobs.ts';
import type { BatchRow, CommandRow } from '../../actors/ports.ts';
import type { BatchRequest, GrantedCommand } from '../../actors/services.ts';
import { canonicalJson } from '../../machines/canonical-json.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import { World } from '../support/world.ts';

export const BATCH_SETTINGS: BatchSettings = {
  enqueueTimeoutSeconds: 5,
  queueMax: 1_024,
  workers: 1,
  processingTimeoutSeconds: 15,
  pollSeconds: 0.05,
};

type Item = BatchRequest['events'][number];

export class BatchWorld extends World {
  readonly seen: string[] = [];
  readonly observed = new Map<string, number[]>();
  jobs: MemoryJobs = createMemoryJobs(this.store);
  batches: Batches = this.serve();

  /** A server's batches over this store, not started. */
  serve(settings: Partial<BatchSettings> = {}, holder = 'srv-1'): Batches {
    return createBatches(
      {
        store: this.store,
        batches: this.store.batches,
        jobs: this.jobs,
        flusher: this.server.flusher,
        ids: this.ids,
        clock: this.clock,
        bus: this.exchange.connect(),
        log: {
          debug() {},
          info() {},
          warn: (message) => this.said.push(message),
          error: (message) => this.said.push(message),
        },
        meter: {
          count: (name, _labels, by = 1) => this.counts.set(name, (this.counts.get(name) ?? 0) + by),
          observe: (name, value) => this.observed.set(name, [...(this.observed.get(name) ?? []), value]),
          gauge: () => {},
        },
        holder,
        seen: (name) => this.seen.push(name),
      },
      { ...BATCH_SETTINGS, ...settings },
    );
  }

  readonly said: string[] = [];

  /** The process dies with its queue connection; jobs that waited are in the store's queue, jobs under way come again. */
  restart(settings: Partial<BatchSettings> = {}): Batches {
    const waiting = [...this.jobs.waiting];
    this.crash();
    this.jobs = createMemoryJobs(this.store);
    void this.jobs.enqueue(waiting);
    this.batches = this.serve(settings, 'srv-2');
    return this.batches;
  }

  request(executionId: number, events: readonly Item[], key: string | null = null): BatchRequest {
    const bodyHash = createHash('sha256')
      .update(canonicalJson({ executionId, events: events as unknown as Json }))
      .digest('hex');
    return { executionId, events, workerId: null, idempotencyKey: key, bodyHash };
  }

  /** The state of a batch when it has ended. */
  ended(requestId: number): Promise<BatchRow> {
    return new Promise((resolve, reject) => {
      const unfollow = this.batches.follow(requestId, (row) => {
        if (row === 'error') return;
        if (row === 'unknown') reject(new Error(`no batch ${requestId}`));
        else if (row.state === 'completed' || row.state === 'failed') {
          unfollow();
          resolve(row);
        }
      });
    });
  }

  async accepted(executionId: number, events: readonly Item[], key: string | null = null): Promise<BatchRow> {
    const { requestId } = await this.batches.accept(this.request(executionId, events, key));
    return this.ended(requestId);
  }

  markers(executionId: number): readonly string[] {
    return this.store
      .log(executionId)
      .map((event) => event.type)
      .filter((type) => type.startsWith('batch.'));
  }
}

export function item(type: string, change: Partial<Item> = {}): Item {
  return {
    ...{ type, step: null, payload: {}, meta: {}, workerId: null, status: null, reportId: null },
    ...{ commandId: null, attempt: null, actionable: false, producerTime: null },
    ...change,
  };
}

export function note(n: number): Item {
  return item('report.note', { step: 'a', payload: { n } });
}

/** What a worker sends of a command that went well. */
export function done(command: GrantedCommand | CommandRow, data: JsonMap = {}): readonly Item[] {
  const { commandId, attempt } = 'row' in command ? command.row : command;
  const of = { commandId, attempt };
  return [
    item('command.started', of),
    item('call.done', { ...of, payload: { result: data } }),
    item('step.exit', of),
    item('command.completed', of),
  ];
}
