/**
 * The workers of a simulation: as many as there is work, each with one command, so that losing one loses nothing else.
 * A lost worker is silent until it counts as offline; then its command is anybody's.
 */

import type { Clock } from '../../actors/ports.ts';
import type { Holder, WorkerRow, WorkerService } from '../../actors/services.ts';
import { isoOf } from '../../machines/command/instant.ts';

/** Silence after which a worker with the default heartbeat is offline, in seconds. */
export const OFFLINE_AFTER_SECONDS = 10;

export class SimulatedWorkers {
  readonly #clock: Clock;
  readonly #rows = new Map<string, WorkerRow>();
  readonly #free: string[] = [];
  readonly #lost = new Set<string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The name of a worker with nothing to do. */
  hire(): string {
    return this.#free.shift() ?? this.#register();
  }

  release(name: string): void {
    if (!this.#lost.has(name)) this.#free.unshift(name);
  }

  /** It says nothing more; `retire` follows when that has been noticed. */
  lose(name: string): void {
    this.#lost.add(name);
    this.#change(name, { heartbeatAt: isoOf(this.#clock.now()) });
  }

  retire(name: string): void {
    this.#change(name, { status: 'offline' });
  }

  service(): WorkerService {
    const refuse = (): never => {
      throw new Error('the workers of a simulation are its own');
    };
    const find = async (name: string) => this.#rows.get(name) ?? null;
    return {
      register: refuse,
      deregister: refuse,
      list: refuse,
      heartbeat: refuse,
      find,
      look: find,
      holder: async (name) => this.#holder(name),
      seen: () => {},
      polling: () => ({ close() {} }),
    };
  }

  #holder(name: string): Holder | null {
    const row = this.#rows.get(name);
    if (row === undefined) return null;
    const { status, offlineAfterSeconds } = row;
    const heartbeatAt = this.#lost.has(name) ? Date.parse(row.heartbeatAt) : this.#clock.now();
    return { name, status, registeredAt: Date.parse(row.registeredAt), heartbeatAt, offlineAfterSeconds };
  }

  #change(name: string, to: Partial<WorkerRow>): void {
    const row = this.#rows.get(name);
    if (row !== undefined) this.#rows.set(name, { ...row, ...to });
  }

  #register(): string {
    const number = this.#rows.size + 1;
    const name = `simulator-${number}`;
    const now = isoOf(this.#clock.now());
    this.#rows.set(name, {
      name,
      kind: 'worker_pool',
      runtime: null,
      uri: null,
      status: 'ready',
      capacity: 1,
      pools: ['shared'],
      toolKinds: [],
      labels: {},
      instance: null,
      heartbeatSeconds: 3,
      offlineAfterSeconds: OFFLINE_AFTER_SECONDS,
      pid: null,
      hostname: null,
      meta: {},
      version: null,
      runtimeId: number,
      registeredAt: now,
      heartbeatAt: now,
      openCommands: 0,
      createdAt: now,
      updatedAt: now,
    });
    return name;
  }
}
