/**
 * What lies between the processes of a world: questions to the database, requests to servers and hints, each with the
 * latency and the faults the plan asks for. Nothing crosses it without the heap, so a kill can come between any two
 * steps; requests of the dead are dropped, and whoever waits for a dead server hears that its connection is gone.
 */
import { type Bus, type BusTopic, type Flush, UnavailableError } from '../../actors/ports.ts';
import type { JsonMap } from '../../machines/json.ts';
import { Chance } from '../support/arbitraries.ts';
import type { Database } from './database.ts';
import type { Fault, FaultBook } from './faults.ts';
import type { Kernel, Life } from './kernel.ts';
import type { Plan, Rates } from './plan.ts';

/** No answer: refused, reset or too late. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/** Where requests go: a name that a process serves, or nobody at the moment. */
export interface Address<Serving> {
  readonly name: string;
  serving: { readonly life: Life; readonly server: Serving } | null;
}

const CUT_MS = 200;

export class Network {
  readonly #kernel: Kernel;
  readonly #plan: Plan;
  readonly #faults: FaultBook;
  readonly #chance: Chance;
  /** When the last read of a process reaches the database. */
  readonly #arrivals = new WeakMap<Life, number>();
  readonly #cuts = new Map<string, number>();
  readonly #ends = new Map<Life, Set<() => void>>();
  readonly #listeners = new Set<{ readonly life: Life; hear(topic: BusTopic, hints: readonly JsonMap[]): void }>();
  /** What was ever said on the bus, for those who look for secrets. */
  readonly said: string[] = [];
  #isHealed = false;
  #commits = 0;

  constructor(kernel: Kernel, plan: Plan, faults: FaultBook) {
    this.#kernel = kernel;
    this.#plan = plan;
    this.#faults = faults;
    this.#chance = new Chance(plan.seed ^ 0x2c1b3c6d);
  }

  heal(): void {
    this.#isHealed = true;
    this.#cuts.clear();
  }

  /** Nothing passes between these for a while: a worker and all servers, a server and the database. */
  cut(name: string, ms: number): void {
    this.#cuts.set(name, this.#kernel.now + ms);
  }

  /** How many requests this process sends or answers at the moment. */
  openOf(life: Life): number {
    return this.#ends.get(life)?.size ?? 0;
  }

