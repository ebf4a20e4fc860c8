/** Schedules (api 2.17) as a typed client. */
import * as v from 'valibot';
import type { JsonMap } from '../../machines/json.ts';
import { schedule } from '../wire/schedule.ts';
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
    return (await this.#transport.ask(list, { method: 'GET', path: '/api/schedules' })).items;
  }

  create(plan: SchedulePlan): Promise<ListedSchedule> {
    return this.#transport.ask(schedule, { method: 'POST', path: '/api/schedules', body: plan });
  }

  change(scheduleId: number, change: { readonly enabled: boolean }): Promise<ListedSchedule> {
    return this.#transport.ask(schedule, { method: 'PUT', path: `/api/schedules/${scheduleId}`, body: change });
  }

  remove(scheduleId: number): Promise<v.InferOutput<typeof removed>> {
    return this.#transport.ask(removed, { method: 'DELETE', path: `/api/schedules/${scheduleId}` });
  }

  /** Starts it now; the id of the execution. */
  async trigger(scheduleId: number): Promise<number> {
    return (
      await this.#transport.ask(started, { method: 'POST', path: `/api/schedules/${scheduleId}/trigger`, body: {} })
    ).execution_id;
  }
}
