/**
 * A dry run of a playbook (api 2.2.16): the engine of production over memory, commands run by the worker's own code, tools
 * answered by a script, and time that jumps. Its log is what a server would have written for the same outcomes.
 *
 * One loop drives it: let everybody come to rest, hand out what can be claimed, and when there is nothing, jump to the
 * next moment somebody waits for. It ends with the execution, or at a limit; then what still runs is let go.
 */
import { createHash } from 'node:crypto';
import { createEngine, type RunningEngine } from '../../actors/engine.ts';
import { createMemoryExchange } from '../../actors/memory/memory-bus.ts';
import { createMemoryStore, type MemoryStore } from '../../actors/memory/memory-store.ts';
import { createSeededIds } from '../../actors/memory/seeded-ids.ts';
import type { EventRow, ExecutionRow, Flush, Log, Meter } from '../../actors/ports.ts';
import { createResultService, type WrittenJson } from '../../actors/result-service.ts';
import type { GrantedCommand } from '../../actors/services.ts';
import type { Json } from '../../machines/json.ts';
import type { Diagnostic, Playbook } from '../../machines/playbook/document.ts';
import type { SimulationRequest } from '../../machines/simulation.ts';
import { CachingTemplates } from '../worker/template-cache.ts';
import { createChance } from './chance.ts';
import { CommandRunner } from './command-runner.ts';
import { Script, type TryRecord } from './script.ts';
import { ENGINE_SETTINGS, WORKER_SETTINGS } from './settings.ts';
import { type Library, readSimulated, SimulatedCatalog } from './simulated-catalog.ts';
import { SimulatedWorkers } from './simulated-workers.ts';
import { withResults } from './stored-results.ts';
import { Timeline } from './timeline.ts';

export interface Simulation {
  /** `LIMIT`: it was stopped before it ended, and `limit` says by what. */
  readonly status: ExecutionRow['status'] | 'LIMIT';
  readonly limit: 'events' | 'virtual_time' | 'wall_time' | 'stuck' | null;
  readonly row: ExecutionRow;
  readonly playbook: Playbook;
  readonly warnings: readonly Diagnostic[];
  readonly events: readonly EventRow[];
  /** Executions that this one started, and theirs. */
  readonly children: readonly { readonly row: ExecutionRow; readonly events: readonly EventRow[] }[];
  /** In the order in which they were made. */
  readonly tries: readonly TryRecord[];
  /** Places of the outcomes no try has used. */
  readonly unused: readonly number[];
  readonly virtualMs: number;
  readonly wallMs: number;
  /** Everything that was stored, for checkers. */
  readonly store: MemoryStore;
}

export interface SimulationOptions {
  /** Milliseconds of real time after which it is stopped with LIMIT; for ever when absent. */
  readonly wallMs?: number;
}

/** Throws DomainError (playbook_invalid, kind_not_executable) for the document; whatever it does is an answer. */
export async function simulate(
  request: SimulationRequest,
  library: Library,
  options: SimulationOptions = {},
): Promise<Simulation> {
  const catalog = new SimulatedCatalog(readSimulated(request.document), request.children, library);
  return new Simulator(request, catalog, options).run();
}

class Simulator {
  readonly #request: SimulationRequest;
  readonly #catalog: SimulatedCatalog;
  readonly #timeline: Timeline;
  readonly #store: MemoryStore;
  readonly #engine: RunningEngine;
  readonly #workers: SimulatedWorkers;
  readonly #script: Script;
  readonly #runner: CommandRunner;
  /** Commands that nobody works on until a moment: retries and children that may come too late. */
  readonly #parked = new Map<number, number>();
  readonly #startedAt = performance.now();
  readonly #wallMs: number;
  #events = 0;
  #rootId: number | null = null;
  #isEnded = false;
  #limit: Simulation['limit'] = null;

