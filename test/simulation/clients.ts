/**
 * Those who use the service from outside: they start, cancel, clean up, send batches and keep secrets, ask again until
 * they are answered, and write down what they were told.
 */
import { DomainError } from '../../actors/errors.ts';
import type { EventInput } from '../../actors/services.ts';
import { cacheKeyOf, readScope } from '../../machines/keychain/scope.ts';
import { Chance } from '../support/arbitraries.ts';
import type { Database } from './database.ts';
import type { FaultBook } from './faults.ts';
import { EPOCH, type Kernel, type Life } from './kernel.ts';
import type { Ledger } from './ledger.ts';
import type { Address, Network } from './network.ts';
import type { Deed, Happening, Plan } from './plan.ts';
import type { Server } from './server.ts';
import { mustBeRefusal, noteBatch, PASSING } from './worker.ts';

export interface ClientsParts {
  readonly plan: Plan;
  readonly kernel: Kernel;
  readonly life: Life;
  readonly network: Network;
  readonly servers: () => readonly Address<Server>[];
  readonly ledger: Ledger;
  readonly database: Database;
  readonly faults: FaultBook;
}

const TIMEOUT_MS = 6_000;
const AGAIN_MS = 400;

export class Clients {
  readonly #parts: ClientsParts;
  readonly #chance: Chance;
  readonly #busy = new Set<string>();
  #secrets = 0;

  constructor(parts: ClientsParts) {
    this.#parts = parts;
    this.#chance = new Chance(parts.plan.seed ^ 0x0c1e47);
  }

  isDone(): boolean {
    return this.#busy.size === 0;
  }

  describe(): string {
    return [...this.#busy].join(' ');
  }

  act(happening: Happening): void {
    const { kernel, life } = this.#parts;
    const repeats = 'repeats' in happening ? happening.repeats : 1;
    for (let count = 0; count < repeats; count += 1) {
      const name = `${happening.id}/${count} ${happening.kind}`;
      this.#busy.add(name);
      const delay = count === 0 ? 0 : this.#chance.pick([0, 1, 3_000]);
      kernel.after(delay, life, name, () => {
        this.#act(happening).then(
          () => this.#busy.delete(name),
          (error: unknown) => kernel.fail(error),
        );
      });
    }
  }

