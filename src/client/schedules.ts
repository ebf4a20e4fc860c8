/** Schedules (api 2.17) as a typed client. */
import * as v from 'valibot';
import type { JsonMap } from '../../machines/json.ts';
import { schedule } from '../wire/schedule.ts';
import { TransportError } from './errors.ts';
import { Transport, type TransportOptions } from './transport.ts';

export type ListedSchedule = v.InferOutput<typeof schedule>;

export interface SchedulePlan {
  readonly name: string;
  readonly path: string;
  readonly cron?: string;
  readonly interval_seconds?: number;
  readonly at?: string;
  readonly timezone?: string;
  readonly workload: JsonMap;
  readonly overlap?: string;
  readonly catch_up?: string;
}

const list = v.object({ items: v.array(schedule) });
const started = v.object({ execution_id: v.number() });
const removed = v.object({ schedule_id: v.number(), name: v.string() });

/** Every call throws ApiError for a refusal, and TransportError when there is no answer or one that nobody sends. */
export class ScheduleClient {
  readonly #transport: Transport;

  constructor(options: TransportOptions) {
    this.#transport = new Transport(options);
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  /** By name. */
  async list(): Promise<readonly ListedSchedule[]> {
    return (await this.#ask(list, 'GET', '/api/schedules')).items;
  }

  create(plan: SchedulePlan): Promise<ListedSchedule> {
    return this.#ask(schedule, 'POST', '/api/schedules', plan);
  }

  change(scheduleId: number, change: { readonly enabled: boolean }): Promise<ListedSchedule> {
    return this.#ask(schedule, 'PUT', `/api/schedules/${scheduleId}`, change);
  }

  remove(scheduleId: number): Promise<v.InferOutput<typeof removed>> {
    return this.#ask(removed, 'DELETE', `/api/schedules/${scheduleId}`);
  }

  /** Starts it now; the id of the execution. */
  async trigger(scheduleId: number): Promise<number> {
    return (await this.#ask(started, 'POST', `/api/schedules/${scheduleId}/trigger`, {})).execution_id;
  }

  async #ask<S extends v.GenericSchema>(
    schema: S,
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: unknown,
  ): Promise<v.InferOutput<S>> {
    const sent = await this.#transport.send({ method, path, ...(body === undefined ? {} : { body }) });
    const answer = v.safeParse(schema, sent);
    if (answer.success) return answer.output;
    throw new TransportError(`the answer of ${method} ${path} is not what the service sends`);
  }
}
