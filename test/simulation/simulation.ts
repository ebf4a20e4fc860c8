/**
 * One seed, run: servers, workers and clients over one database, first with everything that goes wrong, then healed. In
 * the first phase the invariants must hold, in the second everything must also come to an end, in bounded time.
 */
import type { Log, Meter } from '../../actors/ports.ts';
import type { CatalogEntry, CatalogService } from '../../actors/services.ts';
import { TERMINAL_TYPES } from '../../machines/events.ts';
import type { Playbook } from '../../machines/playbook/document.ts';
import { Chance } from '../support/arbitraries.ts';
import { playbookOf } from '../support/playbooks.ts';
import { Clients } from './clients.ts';
import { createSimulatedDatabase, type Database } from './database.ts';
import { FaultBook } from './faults.ts';
import { describeCommand, type Invariant, invariantsOf, Violation } from './invariants.ts';
import { EPOCH, Kernel, type Life } from './kernel.ts';
import { Ledger } from './ledger.ts';
import { type Address, Network } from './network.ts';
import type { Happening, Plan } from './plan.ts';
import { Queue } from './queue.ts';
import { createServer, type Server } from './server.ts';
import { inVirtualTime } from './virtual-time.ts';
import { SimulatedWorker } from './worker.ts';

export interface Outcome {
  readonly plan: Plan;
  readonly failure: { readonly invariant: string; readonly message: string } | null;
  readonly hash: string;
  readonly events: number;
  readonly commits: number;
  readonly virtualMs: number;
  readonly faults: FaultBook;
  readonly trace: readonly string[];
}

interface ServerHost extends Address<Server> {
  readonly index: number;
  lives: number;
  /** Since when nothing has kept this server from its work. */
  wellSinceMs: number;
  isGone: boolean;
}

interface WorkerHost {
  readonly name: string;
  readonly index: number;
  lives: number;
  running: { readonly life: Life; readonly worker: SimulatedWorker } | null;
  isGone: boolean;
}

export function simulate(plan: Plan): Promise<Outcome> {
  const kernel = new Kernel();
  return inVirtualTime(kernel, () => new Simulation(plan, kernel).run());
}

class Simulation {
  readonly #plan: Plan;
  readonly #kernel: Kernel;
  readonly #faults = new FaultBook();
  readonly #network: Network;
  readonly #database: Database;
  readonly #queue: Queue;
  readonly #ledger = new Ledger();
  readonly #catalog: CatalogService;
  readonly #servers: readonly ServerHost[];
  readonly #workers: readonly WorkerHost[];
  readonly #clients: Clients;
  readonly #invariants: readonly Invariant[];
  readonly #lines: string[] = [];
  /** Virtual time of the last commit of each execution. */
  readonly #movedAt = new Map<number, number>();
  #commits = 0;
  #nextId = 1_001;
  #isHealed = false;

