/**
 * Live executions of this process: brought back from the store when they are asked for, kept while there is room, evicted
 * when memory and log may differ. Also keeps payloads that turns asked for.
 */

import type { LogEvent } from '../machines/events.ts';
import { compilePlan, type Plan } from '../machines/execution/plan.ts';
import type { Json } from '../machines/json.ts';
import type { Playbook } from '../machines/playbook/document.ts';
import type { Engine, ExecutionActor } from './execution-actor.ts';
import { hydrate } from './hydrate.ts';
import type { Meter, Store } from './ports.ts';
import { Recent } from './recent.ts';

export interface SupervisorParts {
  readonly store: Store;
  readonly meter: Meter;
  /** The parsed playbook of a catalog entry. */
  playbook(catalogId: number): Promise<Playbook>;
  readonly actorsMax: number;
  readonly payloadBytesMax: number;
  /** Events found in a log that no turn has handled. */
  onInbox(executionId: number, events: readonly LogEvent[]): void;
}

export class Supervisor {
  readonly #parts: SupervisorParts;
  readonly #actors = new Map<number, ExecutionActor>();
  readonly #plans = new Map<number, Plan>();
  readonly #payloads: Recent<string, Json>;
  #engine: Engine | null = null;

  constructor(parts: SupervisorParts) {
    this.#parts = parts;
    this.#payloads = new Recent({ countMax: 10_000, sizeMax: parts.payloadBytesMax });
  }

  /** The engine needs the payloads kept here, so it comes second. */
  attach(engine: Omit<Engine, 'payload'>): Engine {
    this.#engine = { ...engine, payload: (ref) => this.#payloads.get(ref) };
    return this.#engine;
  }

  live(executionId: number): ExecutionActor | null {
    return this.#actors.get(executionId) ?? null;
  }

  keep(actor: ExecutionActor): void {
    // Re-inserting moves it to the young end.
    this.#actors.delete(actor.executionId);
    this.#actors.set(actor.executionId, actor);
    for (const [executionId, oldest] of this.#actors) {
      if (this.#actors.size <= this.#parts.actorsMax) return;
      if (oldest.writing === null) this.#actors.delete(executionId);
      else return;
    }
  }

  evict(executionId: number): void {
    this.#actors.delete(executionId);
  }

  async plan(catalogId: number): Promise<Plan> {
    const known = this.#plans.get(catalogId);
    if (known !== undefined) return known;
    const plan = compilePlan(await this.#parts.playbook(catalogId));
    if (this.#plans.size >= 1000)
      for (const oldest of this.#plans.keys()) return this.#replacePlan(oldest, catalogId, plan);
    this.#plans.set(catalogId, plan);
    return plan;
  }

  /** Makes sure that all of these that exist are live. */
  async hydrateAll(executionIds: readonly number[]): Promise<void> {
    const cold = [...new Set(executionIds)].filter((executionId) => !this.#actors.has(executionId));
    if (cold.length === 0) return;
    const { store, meter, onInbox } = this.#parts;
    const engine = this.#engine;
    if (engine === null) throw new Error('the supervisor was asked before it was attached');
    const stored = await store.load(cold);
    for (const execution of stored.values()) {
      const plan = await this.plan(execution.row.catalogId);
      const { actor, inbox } = await hydrate(execution, plan, store, engine);
      // Somebody else brought it back meanwhile, and may have gone on with it.
      if (this.#actors.has(actor.executionId)) continue;
      meter.count('svc_hydrations_total', { from: execution.snapshot === null ? 'replay' : 'snapshot' });
      this.keep(actor);
      if (inbox.length > 0) onInbox(actor.executionId, inbox);
    }
  }

  async actor(executionId: number): Promise<ExecutionActor | null> {
    await this.hydrateAll([executionId]);
    return this.live(executionId);
  }

  async fetchPayloads(refs: readonly string[]): Promise<void> {
    for (const ref of new Set(refs)) {
      const payload = await this.#parts.store.payload(ref);
      if (payload === undefined) throw new Error(`a stored result is missing: ${ref}`);
      this.#payloads.put(ref, payload, JSON.stringify(payload).length);
    }
  }

  get size(): number {
    return this.#actors.size;
  }

  #replacePlan(oldest: number, catalogId: number, plan: Plan): Plan {
    this.#plans.delete(oldest);
    this.#plans.set(catalogId, plan);
    return plan;
  }
}
