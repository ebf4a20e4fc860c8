/**
 * Live executions of this process: brought back from the store when they are asked for, kept while there is room, evicted
 * when memory and log may differ. Also keeps payloads that turns asked for.
 */

import { compilePlan, type Plan } from '../machines/execution/plan.ts';
import type { Json } from '../machines/json.ts';
import type { Playbook } from '../machines/playbook/document.ts';
import { readReference } from '../machines/playbook/reference.ts';
import { MissingPayload } from '../machines/playbook/values.ts';
import { type Engine, type ExecutionActor, isWritten } from './execution-actor.ts';
import { hydrate } from './hydrate.ts';
import type { Meter, Seen, Store } from './ports.ts';
import { Recent } from './recent.ts';
import { Turnstile } from './turnstile.ts';

export interface SupervisorParts {
  readonly store: Store;
  readonly meter: Meter;
  /** The parsed playbook of a catalog entry. */
  playbook(catalogId: number): Promise<Playbook>;
  readonly actorsMax: number;
  readonly payloadBytesMax: number;
}

export class Supervisor {
  readonly #parts: SupervisorParts;
  readonly #actors = new Map<number, ExecutionActor>();
  readonly #plans = new Map<number, Plan>();
  readonly #payloads: Recent<string, Json>;
  /** References that lead nowhere, so that a turn that needs one fails instead of asking for ever. */
  readonly #missing = new Recent<string, true>({ countMax: 10_000, sizeMax: 10_000 });
  /** For what is compared with the log before it is written: one at a time for each command or message. */
  readonly asking = new Turnstile();
  #engine: Engine | null = null;

  constructor(parts: SupervisorParts) {
    this.#parts = parts;
    this.#payloads = new Recent({ countMax: 10_000, sizeMax: parts.payloadBytesMax });
  }

  /** Another process has gone on with the execution: what is live here is thrown away. */
  refresh(executionId: number, latestEventId: number): void {
    const live = this.#actors.get(executionId);
    if (live !== undefined && latestEventId > live.row.lastEventId) this.evict(executionId);
  }

  /** The engine needs the payloads kept here, so it comes second. */
  attach(engine: Omit<Engine, 'payload'>): Engine {
    this.#engine = { ...engine, payload: (ref) => this.#payload(ref) };
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
      // A job that was refused leaves an empty writing behind; only what a flush is about to write has to stay.
      if (oldest.writing === null || !isWritten(oldest.writing)) this.#actors.delete(executionId);
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

  /** Those of these that exist, live. Room is short: while the caller works with them, others may evict them. */
  async hydrateAll(executionIds: readonly number[]): Promise<ReadonlyMap<number, ExecutionActor>> {
    const found = new Map<number, ExecutionActor>();
    const cold = new Set<number>();
    for (const executionId of executionIds) {
      const actor = this.#actors.get(executionId);
      if (actor === undefined) cold.add(executionId);
      else found.set(executionId, actor);
    }
    if (found.size > 0) this.#parts.meter.count('svc_hydrations_total', { from: 'memory' }, found.size);
    if (cold.size === 0) return found;
    const { store, meter } = this.#parts;
    const engine = this.#engine;
    if (engine === null) throw new Error('the supervisor was asked before it was attached');
    const stored = await store.load([...cold]);
    for (const execution of stored.values()) {
      const plan = await this.plan(execution.row.catalogId);
      const actor = await hydrate(execution, plan, store, engine);
      // Somebody else brought it back meanwhile, and may have gone on with it.
      const other = this.#actors.get(actor.executionId);
      found.set(actor.executionId, other ?? actor);
      if (other !== undefined) continue;
      meter.count('svc_hydrations_total', { from: execution.snapshot === null ? 'replay' : 'snapshot' });
      this.keep(actor);
    }
    return found;
  }

  async actor(executionId: number): Promise<ExecutionActor | null> {
    return (await this.hydrateAll([executionId])).get(executionId) ?? null;
  }

  /** For what is read and writes nothing: as far as this row at least, whoever has gone on with the execution. */
  actorOf({ executionId, lastEventId }: Seen): Promise<ExecutionActor | null> {
    this.refresh(executionId, lastEventId);
    return this.actor(executionId);
  }

  /** Those that are gone are remembered as such. False: they do not fit into memory together. */
  async fetchPayloads(refs: readonly string[]): Promise<boolean> {
    const wanted = new Set(refs);
    for (const ref of wanted) {
      const payload = this.#unwritten(ref) ?? (await this.#parts.store.payload(ref));
      if (payload === undefined) this.#missing.put(ref, true, 1);
      else this.#payloads.put(ref, payload, JSON.stringify(payload).length);
    }
    return [...wanted].every((ref) => this.#missing.get(ref) === true || this.#payloads.get(ref) !== undefined);
  }

  /** Whoever reads a live run sees also what its turn has stored and no flush has written yet: that is not gone. */
  #unwritten(ref: string): Json | undefined {
    const from = readReference(ref);
    return from === null ? undefined : this.#actors.get(from.executionId)?.writing?.stored.get(ref);
  }

  /** Undefined: not fetched yet. Throws MissingPayload where there is nothing to fetch. */
  #payload(ref: string): Json | undefined {
    const payload = this.#payloads.get(ref);
    if (payload === undefined && this.#missing.get(ref) === true) throw new MissingPayload(ref);
    return payload;
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
