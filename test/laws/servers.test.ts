import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { RunningEngine } from '../../actors/engine.ts';
import { DomainError } from '../../actors/errors.ts';
import { UnavailableError } from '../../actors/ports.ts';
import type { GrantedCommand, Report } from '../../actors/services.ts';
import { runOf } from '../../machines/execution/take-turn.ts';
import { replayExecution } from '../../machines/replay.ts';
import { Chance, law, seeds, workflows } from '../support/arbitraries.ts';
import { checkStore, statusOf } from '../support/invariants.ts';
import { LIMITS } from '../support/story.ts';
import { World } from '../support/world.ts';

const WORKERS = ['alice', 'bob', 'carol'];
const ROUNDS = 60;
const HEAL_ROUNDS = 400;

/** What goes wrong, as a set of switches; all of it heals before the end. */
interface Faults {
  readonly lostAnswers: boolean;
  readonly refusedCommits: boolean;
  readonly crashes: boolean;
  readonly silence: boolean;
  readonly events: boolean;
}

/**
 * Executions on two servers over one store, workers that forget, repeat and come late, commits that fail or whose answers
 * are lost, servers that die. The seed decides everything but the order in which the event loop runs what is ready.
 */
class Simulation {
  readonly world: World;
  readonly #chance: Chance;
  readonly #faults: Faults;
  readonly #servers: RunningEngine[];
  readonly #held = new Map<string, GrantedCommand[]>();
  /** Reports that were sent at least once. */
  readonly #sent: { readonly worker: string; readonly report: Report }[] = [];
  /** Reports whose answer never came: they are due. */
  readonly #due: { readonly worker: string; readonly report: Report }[] = [];
  #claims = 0;

  constructor(world: World, chance: Chance, faults: Faults) {
    this.world = world;
    this.#chance = chance;
    this.#faults = faults;
    world.register('carol');
    this.#servers = [world.server, world.another()];
  }

