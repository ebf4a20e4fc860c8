/**
 * A simulated worker: the protocol of a real one (register, exchange with what it holds, reports with ids that stay, claims
 * with ids that are repeated), tools whose outcome follows from the command alone, and none of the waiting. Some speak the
 * older ways: single events, or batches.
 */
import { DomainError } from '../../actors/errors.ts';
import type {
  BatchReceipt,
  EventInput,
  ExchangeReceipt,
  GrantedCommand,
  Registration,
  Report,
  ReportedOutcome,
} from '../../actors/services.ts';
import { isMap, type JsonMap } from '../../machines/json.ts';
import { Chance } from '../support/arbitraries.ts';
import type { FaultBook } from './faults.ts';
import { EPOCH, type Kernel, type Life } from './kernel.ts';
import type { Ledger } from './ledger.ts';
import { type Address, type Network, NoAnswer } from './network.ts';
import type { Plan, WorkerWay } from './plan.ts';
import type { Server } from './server.ts';

export interface WorkerParts {
  readonly life: Life;
  readonly instance: string;
  readonly way: WorkerWay;
  readonly capacity: number;
  readonly kernel: Kernel;
  readonly network: Network;
  readonly servers: () => readonly Address<Server>[];
  readonly plan: Plan;
  readonly ledger: Ledger;
  readonly faults: FaultBook;
  /** After healing tools are quick and nothing is forgotten. */
  isHealed(): boolean;
}

interface Held {
  readonly grant: GrantedCommand;
  isStopped: boolean;
}

interface Due {
  readonly report: Report;
  readonly grant: GrantedCommand;
  notBefore: number;
}

const REPORTS_AT_ONCE = 16;
const POLL_MS = 4_000;
const REST_MS = 150;
const TIMEOUT_MS = 6_000;

export class SimulatedWorker {
  readonly #parts: WorkerParts;
  readonly #chance: Chance;
  readonly #held = new Map<number, Held>();
  readonly #due = new Map<string, Due>();
  readonly #sent: Report[] = [];
  #claims = 0;
  #isDraining = false;
  #hasLeft = false;
  #isRegistered = false;
  #wake: () => void = () => {};

  constructor(parts: WorkerParts) {
    this.#parts = parts;
    this.#chance = new Chance(parts.plan.seed ^ hashOf(parts.instance));
  }

  get name(): string {
    return this.#parts.life.name;
  }

  /** Whether something would be missed without it. */
  get isBusy(): boolean {
    return this.#held.size > 0 || this.#due.size > 0;
  }

  start(): void {
    this.#live().catch((error: unknown) => this.#parts.kernel.fail(error));
  }

  /** Takes nothing new; resolves when all is reported and it has said goodbye. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    while (this.#held.size > 0 || this.#due.size > 0) await this.#rest(REST_MS);
    this.#hasLeft = true;
    await this.#request('deregister', (server) => server.workers.deregister(this.name, 'worker_pool')).catch(() => {});
  }

  async #live(): Promise<void> {
    await this.#register();
    this.#reportLane().catch((error: unknown) => this.#parts.kernel.fail(error));
    await this.#claimLane();
  }

  async #register(): Promise<void> {
    const { capacity, instance, plan } = this.#parts;
    const registration: Registration = {
      ...{
        name: this.name,
        kind: 'worker_pool',
        runtime: null,
        uri: null,
        status: 'ready',
        capacity,
        pools: ['shared'],
      },
      ...{ toolKinds: [], labels: {}, instance, pid: null, hostname: null, meta: {}, version: null },
      heartbeatSeconds: plan.pace.heartbeatSeconds,
      offlineAfterSeconds: plan.pace.offlineSeconds,
    };
    for (;;) {
      try {
        await this.#request('register', (server) => server.workers.register(registration));
        this.#isRegistered = true;
        return;
      } catch (error) {
        mustBeRefusal(error);
        await this.#rest(REST_MS * 2);
      }
    }
  }

  /** Asks for work, and says what it holds; the same claim id until an answer has come. */
  async #claimLane(): Promise<void> {
    let claimId: string | null = null;
    for (;;) {
      const room = this.#isDraining ? 0 : this.#parts.capacity - this.#held.size;
      const wants = room > 0;
      claimId = wants ? (claimId ?? this.#nextClaimId()) : null;
      const id = claimId;
      try {
        const receipt = await this.#exchange([], wants ? { id, max: room, waitMs: POLL_MS } : null);
        claimId = null;
        this.#take(receipt);
      } catch (error) {
        await this.#refused(error);
      }
      if (!wants) await this.#rest(500 + this.#chance.below(300));
    }
  }