  constructor(plan: Plan, kernel: Kernel) {
    this.#plan = plan;
    this.#kernel = kernel;
    this.#network = new Network(kernel, plan, this.#faults);
    this.#database = createSimulatedDatabase({ now: () => Math.floor(EPOCH + kernel.now) });
    const luck = new Chance(plan.seed ^ 0x5ca1ab1e);
    this.#queue = new Queue(
      () => kernel.now,
      () => {
        const isLost = !this.#isHealed && luck.below(1_000) < plan.rates.jobLost;
        if (isLost) this.#faults.fire('job lost');
        return isLost;
      },
      () => this.#faults.matter('job lost'),
    );
    this.#database.store.onJobs((jobs) => this.#queue.put(jobs));
    this.#catalog = catalogOf(plan, this.#database);
    this.#servers = plan.servers.map((_, index) => ({
      ...{ name: `server-${index}`, index, serving: null, lives: 0, wellSinceMs: 0, isGone: false },
    }));
    this.#workers = plan.workers.map((_, index) => ({
      ...{ name: `worker-${index}`, index, lives: 0, running: null, isGone: false },
    }));
    const life = kernel.life('client');
    this.#clients = new Clients({
      ...{ plan, kernel, life, network: this.#network, servers: () => this.#reachable(), ledger: this.#ledger },
      ...{ database: this.#database, faults: this.#faults },
    });
    this.#invariants = invariantsOf({
      ...{ plan, database: this.#database, ledger: this.#ledger, said: this.#network.said },
      servers: () =>
        this.#servers.flatMap((host) =>
          host.serving === null
            ? []
            : [{ life: host.serving.life, sinceMs: EPOCH + host.wellSinceMs, isWell: plan.rates.questionFailed === 0 }],
        ),
      now: () => EPOCH + kernel.now,
    });
    kernel.onHeldUp = (held) =>
      this.#faults.matter(
        this.#servers.some((host) => host.serving?.life === held) ? 'server paused' : 'worker paused',
      );
    this.#database.onCommit((flush, before) => {
      this.#commits += 1;
      for (const event of flush.events) {
        kernel.say(
          `${event.executionId}.${event.eventId}<${event.causeId} ${event.type} ${event.nodeId} ${event.commandId ?? ''} ${event.workerId ?? ''}${event.stale ? ' stale' : ''}`,
        );
        this.#movedAt.set(event.executionId, kernel.now);
      }
      for (const move of flush.batches.moved) kernel.say(`batch ${move.requestId} ${move.from} > ${move.state}`);
      try {
        for (const invariant of this.#invariants) invariant.onCommit?.(flush, before);
      } catch (error) {
        kernel.fail(error);
      }
    });
  }

  async run(): Promise<Outcome> {
    const kernel = this.#kernel;
    let failure: Outcome['failure'] = null;
    // A promise nobody waits for must not fail in silence.
    const onRejection = (error: unknown): void => kernel.fail(error);
    process.on('unhandledRejection', onRejection);
    try {
      for (const host of this.#servers) this.#startServer(host);
      for (const host of this.#workers) this.#startWorker(host);
      for (const happening of this.#plan.happenings)
        kernel.after(happening.atMs, null, happening.id, () => this.#happen(happening));
      await kernel.run(this.#plan.pace.safetyMs);
      await this.#judge(false);
      await this.#liveness();
      await this.#judge(true);
      for (const [executionId, eventId] of this.#ledger.byHand)
        if (this.#database.store.log(executionId).find((event) => TERMINAL_TYPES.has(event.type))?.eventId === eventId)
          this.#faults.matter('row by hand');
    } catch (error) {
      failure = {
        invariant: error instanceof Violation ? error.invariant : 'no defect',
        message: error instanceof Error ? (error.stack ?? error.message) : String(error),
      };
    } finally {
      process.off('unhandledRejection', onRejection);
    }
    const { hash, events, now, trace } = kernel;
    return {
      plan: this.#plan,
      failure,
      hash,
      events,
      commits: this.#commits,
      virtualMs: now,
      faults: this.#faults,
      trace,
    };
  }

  // ---------------------------------------------------------------- judgement

  async #judge(isFinal: boolean): Promise<void> {
    for (const invariant of this.#invariants) await invariant.atEnd?.(isFinal);
    const defect = this.#lines.find((line) => line.startsWith('error'));
    if (defect !== undefined) throw new Violation('no defect', defect);
  }

  /** Faults are over: everything that was accepted has to end, and no step of it may wait too long. */
  async #liveness(): Promise<void> {
    const kernel = this.#kernel;
    kernel.say('healing');
    this.#isHealed = true;
    this.#network.heal();
    const [firstServer] = this.#servers;
    for (const host of this.#servers) {
      if (this.#plan.onlyCore && host !== firstServer) {
        host.isGone = true;
        this.#killServer(host);
      } else if (host.serving === null) this.#startServer(host);
      if (host.serving !== null) this.#heal(host.serving.life);
    }
    const [firstWorker] = this.#workers;
    for (const host of this.#workers) {
      if (this.#plan.onlyCore && host !== firstWorker) {
        host.isGone = true;
        this.#killWorker(host);
      } else if (host.running === null) this.#startWorker(host);
      if (host.running !== null) this.#heal(host.running.life);
    }
    // A world without workers gets one, or nothing could end.
    const extra: WorkerHost = { name: 'worker-late', index: -1, lives: 0, running: null, isGone: false };
    if (this.#workers.length === 0) this.#startWorker(extra);
    const healedAt = kernel.now;
    const limit = healedAt + LIVENESS_MS;
    let lookAt = healedAt;
    for (;;) {
      if (this.#isOver()) break;
      lookAt += 1_000;
      if (lookAt > limit)
        throw new Violation('I-10 at-least-once', `not over after ${LIVENESS_MS} ms\n${this.#openThings()}`);
      await kernel.run(lookAt, () => false);
      this.#demandProgress(healedAt);
    }
    // Whoever died holds its leases for no longer than that.
    await kernel.run(kernel.now + this.#plan.pace.leaseSeconds * 1_000 + 3_000);
    await this.#demandLeases();
  }

  #heal(life: Life): void {
    this.#kernel.wake(life);
    life.skewMs = 0;
  }

  #isOver(): boolean {
    const { store } = this.#database;
    return (
      this.#clients.isDone() &&
      store.executions().every((row) => row.status !== 'running') &&
      this.#openBatches().length === 0
    );
  }

  #openBatches(): readonly number[] {
    const { store } = this.#database;
    return store.executions().flatMap((row) => {
      const log = store.log(row.executionId);
      const ended = new Set(
        log
          .filter((event) => event.type === 'batch.completed' || event.type === 'batch.failed')
          .map((event) => event.meta['batch_request_id']),
      );
      return log
        .filter((event) => event.type === 'batch.accepted' && !ended.has(event.meta['batch_request_id'] ?? null))
        .map((event) => Number(event.meta['batch_request_id']));
    });
  }

  /** An execution that waits for nobody but us moves within the bound (I-17). */
  #demandProgress(healedAt: number): void {
    const { store } = this.#database;
    const boundMs = this.#boundMs();
    const rows = store.commands().filter((row) => row.completedAt === null);
    for (const { executionId, status } of store.executions()) {
      if (status !== 'running') continue;
      const isWaiting = rows.some(
        (row) => row.executionId === executionId && (row.parkedOn ?? 0) !== 0 && !this.#hasEnded(row.parkedOn ?? 0),
      );
      const since = Math.max(healedAt, this.#movedAt.get(executionId) ?? 0);
      if (isWaiting || this.#kernel.now - since <= boundMs) continue;
      throw new Violation(
        'I-17 bounded recovery',
        `${executionId} has not moved for ${this.#kernel.now - since} ms, bound ${boundMs}\n${this.#openThings()}`,
      );
    }
    for (const requestId of this.#openBatches()) {
      if (this.#kernel.now - healedAt > boundMs + BATCH_MS)
        throw new Violation(
          'I-16 batch life',
          `batch ${requestId} has not ended ${this.#kernel.now - healedAt} ms after healing`,
        );
    }
  }

  /** Hung holder, lease, sweep, poll and queue, one after the other, and what clocks were wrong by. */
  #boundMs(): number {
    const { settings, pace, servers, workers } = this.#plan;
    const { policy, pendingRetrySeconds } = settings;
    const seconds =
      Math.max(policy.hardTimeoutSeconds, policy.leaseSeconds) +
      pace.offlineSeconds +
      pace.staleSeconds +
      pace.leaseSeconds +
      pace.reaperSeconds +
      pendingRetrySeconds;
    const skewMs = Math.max(0, ...[...servers, ...workers].map((each) => Math.abs(each.skewMs)));
    return seconds * 1_000 + 60_000 + skewMs;
  }

  /** Addresses that are worth a try: who is gone for good is out of the list of whoever balances the load. */
  #reachable(): readonly ServerHost[] {
    return this.#servers.filter((host) => !host.isGone);
  }

  #hasEnded(executionId: number): boolean {
    const row = this.#database.store.executions().find((each) => each.executionId === executionId);
    return row !== undefined && row.status !== 'running';
  }

  async #demandLeases(): Promise<void> {
    const lives = new Set(this.#servers.flatMap((host) => (host.serving === null ? [] : [host.serving.server.holder])));
    for (const { name, holder } of await this.#database.leases.list())
      if (!lives.has(holder)) throw new Violation('I-11 one sweeper', `${name} is held by ${holder}, which is dead`);
  }

  #openThings(): string {
    const { store } = this.#database;
    const running = store.executions().filter((row) => row.status === 'running');
    const open = store.commands().filter((row) => row.completedAt === null);
    return [
      `clients done: ${this.#clients.isDone()} ${this.#clients.describe()}`,
      ...running.map(
        (row) =>
          `${row.executionId} ${row.path}: handled ${row.handledThrough} of ${row.lastEventId}, last ${row.lastEventType}`,
      ),
      ...open.map(describeCommand),
      ...this.#openBatches().map((id) => `batch ${id}`),
      ...this.#lines.slice(-8),
    ].join('\n');
  }

  // ---------------------------------------------------------------- what happens

  #happen(happening: Happening): void {
    const kernel = this.#kernel;
    const { kind } = happening;
    kernel.say(`${happening.id} ${kind}`);
    if (kind === 'killServer' || kind === 'stopServer' || kind === 'pauseServer' || kind === 'cutDatabase') {
      const host = this.#servers[happening.who];
      if (host?.serving !== null && host !== undefined) this.#troubleServer(host, happening);
    } else if (kind === 'killWorker' || kind === 'drainWorker' || kind === 'pauseWorker' || kind === 'cutWorker') {
      const host = this.#workers[happening.who];
      if (host?.running !== null && host !== undefined) this.#troubleWorker(host, happening);
    } else this.#clients.act(happening);
  }

  #troubleServer(host: ServerHost, happening: Happening): void {
    const kernel = this.#kernel;
    const { serving } = host;
    if (serving === null) return;
    if (happening.kind === 'pauseServer') {
      this.#faults.fire('server paused');
      serving.life.pausedUntil = kernel.now + happening.ms;
      host.wellSinceMs = Math.max(host.wellSinceMs, kernel.now + happening.ms);
    } else if (happening.kind === 'cutDatabase') {
      this.#network.cut(host.name, happening.ms);
      host.wellSinceMs = Math.max(host.wellSinceMs, kernel.now + happening.ms);
    } else if (happening.kind === 'killServer') {
      this.#faults.fire('server killed', this.#network.openOf(serving.life) > 0);
      this.#killServer(host);
      kernel.after(happening.downMs, null, `${host.name} comes back`, () => this.#startServer(host));
    } else if (happening.kind === 'stopServer') {
      this.#faults.fire('server stopped in order', this.#network.openOf(serving.life) > 0);
      const end = () => {
        if (host.serving !== serving) return;
        this.#killServer(host);
        kernel.after(happening.downMs, null, `${host.name} comes back`, () => this.#startServer(host));
      };
      // Orchestrators wait so long and no longer.
      kernel.after(10_000, null, `${host.name} is killed after all`, end);
      kernel.after(0, serving.life, `${host.name} stops`, () => {
        serving.server.stop().then(end, (error: unknown) => kernel.fail(error));
      });
    }
  }

  #troubleWorker(host: WorkerHost, happening: Happening): void {
    const kernel = this.#kernel;
    const { running } = host;
    if (running === null) return;
    if (happening.kind === 'pauseWorker') {
      this.#faults.fire('worker paused');
      running.life.pausedUntil = kernel.now + happening.ms;
    } else if (happening.kind === 'cutWorker') {
      this.#network.cut(host.name, happening.ms);
    } else if (happening.kind === 'killWorker') {
      this.#faults.fire('worker killed', running.worker.isBusy);
      this.#killWorker(host);
      kernel.after(happening.downMs, null, `${host.name} comes back`, () => this.#startWorker(host));
    } else if (happening.kind === 'drainWorker') {
      this.#faults.fire('worker drained', running.worker.isBusy);
      kernel.after(0, running.life, `${host.name} drains`, () => {
        running.worker
          .drain()
          .then(() => {
            if (host.running !== running) return;
            this.#killWorker(host);
            kernel.after(happening.downMs, null, `${host.name} comes back`, () => this.#startWorker(host));
          })
          .catch((error: unknown) => kernel.fail(error));
      });
    }
  }

  #startServer(host: ServerHost): void {
    if (host.serving !== null || host.isGone) return;
    const kernel = this.#kernel;
    host.lives += 1;
    const life = kernel.life(host.name);
    if (!this.#isHealed) life.skewMs = this.#plan.servers[host.index]?.skewMs ?? 0;
    kernel.after(0, life, `${host.name} starts`, () => {
      const server = createServer({
        ...{ life, holder: `${host.name}.${host.lives}`, kernel, network: this.#network, database: this.#database },
        ...{ queue: this.#queue, plan: this.#plan, catalog: this.#catalog, log: this.#log(life), meter: METER },
        takeBlock: (size) => {
          const first = this.#nextId;
          this.#nextId += size;
          return first;
        },
      });
      host.serving = { life, server };
      host.wellSinceMs = life.skewMs === 0 ? kernel.now : Number.POSITIVE_INFINITY;
      server.start().catch(() => {
        // The process ends; whoever watches it starts it again.
        if (host.serving?.life !== life) return;
        this.#killServer(host);
        kernel.after(1_000, null, `${host.name} tries again`, () => this.#startServer(host));
      });
    });
  }

  #killServer(host: ServerHost): void {
    const { serving } = host;
    if (serving === null) return;
    host.serving = null;
    serving.life.isAlive = false;
    this.#network.died(serving.life);
  }

  #startWorker(host: WorkerHost): void {
    if (host.running !== null || host.isGone) return;
    const kernel = this.#kernel;
    host.lives += 1;
    const life = kernel.life(host.name);
    const drawn = this.#plan.workers[host.index] ?? { way: 'exchange' as const, capacity: 4, skewMs: 0 };
    if (!this.#isHealed) life.skewMs = drawn.skewMs;
    const worker = new SimulatedWorker({
      ...{ life, instance: `${host.name}.${host.lives}`, way: drawn.way, capacity: drawn.capacity, kernel },
      ...{
        network: this.#network,
        servers: () => this.#reachable(),
        plan: this.#plan,
        ledger: this.#ledger,
        faults: this.#faults,
      },
      isHealed: () => this.#isHealed,
    });
    host.running = { life, worker };
    kernel.after(1, life, `${host.name} starts`, () => worker.start());
  }

  #killWorker(host: WorkerHost): void {
    const { running } = host;
    if (running === null) return;
    host.running = null;
    running.life.isAlive = false;
    this.#network.died(running.life);
  }

  #log(life: Life): Log {
    const write =
      (level: string) =>
      (message: string, fields: Readonly<Record<string, unknown>> = {}) => {
        const text = JSON.stringify(fields, (_key, value: unknown) => (value instanceof Error ? String(value) : value));
        const line = `${level} ${life.name}: ${message} ${text}`;
        this.#lines.push(line);
        this.#network.said.push(line);
        this.#kernel.say(line);
      };
    return { debug: () => {}, info: write('info'), warn: write('warn'), error: write('error') };
  }
}

const LIVENESS_MS = 1_800_000;
const BATCH_MS = 120_000;
const METER: Meter = { count: () => {}, observe: () => {}, gauge: () => {} };

const parsed = new Map<string, Playbook>();

function catalogOf(plan: Plan, database: Database): CatalogService {
  const entries = Object.entries(plan.playbooks).map(([path, steps], index) => {
    const text = JSON.stringify(steps);
    const playbook = parsed.get(text) ?? playbookOf(steps);
    if (parsed.size < 200) parsed.set(text, playbook);
    database.catalogIds.add(2_001 + index);
    return { entry: entryOf(2_001 + index, path), playbook };
  });
  const find = (where: (entry: CatalogEntry) => boolean) => {
    const found = entries.find(({ entry }) => where(entry));
    if (found === undefined) throw new Error('a world starts only what its catalog has');
    return found;
  };
  const refuse = (): never => {
    throw new Error('the catalog of a world only starts executions');
  };
  return {
    ...{
      register: refuse,
      get: refuse,
      list: refuse,
      count: refuse,
      versions: refuse,
      archive: refuse,
      update: refuse,
      find: refuse,
    },
    ...{ validate: refuse, read: refuse, permit: refuse, accessRules: refuse, ruled: refuse },
    byId: async (id) => find((entry) => entry.catalogId === id).entry,
    executable: async ({ path, catalogId }) =>
      find((entry) => (catalogId === undefined ? entry.path === path : entry.catalogId === catalogId)),
    playbook: async (id) => find((entry) => entry.catalogId === id),
  };
}

function entryOf(catalogId: number, path: string): CatalogEntry {
  return {
    ...{ catalogId, path, version: 1, kind: 'playbook', name: path, description: null, status: 'active', content: '' },
    ...{
      payload: {},
      layout: null,
      meta: {},
      tasksCount: 1,
      createdBy: null,
      createdAt: '',
      updatedAt: '',
      archivedAt: null,
    },
  };
}