  async run(path: string, executions: number): Promise<void> {
    this.#failCommits();
    for (let count = 0; count < executions; count += 1) {
      await this.#tryAll([() => this.world.start(path, { idempotencyKey: `k${count}` }, this.#server())]);
    }
    for (let round = 0; round < ROUNDS; round += 1) {
      const moves = Array.from({ length: 1 + this.#chance.below(4) }, () => this.#move());
      await this.#tryAll(moves);
      checkStore(this.world.store);
    }
    await this.#heal(path, executions);
  }

  /** Faults are over: everything is started, claimed, reported, until nothing is left. */
  async #heal(path: string, executions: number): Promise<void> {
    const { world } = this;
    world.store.hooks.beforeCommit = () => {};
    world.store.hooks.afterCommit = () => {};
    for (let count = 0; count < executions; count += 1) await world.start(path, { idempotencyKey: `k${count}` });
    expect(world.store.executions()).toHaveLength(executions);
    for (let round = 0; world.store.executions().some((row) => row.status === 'running'); round += 1) {
      if (round > HEAL_ROUNDS)
        throw new Error(`stuck: ${JSON.stringify(world.store.commands().filter((row) => row.completedAt === null))}`);
      const server = this.#server();
      world.clock.advance(30_000);
      await world.sweep(server);
      for (const worker of WORKERS) {
        const commands = await world.claim(worker, {}, server);
        const reports = commands.map((command) => this.#outcomeOf(command));
        const { reports: receipts } = await world.exchangeWith(worker, reports, null, server);
        for (const receipt of receipts) expect(receipt.result).not.toMatch(/deferred|invalid/);
      }
    }
    // Whatever was ever sent may come again.
    for (const { worker, report } of this.#sent.slice(-40)) {
      const rows = world.store.executions().map((row) => JSON.stringify({ ...row, lastEventId: 0, handledThrough: 0 }));
      const { reports } = await world.exchangeWith(worker, [report], null, this.#server());
      expect(reports[0]?.result).toMatch(/duplicate|late|stale|unknown/);
      expect(
        world.store.executions().map((row) => JSON.stringify({ ...row, lastEventId: 0, handledThrough: 0 })),
      ).toEqual(rows);
    }
    checkStore(world.store);
    expect(world.lines.filter((line) => line.level === 'error')).toEqual([]);
    for (const row of world.store.executions()) {
      const replayed = replayExecution(world.store.log(row.executionId));
      for (const server of this.#servers) {
        const actor = await server.supervisor.actor(row.executionId);
        if (actor?.row.lastEventId !== row.lastEventId) continue;
        expect(statusOf(actor.state)).toBe(statusOf(replayed));
        expect(JSON.parse(JSON.stringify(runOf(actor.state)))).toEqual(JSON.parse(JSON.stringify(runOf(replayed))));
      }
    }
  }

  #move(): () => Promise<unknown> {
    const { world } = this;
    const chance = this.#chance;
    const server = this.#server();
    const worker = chance.pick(WORKERS);
    const held = this.#held.get(worker) ?? [];
    const choice = chance.below(14);
    if (choice < 4) {
      this.#claims += 1;
      const claimId = chance.isOneIn(2) ? `c${this.#claims}` : null;
      const change = { max: 1 + chance.below(4), claimId };
      return async () => {
        const commands = await world.claim(worker, change, server);
        this.#held.set(worker, [...(this.#held.get(worker) ?? []), ...commands]);
      };
    }
    if (choice < 9 && held.length > 0) {
      const command = held.splice(chance.below(held.length), 1)[0];
      if (command === undefined) return async () => {};
      if (this.#faults.events && chance.isOneIn(4)) return () => this.#byEvents(server, worker, command);
      const report = this.#outcomeOf(command);
      const wants = chance.isOneIn(2) ? { max: 2, claimId: `c${worker}${this.#sent.length}` } : null;
      return () => this.#send(server, worker, report, wants);
    }
    if (choice < 10 && this.#due.length > 0) {
      const { worker: who, report } = this.#due.shift() ?? { worker, report: null };
      if (report === null) return async () => {};
      return () => this.#send(server, who, report, null);
    }
    if (choice < 11 && this.#sent.length > 0) {
      const { worker: who, report } = chance.pick(this.#sent);
      return () => world.exchangeWith(chance.isOneIn(5) ? worker : who, [report], null, server);
    }
    if (choice === 11 && this.#faults.crashes) {
      const at = chance.below(this.#servers.length);
      return async () => {
        this.#servers[at] = world.another();
      };
    }
    if (choice === 12 && this.#faults.silence) {
      return async () => {
        world.clock.advance(chance.pick([5_000, 61_000, 130_000]));
        if (chance.isOneIn(3)) world.register(chance.pick(WORKERS), { instance: `i${chance.below(99)}` });
        await world.sweep(server);
      };
    }
    for (const row of world.store.executions()) if (chance.isOneIn(2)) server.supervisor.evict(row.executionId);
    return async () => {};
  }

  async #send(
    server: RunningEngine,
    worker: string,
    report: Report,
    claim: { max: number; claimId: string } | null,
  ): Promise<void> {
    this.#sent.push({ worker, report });
    this.#due.push({ worker, report });
    const { reports, commands } = await this.world.exchangeWith(worker, [report], claim, server);
    if (reports[0]?.result !== 'deferred')
      this.#due.splice(
        this.#due.findIndex((each) => each.report === report),
        1,
      );
    this.#held.set(worker, [...(this.#held.get(worker) ?? []), ...commands]);
  }

  /** The older way: single events, which may stop half-way. */
  async #byEvents(server: RunningEngine, worker: string, { row }: GrantedCommand): Promise<void> {
    const types = ['command.started', 'call.done', 'step.exit', 'command.completed'].slice(
      0,
      1 + this.#chance.below(4),
    );
    for (const type of types) {
      const payload = type === 'call.done' ? { result: this.#chance.below(3) } : {};
      await server.executions.recordEvent(
        this.world.eventOf(row.executionId, type, {
          commandId: row.commandId,
          attempt: row.attempt,
          workerId: worker,
          payload,
        }),
      );
    }
  }

  #outcomeOf(command: GrantedCommand): Report {
    const chance = this.#chance;
    const ctx = chance.isOneIn(4) ? { n: chance.below(5) } : {};
    if (chance.isOneIn(6))
      return this.world.reportOf(command, { outcome: 'error', error: { kind: 'k', code: 'E', message: 'm' }, ctx });
    return this.world.reportOf(command, { data: chance.below(3), ctx });
  }

  #failCommits(): void {
    const chance = this.#chance;
    const { lostAnswers, refusedCommits } = this.#faults;
    if (refusedCommits)
      this.world.store.hooks.beforeCommit = () => {
        if (chance.isOneIn(9)) throw new UnavailableError();
      };
    if (lostAnswers)
      this.world.store.hooks.afterCommit = () => {
        if (chance.isOneIn(9)) throw new UnavailableError();
      };
  }

  async #tryAll(moves: readonly (() => Promise<unknown>)[]): Promise<void> {
    const results = await Promise.allSettled(moves.map((move) => move()));
    for (const result of results) {
      if (result.status === 'fulfilled') continue;
      if (result.reason instanceof UnavailableError || result.reason instanceof DomainError) continue;
      throw result.reason;
    }
  }

  #server(): RunningEngine {
    return this.#chance.pick(this.#servers);
  }
}

const NONE: Faults = { lostAnswers: false, refusedCommits: false, crashes: false, silence: false, events: false };

function holds(faults: Faults, numRuns: number): Promise<void> {
  return fc.assert(
    fc.asyncProperty(workflows, seeds, async (steps, seed) => {
      const chance = new Chance(seed);
      const limits = { limits: { ...LIMITS, maxStepActivations: 4, maxDenials: 60 } };
      const world = new World(
        { 'tests/random': steps },
        { ...limits, actorsMax: 1 + chance.below(3), commandMaxAttempts: 50 },
      );
      await new Simulation(world, chance, faults).run('tests/random', 3);
    }),
    law(numRuns),
  );
}

describe('executions on two servers end, and their logs keep the rules', () => {
  test('when nothing goes wrong but the order', () => holds(NONE, 10));
  test('when servers die and executions are evicted at any time', () => holds({ ...NONE, crashes: true }, 8));
  test('when commits are refused', () => holds({ ...NONE, refusedCommits: true }, 8));
  test('when answers of commits are lost', () => holds({ ...NONE, lostAnswers: true }, 8));
  test('when workers fall silent and their commands are given to others', () => holds({ ...NONE, silence: true }, 8));
  test('when workers speak in single events and stop half-way', () =>
    holds({ ...NONE, events: true, silence: true }, 8));
  test('when all of it happens', () =>
    holds({ lostAnswers: true, refusedCommits: true, crashes: true, silence: true, events: true }, 12));
});