  async #reportLane(): Promise<void> {
    let claimId: string | null = null;
    for (;;) {
      const { kernel } = this.#parts;
      const due = [...this.#due.values()].filter((each) => each.notBefore <= kernel.now).slice(0, REPORTS_AT_ONCE);
      if (due.length === 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
          kernel.after(1_000, this.#parts.life, 'look at the outbox', resolve);
        });
        continue;
      }
      try {
        if (this.#parts.way === 'exchange') {
          const room = this.#isDraining ? 0 : this.#parts.capacity - this.#held.size;
          claimId = room > 0 ? (claimId ?? this.#nextClaimId()) : null;
          const id = claimId;
          const reports = due.map((each) => each.report);
          if (this.#sent.length > 0 && this.#chance.below(1_000) < this.#rate('sentAgain')) {
            reports.push(this.#chance.pick(this.#sent));
            this.#parts.faults.fire('report sent again');
          }
          const receipt = await this.#exchange(reports, room > 0 ? { id, max: room, waitMs: 0 } : null);
          claimId = null;
          this.#settle(receipt, due);
          this.#take(receipt);
        } else {
          for (const each of due) await this.#sayOlderWay(each);
        }
      } catch (error) {
        await this.#refused(error);
      }
    }
  }

  #exchange(
    reports: readonly Report[],
    claim: { readonly id: string | null; readonly max: number; readonly waitMs: number } | null,
  ): Promise<ExchangeReceipt> {
    // Who reports otherwise than by exchanges still works on what was not received yet.
    const unsaid = this.#parts.way === 'exchange' ? [] : [...this.#due.values()];
    const holding = [...this.#held.values(), ...unsaid].map(({ grant }) => ({
      commandId: grant.row.commandId,
      attempt: grant.row.attempt,
    }));
    const { instance } = this.#parts;
    const status = this.#isDraining ? 'draining' : 'ready';
    const rest = { pools: null, toolKinds: null };
    return this.#request('exchange', (server, signal) =>
      server.engine.commands.exchange({
        ...{ workerId: this.name, instance, status, holding, reports },
        claim:
          claim === null
            ? null
            : { workerId: this.name, max: claim.max, waitMs: claim.waitMs, claimId: claim.id, ...rest, signal },
      }),
    );
  }

  #take({ commands, stop }: ExchangeReceipt): void {
    for (const order of stop) {
      const held = this.#held.get(order.commandId);
      if (held !== undefined && held.grant.row.attempt === order.attempt) this.#drop(held);
    }
    for (const grant of commands) this.#accept(grant);
  }

  #accept(grant: GrantedCommand): void {
    const { ledger, faults, kernel } = this.#parts;
    const { commandId, attempt } = grant.row;
    const known = this.#held.get(commandId);
    // A forgotten one was told of again, to this worker or another.
    if (ledger.forgotten.delete(commandId)) faults.matter('worker forgets a command');
    if (known?.grant.row.attempt === attempt || this.#due.has(endId(grant))) return;
    if (known !== undefined) this.#drop(known);
    ledger.grants.push({ commandId, attempt, worker: this.name, instance: this.#parts.instance });
    const held: Held = { grant, isStopped: false };
    if (this.#chance.below(1_000) < this.#rate('forgets')) {
      faults.fire('worker forgets a command');
      ledger.forgotten.add(commandId);
      return;
    }
    this.#held.set(commandId, held);
    kernel.say(`${this.name} begins ${commandId}/${attempt}`);
    this.#work(held).catch((error: unknown) => kernel.fail(error));
  }

  #drop(held: Held): void {
    held.isStopped = true;
    this.#held.delete(held.grant.row.commandId);
  }

  async #work(held: Held): Promise<void> {
    const { grant } = held;
    const outcome = await this.#outcomeOf(held);
    if (held.isStopped || outcome === null) return;
    if (this.#held.get(grant.row.commandId) === held) this.#held.delete(grant.row.commandId);
    const { commandId, attempt, executionId } = grant.row;
    const report: Report = { reportId: endId(grant), commandId, attempt, executionId, outcome, events: null };
    this.#due.set(report.reportId, { report, grant, notBefore: 0 });
    this.#wake();
  }

  /** What the tool does follows from the command; how long it takes is this worker's luck. */
  async #outcomeOf({ grant }: Held): Promise<ReportedOutcome | null> {
    const { plan, kernel, life, isHealed, faults } = this.#parts;
    const script = new Chance(plan.seed ^ hashOf(`${grant.row.executionId % 97}:${grant.row.commandKey}`));
    const isSlow = !isHealed() && this.#chance.below(1_000) < plan.pace.slowTools;
    await this.#rest(
      isSlow ? this.#chance.pick([3_000, 9_000, 30_000]) : 5 + this.#chance.below(isHealed() ? 60 : 400),
    );
    const config = grant.toolConfig;
    if (life.skewMs !== 0) faults.fire('worker clock wrong', Math.abs(life.skewMs) > 1_000);
    const common = {
      startedAt: new Date(EPOCH + kernel.now + life.skewMs).toISOString(),
      ...{ durationMs: 5, tasks: {}, warnings: [], log: null },
      ctx: script.isOneIn(4) ? { n: script.below(5) } : {},
    };
    if (isMap(config) && config['kind'] === 'playbook') return { ...common, ...(await this.#child(grant, config)) };
    if (grant.row.attempt === 1 && script.isOneIn(14)) {
      return {
        ...common,
        outcome: 'parked',
        resume: { afterSeconds: 1 + script.below(3), timeoutSeconds: 60, state: { at: 2 } },
      };
    }
    if (script.isOneIn(8)) {
      return {
        ...common,
        outcome: 'error',
        error: { kind: 'k', code: 'E', message: 'm', retryable: script.isOneIn(2) },
      };
    }
    const data = script.isOneIn(6) ? { text: 'x'.repeat(100), n: script.below(3) } : script.below(3);
    return { ...common, outcome: 'ok', data };
  }

  async #child(
    grant: GrantedCommand,
    config: JsonMap,
  ): Promise<Pick<ReportedOutcome, 'outcome' | 'data' | 'error' | 'childExecutionId'>> {
    const { executionId, commandId, eventId } = grant.row;
    for (;;) {
      try {
        const child = await this.#request('start a child', (server) =>
          server.engine.executions.start({
            path: String(config['path']),
            workload: {},
            parentExecutionId: executionId,
            parentCommandId: commandId,
            parentEventId: eventId,
            idempotencyKey: `${commandId}:t:1`,
          }),
        );
        if (config['wait'] === true) return { outcome: 'parked', childExecutionId: child.executionId };
        return { outcome: 'ok', data: { execution_id: child.executionId } };
      } catch (error) {
        mustBeRefusal(error);
        if (error instanceof DomainError && !PASSING.has(error.code))
          return { outcome: 'error', error: { kind: 'k', code: error.code, message: 'the child was refused' } };
        await this.#rest(REST_MS * 2);
      }
    }
  }

  #settle({ reports }: ExchangeReceipt, due: readonly Due[]): void {
    const { kernel, ledger, faults } = this.#parts;
    for (const receipt of reports) {
      const entry = due.find((each) => each.report.reportId === receipt.reportId);
      if (entry === undefined) {
        faults.matter('report sent again');
        continue;
      }
      if (receipt.result === 'deferred') {
        entry.notBefore = kernel.now + 200;
        continue;
      }
      this.#due.delete(receipt.reportId);
      if (entry.report.events === null) ledger.reports.push({ executionId: entry.grant.row.executionId, receipt });
      this.#sent.push(entry.report);
    }
  }

  /** Single events or one batch instead of a report; each may come again. */
  async #sayOlderWay(due: Due): Promise<void> {
    const { ledger, way } = this.#parts;
    const { report, grant } = due;
    const { row } = grant;
    const { outcome } = report;
    if (outcome === null) return;
    if (outcome.outcome === 'parked') {
      this.#settle(await this.#exchange([report], null), [due]);
      return;
    }
    const isOk = outcome.outcome === 'ok';
    const types = [
      'command.started',
      isOk ? 'call.done' : 'call.error',
      'step.exit',
      isOk ? 'command.completed' : 'command.failed',
    ];
    const events = types
      .filter((type) => type !== 'step.exit' || row.iterationIndex === null)
      .map((type, index) => this.#eventOf(grant, type, outcome, `${report.reportId}:${index}`));
    if (way === 'batch') {
      const key = report.reportId;
      const receipt = await this.#request('batch', (server) =>
        server.batches.accept({
          ...{ executionId: row.executionId, events, workerId: this.name, idempotencyKey: key, bodyHash: key },
        }),
      );
      noteBatch(ledger, row.executionId, key, receipt);
    } else {
      for (const event of events) {
        const receipt = await this.#request('event', (server) =>
          server.engine.executions.recordEvent({ ...event, executionId: row.executionId }),
        );
        ledger.events.push({ executionId: row.executionId, eventId: receipt.eventId });
      }
    }
    this.#due.delete(report.reportId);
  }

  #eventOf(
    { row }: GrantedCommand,
    type: string,
    outcome: ReportedOutcome,
    reportId: string,
  ): Omit<EventInput, 'executionId'> {
    const payload: JsonMap =
      type === 'call.done'
        ? { result: outcome.data ?? null }
        : type === 'call.error'
          ? { error: outcome.error ?? {} }
          : {};
    const { commandId, attempt, stepName } = row;
    return {
      ...{ type, step: stepName, payload, meta: {}, workerId: this.name, status: null, reportId, commandId, attempt },
      ...{ actionable: true, producerTime: null },
    };
  }

  async #refused(error: unknown): Promise<void> {
    mustBeRefusal(error);
    if (error instanceof DomainError && (error.code === 'unknown_worker' || error.code === 'worker_restarted')) {
      if (this.#hasLeft) return this.#rest(REST_MS);
      if (this.#isRegistered) {
        this.#isRegistered = false;
        await this.#register();
      }
    }
    await this.#rest(REST_MS + this.#chance.below(200));
  }

  #request<T>(label: string, call: (server: Server, signal: AbortSignal) => Promise<T>): Promise<T> {
    const { network, life, servers } = this.#parts;
    return network.request(life, this.#chance.pick(servers()), label, call, TIMEOUT_MS);
  }

  #rest(ms: number): Promise<void> {
    return this.#parts.kernel.sleep(ms, this.#parts.life);
  }

  #rate(name: 'sentAgain' | 'forgets'): number {
    return this.#parts.isHealed() ? 0 : this.#parts.plan.rates[name];
  }

  #nextClaimId(): string {
    this.#claims += 1;
    return `${this.#parts.instance}:${this.#claims}`;
  }
}

export function noteBatch(ledger: Ledger, executionId: number, key: string, receipt: BatchReceipt): void {
  const name = `${executionId}:${key}`;
  const list = ledger.batches.get(name) ?? [];
  ledger.batches.set(name, list);
  list.push({ executionId, receipt });
}

/** Codes of refusals that pass. */
export const PASSING: ReadonlySet<string> = new Set([
  ...['shutting_down', 'queue_unavailable', 'db_unavailable', 'ack_timeout', 'worker_unavailable', 'enqueue_error'],
  ...['unknown_worker', 'worker_restarted', 'worker_draining'],
]);

/** Anything else is a defect of the service: it would be a 500. */
export function mustBeRefusal(error: unknown): void {
  if (error instanceof NoAnswer || error instanceof DomainError) return;
  if (error instanceof Error && (error.name === 'UnavailableError' || error.name === 'StaleError')) return;
  throw error;
}

function endId({ row }: GrantedCommand): string {
  return `${row.commandId}:${row.attempt}:end`;
}

function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash;
}