  /** Connections of a process that died. */
  died(life: Life): void {
    for (const end of [...(this.#ends.get(life) ?? [])]) end();
    this.#ends.delete(life);
  }

  // ---------------------------------------------------------------- the database

  /** One statement or transaction of this process. */
  ask<T>(life: Life, label: string, work: () => Promise<T>): Promise<T> {
    return this.#ask(life, label, work, 'questionFailed', 'question unanswered', null);
  }

  commit(life: Life, database: Database, flush: Flush): Promise<void> {
    const isSlow = this.#happens('slowCommit');
    if (isSlow) this.#faults.fire('slow commit');
    if (life.skewMs !== 0) this.#faults.fire('server clock wrong', Math.abs(life.skewMs) > 1_000);
    this.#commits += 1;
    const before = this.#commits;
    const work = () => {
      // Others were sent after it, so it came out of its order.
      if (isSlow && this.#commits > before) this.#faults.matter('slow commit');
      return database.store.commit(flush);
    };
    return this.#ask(
      life,
      'commit',
      work,
      'commitRefused',
      'commit refused',
      isSlow ? 300 + this.#chance.below(3_000) : 0,
    );
  }

  /** `extraMs` is null for what only reads or is repeated without harm. */
  #ask<T>(
    life: Life,
    label: string,
    work: () => Promise<T>,
    rate: keyof Rates,
    fault: Fault,
    extraMs: number | null,
  ): Promise<T> {
    const kernel = this.#kernel;
    return new Promise<T>((resolve, reject) => {
      // Heard by a process that is alive, it matters.
      const fail = (ms: number, because: Fault) =>
        kernel.after(ms, life, `${label} fails`, () => {
          this.#faults.matter(because);
          reject(new UnavailableError());
        });
      if (this.#isCut(life.name)) {
        this.#faults.fire('server cut off from the database');
        fail(CUT_MS, 'server cut off from the database');
        return;
      }
      if (this.#happens(rate)) {
        this.#faults.fire(fault);
        fail(this.#latency(), fault);
        return;
      }
      const isLost = extraMs !== null && this.#happens('commitLost');
      // Reads of the engine share one pipelined connection (src/store/pipeline.ts), so they arrive as they were sent.
      const isOrdered = label.startsWith('store.');
      const arrivesAt = Math.max(
        kernel.now + this.#latency() + (extraMs ?? 0),
        isOrdered ? this.#lastArrival(life) : 0,
      );
      if (isOrdered) this.#arrivals.set(life, arrivesAt);
      kernel.after(arrivesAt - kernel.now, null, label, () => {
        work().then(
          (value) => {
            if (isLost) this.#faults.fire('commit answer lost');
            if (isLost) fail(this.#latency(), 'commit answer lost');
            else if (this.#isCut(life.name)) fail(this.#latency(), 'server cut off from the database');
            else kernel.after(this.#latency(), life, `${label} is answered`, () => resolve(value));
          },
          (error: unknown) => kernel.after(this.#latency(), life, `${label} is refused`, () => reject(error)),
        );
      });
    });
  }

  #lastArrival(life: Life): number {
    return this.#arrivals.get(life) ?? 0;
  }

  // ---------------------------------------------------------------- requests

  /** Sends a request and waits for its answer, at most `timeoutMs`. Rejects with NoAnswer or what the server threw. */
  request<Serving, T>(
    from: Life,
    to: Address<Serving>,
    label: string,
    call: (server: Serving, signal: AbortSignal) => Promise<T>,
    timeoutMs: number,
  ): Promise<T> {
    const kernel = this.#kernel;
    return new Promise<T>((resolve, reject) => {
      let isOpen = true;
      let missed: Fault | null = null;
      const aborts: AbortController[] = [];
      const leave: (() => void)[] = [];
      const close = (settle: () => void) => {
        if (!isOpen) return;
        isOpen = false;
        timer.isCancelled = true;
        for (const each of leave.splice(0)) each();
        settle();
      };
      const giveUp = () => {
        // The server notices that its caller has gone, some time later.
        kernel.after(this.#latency(), null, `${label} is given up`, () => {
          for (const each of aborts) each.abort();
        });
      };
      const timer = kernel.after(timeoutMs, from, `${label} takes too long`, () => {
        if (missed !== null) this.#faults.matter(missed);
        giveUp();
        close(() => reject(new NoAnswer('too late')));
      });
      leave.push(this.#onEnd(from, giveUp));
      if (this.#isCut(from.name)) missed = 'worker cut off';
      else if (this.#happens('requestLost')) missed = 'request lost';
      if (missed !== null) {
        this.#faults.fire(missed);
        return;
      }
      const deliver = (isAgain: boolean): void => {
        const serving = to.serving;
        if (serving === null) {
          kernel.after(this.#latency(), from, `${label} is refused`, () =>
            close(() => reject(new NoAnswer('refused'))),
          );
          return;
        }
        leave.push(
          this.#onEnd(serving.life, () =>
            kernel.after(this.#latency(), from, `${label} is cut short`, () =>
              close(() => reject(new NoAnswer('reset'))),
            ),
          ),
        );
        const abort = new AbortController();
        aborts.push(abort);
        const answer = (settle: () => void): void => {
          if (isOpen && (this.#isCut(from.name) || this.#happens('answerLost'))) {
            missed = 'answer lost';
            this.#faults.fire(missed);
            return;
          }
          kernel.after(this.#latency(), from, `${label} is answered`, () => close(settle));
        };
        kernel.after(0, serving.life, `${serving.life.name} gets ${label}`, () => {
          if (isAgain) this.#faults.matter('request doubled');
          call(serving.server, abort.signal).then(
            (value) => answer(() => resolve(value)),
            (error: unknown) => answer(() => reject(error)),
          );
        });
      };
      kernel.after(this.#latency(), null, label, () => deliver(false));
      if (this.#happens('requestDoubled')) {
        this.#faults.fire('request doubled');
        kernel.after(this.#latency() * (1 + this.#chance.below(40)), null, `${label} again`, () => deliver(true));
      }
    });
  }

  #onEnd(life: Life, end: () => void): () => void {
    const ends = this.#ends.get(life) ?? new Set();
    this.#ends.set(life, ends.add(end));
    return () => ends.delete(end);
  }

  // ---------------------------------------------------------------- hints

  connect(life: Life): Bus {
    const own: { readonly life: Life; hear(topic: BusTopic, hints: readonly JsonMap[]): void }[] = [];
    return {
      publish: (topic, hints) => {
        if (hints.length > 0 && life.isAlive) this.#publish(life, topic, hints);
      },
      subscribe: (listener) => {
        const entry = { life, hear: listener };
        own.push(entry);
        this.#listeners.add(entry);
        return () => this.#listeners.delete(entry);
      },
      // Total loss is noticed by some and not by others.
      state: () =>
        this.#plan.rates.hintLost === 1_000 && this.#plan.seed % 2 === 0 && !this.#isHealed ? 'down' : 'ok',
      close: async () => {
        for (const entry of own) this.#listeners.delete(entry);
      },
    };
  }

  #publish(from: Life, topic: BusTopic, hints: readonly JsonMap[]): void {
    const text = JSON.stringify(hints);
    this.said.push(text);
    for (const entry of this.#listeners) {
      const isForeign = entry.life !== from;
      // The bus does not come back with the rest: everything must end without it.
      if (this.#happensAlways('hintLost')) {
        this.#faults.fire('hint lost', isForeign && entry.life.isAlive);
        continue;
      }
      const isLate = this.#happens('hintLate');
      if (isLate) this.#faults.fire('hint late');
      const copies = this.#happens('hintDoubled') ? 2 : 1;
      if (copies === 2) this.#faults.fire('hint doubled');
      for (let copy = 0; copy < copies; copy += 1) {
        const ms = this.#latency() + (isLate ? this.#chance.below(5_000) : 0) + copy * this.#chance.below(500);
        // What arrives is a copy. Hints are JSON.
        this.#kernel.after(ms, entry.life, `hint ${topic}`, () => {
          if (isLate && isForeign) this.#faults.matter('hint late');
          if (copy > 0 && isForeign) this.#faults.matter('hint doubled');
          entry.hear(topic, JSON.parse(text) as JsonMap[]);
        });
      }
    }
  }

  // ---------------------------------------------------------------- chance

  #latency(): number {
    // A healed network is quick: what is looked for then is what stands still, not what is slow.
    const latencyMs = this.#isHealed ? Math.min(8, this.#plan.pace.latencyMs) : this.#plan.pace.latencyMs;
    const share = this.#chance.below(1_000) / 1_000;
    // A long tail now and then, so that what was sent later overtakes.
    return 0.1 + share * latencyMs * (this.#chance.isOneIn(20) ? 8 : 1);
  }

  #isCut(name: string): boolean {
    return (this.#cuts.get(name) ?? 0) > this.#kernel.now;
  }

  #happens(rate: keyof Rates): boolean {
    return !this.#isHealed && this.#happensAlways(rate);
  }

  #happensAlways(rate: keyof Rates): boolean {
    const size = this.#plan.rates[rate];
    return size > 0 && this.#chance.below(1_000) < size;
  }
}