  async #act(deed: Deed): Promise<void> {
    const { ledger, database, faults, kernel } = this.#parts;
    if (deed.kind === 'start') {
      const receipt = await this.#insist('start', (server) =>
        server.engine.executions.start({ path: deed.path, workload: { n: 1 }, idempotencyKey: deed.key }),
      );
      if (receipt === null) return;
      const list = ledger.starts.get(deed.key) ?? [];
      ledger.starts.set(deed.key, list);
      list.push(receipt);
      return;
    }
    if (deed.kind === 'sweep') {
      await this.#insist('sweep', (server) => server.upkeep.admin.sweep(null));
      return;
    }
    if (deed.kind === 'cleanup') {
      const from = EPOCH + kernel.now;
      const options = { olderThanMinutes: deed.minutes, dryRun: deed.dryRun };
      const receipt = await this.#insist('cleanup', (server) => server.engine.executions.cleanup(options));
      if (deed.dryRun && receipt !== null)
        ledger.dryRuns.push({ ids: receipt.executionIds, minutes: deed.minutes, from, to: EPOCH + kernel.now });
      return;
    }
    if (!('nth' in deed)) return;
    const executionId = this.#nth(deed.nth);
    if (executionId === null) return;
    switch (deed.kind) {
      case 'cancel': {
        const options = { reason: 'no longer wanted', cascade: deed.cascade, by: 'api' as const };
        await this.#insist('cancel', (server) => server.engine.executions.cancel(executionId, options));
        return;
      }
      case 'finalize': {
        const options = { status: 'completed' as const, reason: 'enough', error: null };
        await this.#insist('finalize', (server) => server.engine.executions.finalize(executionId, options));
        return;
      }
      case 'byHand': {
        if (deed.isFiled) await this.#file(executionId, `h${executionId}`, true);
        const row = database.store.executions().find((each) => each.executionId === executionId);
        const log = database.store.log(executionId);
        const last = log.at(-1);
        if (
          row?.status !== 'running' ||
          last === undefined ||
          log.some((event) => event.type === 'execution.cancelled')
        )
          return;
        faults.fire('row by hand');
        const eventId = last.eventId + 1;
        ledger.byHand.set(executionId, eventId);
        const at = new Date(EPOCH + kernel.now).toISOString();
        database.store.appendByHand({
          ...{ ...last, eventId, causeId: eventId, type: 'execution.cancelled', status: 'cancelled', at },
          ...{ nodeId: row.path, nodeName: row.path, nodeType: 'execution', parentEventId: null, commandId: null },
          ...{
            attempt: null,
            workerId: null,
            reportId: null,
            reportSeq: null,
            closes: false,
            stale: false,
            duration: null,
          },
          ...{
            context: { reason: 'by hand', cancelled_at: at, cancelled_by: 'sql' },
            result: null,
            error: null,
            meta: {},
          },
        });
        return;
      }
      case 'batch':
        return this.#batch(executionId, deed.key, deed.end);
      case 'keep':
        return this.#keep(executionId, deed.scope, deed.ttl);
      case 'look':
        return this.#look(executionId, deed.renew, deed.readers);
    }
  }

  /** A batch of a client, told as an end where `isEnd`; null when it was not accepted or nobody answered. */
  async #file(executionId: number, key: string, isEnd: boolean) {
    const base = {
      meta: {},
      workerId: null,
      status: null,
      commandId: null,
      attempt: null,
      actionable: true,
      producerTime: null,
    };
    const events: Omit<EventInput, 'executionId'>[] = [
      { ...base, type: 'note.taken', step: 's0', payload: { key }, reportId: `${key}:1` },
      ...(isEnd
        ? [{ ...base, type: 'playbook.failed', step: 's0', payload: { error: 'told so' }, reportId: `${key}:2` }]
        : []),
    ];
    // The same key with another body is refused, and nothing is written.
    const bodyHash = isEnd ? 'end' : 'note';
    const receipt = await this.#insist('batch', (server) =>
      server.batches.accept({ executionId, events, workerId: null, idempotencyKey: key, bodyHash }),
    );
    if (receipt !== null) noteBatch(this.#parts.ledger, executionId, key, receipt);
    return receipt;
  }

  async #batch(executionId: number, key: string, isEnd: boolean): Promise<void> {
    const receipt = await this.#file(executionId, key, isEnd);
    if (receipt === null) return;
    const { ledger } = this.#parts;
    const seen: string[] = [];
    ledger.seen.push({ requestId: receipt.requestId, states: seen });
    for (let look = 0; look < 20; look += 1) {
      const row = await this.#insist('look at a batch', (server) => server.batches.find(receipt.requestId));
      if (row === null) return;
      seen.push(row.state);
      if (row.state === 'completed' || row.state === 'failed') return;
      await this.#parts.kernel.sleep(700, this.#parts.life);
    }
  }

  async #keep(executionId: number, scope: 'local' | 'shared' | 'global', ttl: number): Promise<void> {
    const { ledger, plan } = this.#parts;
    const row = this.#parts.database.store.executions().find((each) => each.executionId === executionId);
    if (row === undefined) return;
    this.#secrets += 1;
    const secret = `canary-${plan.seed}-${this.#secrets}-of-the-keychain`;
    const address = { catalogId: row.catalogId, name: `entry${this.#secrets}`, scope, executionId };
    const kept = await this.#insist('keep', (server) =>
      server.keychain.store({
        ...{ ...address, tokenData: { token: secret }, credentialType: 'bearer', cacheType: 'token', expiresAt: null },
        ...{ ttlSeconds: ttl, autoRenew: false, renewConfig: null, schema: null },
      }),
    );
    // What was refused, or never answered, may be there or not; it is a secret all the same.
    const { catalogId, rootExecutionId } = row;
    const cacheKey = cacheKeyOf({ ...address, rootExecutionId });
    const isSure = kept !== null;
    ledger.kept.set(address.name, { cacheKey, scope, secret, executionId, rootExecutionId, catalogId, isSure });
  }

  /** Reads every entry as this execution, whoever's it is; so many readers at the same instant. */
  async #look(executionId: number, isRenewing: boolean, readers: number): Promise<void> {
    const { ledger, database } = this.#parts;
    const row = database.store.executions().find((each) => each.executionId === executionId);
    if (row === undefined) return;
    const { catalogId, rootExecutionId } = row;
    for (const [name, kept] of [...ledger.kept]) {
      const scope = readScope(kept.scope);
      if (!kept.isSure || scope === null) continue;
      const address = { catalogId, name, scope, executionId };
      const cacheKey = cacheKeyOf({ ...address, rootExecutionId: row.rootExecutionId });
      const read = async () => {
        const reading = await this.#insist('read', (server) => {
          ledger.asked.set(cacheKey, (ledger.asked.get(cacheKey) ?? 0) + 1);
          return server.keychain.read({ ...address, claimRenewal: isRenewing, workerId: null });
        });
        if (reading === null) return;
        const { status } = reading;
        const { data, accessCount } = status === 'success' ? reading : { data: null, accessCount: null };
        ledger.reads.push({ name, cacheKey, status, data, accessCount, executionId, rootExecutionId, catalogId });
      };
      await Promise.all(Array.from({ length: readers }, read));
    }
  }

  #nth(nth: number): number | null {
    const ids = this.#parts.database.store.executions().map((row) => row.executionId);
    return ids.length === 0 ? null : (ids[nth % ids.length] ?? null);
  }

  /** Asks until there is an answer; null when the answer is a refusal that stays. */
  async #insist<T>(label: string, call: (server: Server) => Promise<T>): Promise<T | null> {
    const { kernel, life, network, servers } = this.#parts;
    for (;;) {
      try {
        return await network.request(life, this.#chance.pick(servers()), label, call, TIMEOUT_MS);
      } catch (error) {
        mustBeRefusal(error);
        if (error instanceof DomainError && !PASSING.has(error.code)) return null;
        await kernel.sleep(AGAIN_MS + this.#chance.below(AGAIN_MS), life);
      }
    }
  }
}