  constructor(request: SimulationRequest, catalog: SimulatedCatalog, options: SimulationOptions) {
    this.#request = request;
    this.#catalog = catalog;
    this.#wallMs = options.wallMs ?? Number.POSITIVE_INFINITY;
    const timeline = new Timeline(Date.parse(request.startTime), createChance(request.seed));
    this.#timeline = timeline;
    const memory = createMemoryStore(timeline, { afterCommit: (flush) => this.#onCommit(flush) });
    const { store, results } = withResults(memory, timeline);
    this.#store = store;
    this.#workers = new SimulatedWorkers(timeline);
    const ids = createSeededIds();
    this.#engine = createEngine(
      {
        store,
        ids,
        clock: timeline,
        bus: createMemoryExchange().connect(),
        log: SILENT,
        meter: UNMEASURED,
        catalog: catalog.service((question) => timeline.outside(question)),
        workers: this.#workers.service(),
        sha256,
      },
      ENGINE_SETTINGS,
    );
    const templates = new CachingTemplates(ENGINE_SETTINGS.limits.template);
    this.#script = new Script(request, templates);
    this.#runner = new CommandRunner({
      engine: this.#engine,
      store,
      results: createResultService({ store: results, ids, clock: timeline, write: writeNow, part: asksForWholes }),
      timeline,
      workers: this.#workers,
      script: this.#script,
      templates,
      scriptedResult: (catalogId) => catalog.scriptedResult(catalogId),
      settings: WORKER_SETTINGS,
    });
  }

  async run(): Promise<Simulation> {
    const { cancelAtMs, workload } = this.#request;
    const { entry, playbook, warnings } = this.#catalog.root;
    const { executionId } = await this.#engine.executions.start({ catalogId: entry.catalogId, workload });
    this.#rootId = executionId;
    if (cancelAtMs !== null) this.#timeline.after(cancelAtMs, () => this.#cancel(executionId));
    this.#look();
    await this.#drive();
    this.#timeline.leave();
    await this.#runner.stop();
    await this.#engine.stop();
    const rows = this.#store.executions();
    const row = rows.find((each) => each.executionId === executionId);
    if (row === undefined) throw new Error('the simulated execution is gone');
    return {
      status: row.status === 'running' ? 'LIMIT' : row.status,
      limit: row.status === 'running' ? (this.#limit ?? 'stuck') : null,
      row,
      playbook,
      warnings,
      events: this.#store.log(executionId),
      children: rows
        .filter((each) => each.executionId !== executionId)
        .map((each) => ({ row: each, events: this.#store.log(each.executionId) })),
      tries: this.#script.tries,
      unused: this.#script.unused(),
      virtualMs: this.#timeline.elapsedMs,
      wallMs: performance.now() - this.#startedAt,
      store: this.#store,
    };
  }

  async #drive(): Promise<void> {
    const { maxVirtualSeconds } = this.#request.limits;
    const until = this.#timeline.startedAt + maxVirtualSeconds * 1000;
    for (;;) {
      await this.#timeline.settle(() => this.#isOver());
      if (this.#isOver()) return;
      if (await this.#claimAll()) continue;
      const nextAt = this.#timeline.nextAt();
      const wakeAt = this.#nextWakeAt();
      const at = Math.min(nextAt ?? Number.POSITIVE_INFINITY, wakeAt ?? Number.POSITIVE_INFINITY);
      if (at > until) {
        this.#limit = Number.isFinite(at) ? 'virtual_time' : 'stuck';
        return;
      }
      if (wakeAt === at) await this.#wake(at);
      else this.#timeline.step();
    }
  }

  /** Hands every command that waits to a worker of its own. False: there was none. */
  async #claimAll(): Promise<boolean> {
    let granted = 0;
    while (this.#engine.board.size > 0 && !this.#isOver()) {
      const workerId = this.#workers.hire();
      const command = await this.#claim(workerId);
      if (command === null) {
        this.#workers.release(workerId);
        break;
      }
      granted += 1;
      this.#runner.begin(command, workerId);
    }
    return granted > 0;
  }

  async #claim(workerId: string): Promise<GrantedCommand | null> {
    const { commands } = await this.#engine.commands.claimMany({
      workerId,
      max: 1,
      waitMs: 0,
      pools: null,
      toolKinds: null,
      claimId: null,
      signal: NEVER,
    });
    return commands[0] ?? null;
  }

  /** What reconciliation does: parked commands whose moment has come. One that has nothing to do is not asked again. */
  async #wake(at: number): Promise<void> {
    this.#timeline.jump(Math.max(at, this.#timeline.now()));
    for (const [commandId, wakeAt] of this.#parked) if (wakeAt <= at) this.#parked.delete(commandId);
    await this.#engine.recovery.settleParked();
    this.#timeline.stir();
  }

  #nextWakeAt(): number | null {
    let next: number | null = null;
    for (const at of this.#parked.values()) next = next === null ? at : Math.min(next, at);
    return next;
  }

  #cancel(executionId: number): void {
    const options = { reason: 'Cancelled by the simulation', cascade: true, by: 'api' } as const;
    this.#engine.executions.cancel(executionId, options).finally(() => this.#timeline.stir());
  }

  #onCommit(flush: Flush): void {
    this.#timeline.stir();
    this.#events += flush.events.length;
    for (const { commandId, parkedOn, nextWakeAt, status } of flush.commands) {
      if (parkedOn !== null && nextWakeAt !== null) this.#parked.set(commandId, Date.parse(nextWakeAt));
      else this.#parked.delete(commandId);
      if (status === 'CANCELLED') this.#runner.cancel(commandId);
    }
    this.#look();
  }

  #look(): void {
    if (this.#rootId === null) return;
    const root = this.#store.executions().find((row) => row.executionId === this.#rootId);
    this.#isEnded = root !== undefined && root.status !== 'running';
  }

  #isOver(): boolean {
    if (this.#isEnded) return true;
    if (this.#events > this.#request.limits.maxEvents) this.#limit = 'events';
    else if (performance.now() - this.#startedAt > this.#wallMs) this.#limit = 'wall_time';
    return this.#limit !== null;
  }
}

const NEVER = new AbortController().signal;
const SILENT: Log = { debug() {}, info() {}, warn() {}, error() {} };
const UNMEASURED: Meter = { count() {}, observe() {}, gauge() {} };

async function writeNow(value: Json): Promise<WrittenJson> {
  const json = JSON.stringify(value);
  return { data: new TextEncoder().encode(json), sha256: sha256(json), head: json };
}

/** Workers fetch payloads whole; parts are for readers of the API. */
function asksForWholes(): Promise<never> {
  return Promise.reject(new Error('no part of a stored result is asked for in a simulation'));
}

function sha256(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex');
}
