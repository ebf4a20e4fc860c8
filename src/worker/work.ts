/**
 * The commands a worker holds: those in its slots, those fetched ahead, and their way to a report. Knows nothing of
 * HTTP; the lanes ask it what to claim, what it holds and what is to be reported.
 */

import type { Log } from '../log.ts';
import type { StopOrderWire } from '../wire/claim.ts';
import type { Command } from '../wire/command.ts';
import type { ReportAnswer, ReportBody } from '../wire/exchange.ts';
import type { Outcome } from './execute.ts';
import { Outbox } from './outbox.ts';
import { Slots } from './slots.ts';

export interface WorkOptions {
  readonly concurrency: number;
  /** Runs a command to its outcome; throws the reason of `stop` when that has aborted. */
  readonly run: (command: Command, stop: AbortSignal, outsideSlot: OutsideSlot) => Promise<Outcome>;
  /** Something is to be sent, or there is room for more. */
  readonly onChange: () => void;
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export type OutsideSlot = <T>(wait: () => Promise<T>) => Promise<T>;

/** Why a running command is told to stop. */
export class Stopped extends Error {
  override readonly name = 'Stopped';
  readonly reason: string;
  constructor(reason: string) {
    super(`stopped: ${reason}`);
    this.reason = reason;
  }
}

interface Held {
  readonly command: Command;
  readonly stop: AbortController;
}

/** A command that runs longer is announced as started (viewers see it RUNNING). Milliseconds. */
const STARTED_AFTER_MS = 1_000;
const SLOW_AFTER_MS = 50;

export class Work {
  readonly outbox = new Outbox();
  readonly #options: WorkOptions;
  readonly #slots: Slots;
  readonly #held = new Map<number, Held>();
  readonly #queue: Held[] = [];

  constructor(options: WorkOptions) {
    this.#options = options;
    this.#slots = new Slots(options.concurrency);
  }

  /** Slots with nothing to do and nothing waiting for them. */
  get idle(): number {
    return Math.max(0, this.#slots.free - this.#queue.length);
  }

  slots(): { readonly busy: number; readonly free: number } {
    const free = Math.max(0, this.#slots.free);
    return { busy: Math.max(0, this.#options.concurrency - free), free };
  }

  /** How many commands could be put to use now, those fetched ahead included. */
  get appetite(): number {
    return Math.max(0, this.#slots.free + this.#slots.ahead - this.#queue.length);
  }

  /** No command is held; reports may still be on their way. */
  get isEmpty(): boolean {
    return this.#held.size === 0;
  }

  holding(): { command_id: number; attempt: number }[] {
    return [...this.#held.values()].slice(0, 1024).map(({ command }) => identityOf(command));
  }

  /** Takes a granted command. A repeat of a grant is recognised by its attempt. */
  accept(command: Command): void {
    const known = this.#held.get(command.command_id);
    if (known?.command.attempt === command.attempt || this.outbox.has(endId(command))) return;
    known?.stop.abort(new Stopped('stale'));
    const held = { command, stop: new AbortController() };
    this.#held.set(command.command_id, held);
    this.#queue.push(held);
    this.#fill();
  }

  obey(order: StopOrderWire): void {
    const held = this.#held.get(order.command_id);
    if (held === undefined || held.command.attempt !== order.attempt) return;
    this.#options.log.info('A command is stopped.', { ...identityOf(held.command), reason: order.reason });
    held.stop.abort(new Stopped(order.reason));
  }

  stopAll(reason: string): void {
    for (const held of this.#held.values()) held.stop.abort(new Stopped(reason));
  }

  /** The server's verdict on a report. One it cannot read is replaced by a failure of the command. */
  settle(answer: ReportAnswer): void {
    if (this.outbox.settle(answer, this.#options.now()) === 'refused')
      this.#substitute(answer, answer.error ?? 'invalid');
    if (answer.result === 'unknown') {
      this.#options.log.warn('The server knows nothing of a reported command.', { report_id: answer.report_id });
    }
  }

  /** The whole exchange was refused because of this report. */
  refuse(report: ReportBody, why: string): void {
    if (this.outbox.refuse(report.report_id)) this.#substitute(report, why);
  }

  #substitute(
    report: { report_id: string | null; command_id: number | string | null; attempt: number | null },
    why: string,
  ): void {
    this.#options.log.error('The server refused a report.', { report_id: report.report_id, why });
    if (report.command_id === null || report.attempt === null || report.report_id?.endsWith(':end') !== true) return;
    const message = 'the result of this command could not be reported';
    this.outbox.add(
      {
        report_id: `${report.report_id}2`,
        command_id: report.command_id,
        attempt: report.attempt,
        outcome: 'error',
        error: { kind: 'unknown', code: 'REPORT_REFUSED', message, retryable: false },
      },
      true,
    );
    this.#options.onChange();
  }

  #fill(): void {
    while (this.#slots.free > 0) {
      const next = this.#queue.shift();
      if (next === undefined) break;
      this.#slots.take();
      void this.#run(next);
    }
  }

  async #run(held: Held): Promise<void> {
    const { command, stop } = held;
    const startedAt = this.#options.now();
    const slow = setTimeout(() => this.#slots.slowed(), SLOW_AFTER_MS);
    const started = setTimeout(() => this.#announce(held), STARTED_AFTER_MS);
    try {
      stop.signal.throwIfAborted();
      const outcome = await this.#options.run(command, stop.signal, (wait) => this.#outsideSlot(wait));
      this.#end(held, outcome);
    } catch (error) {
      this.#end(held, stop.signal.aborted ? stoppedOutcome(stop.signal.reason) : defectOutcome(error));
    } finally {
      clearTimeout(slow);
      clearTimeout(started);
      this.#slots.giveBack();
      this.#slots.ended(this.#options.now() - startedAt);
      this.#fill();
      this.#options.onChange();
    }
  }

  async #outsideSlot<T>(wait: () => Promise<T>): Promise<T> {
    this.#slots.giveBack();
    this.#fill();
    this.#options.onChange();
    try {
      return await wait();
    } finally {
      // It may now be one too many for a while; nothing new is taken until that has passed.
      this.#slots.take();
    }
  }

  #end(held: Held, outcome: Outcome | null): void {
    const { command } = held;
    if (this.#held.get(command.command_id) === held) this.#held.delete(command.command_id);
    this.outbox.withdraw(startId(command));
    if (outcome === null) return;
    const execution = { execution_id: command.execution_id };
    this.outbox.add({ report_id: endId(command), ...identityOf(command), ...execution, ...outcome });
  }

  #announce({ command }: Held): void {
    const identity = identityOf(command);
    const event = { event_type: 'command.started', step: command.step, payload: identity, ...identity };
    const execution = { execution_id: command.execution_id };
    this.outbox.add({ report_id: startId(command), ...identity, ...execution, events: [event] });
    this.#options.onChange();
  }
}

/** Ids that follow from the command: whatever happens in between, the same outcome has the same id. */
function endId({ command_id, attempt }: Command): string {
  return `${command_id}:${attempt}:end`;
}

function startId({ command_id, attempt }: Command): string {
  return `${command_id}:${attempt}:start`;
}

function identityOf({ command_id, attempt }: Command): { command_id: number; attempt: number } {
  return { command_id, attempt };
}

/** Nobody waits for a stopped command, except where its time was over. */
function stoppedOutcome(reason: unknown): Outcome | null {
  if (!(reason instanceof Stopped) || reason.reason !== 'timeout') return null;
  const error = { kind: 'timeout', code: 'STEP_TIMEOUT', message: 'the time of the step is over', retryable: false };
  return { outcome: 'error', error };
}

function defectOutcome(error: unknown): Outcome {
  const message = error instanceof Error ? error.message : 'the worker failed';
  return { outcome: 'error', error: { kind: 'unknown', code: 'WORKER_DEFECT', message, retryable: false } };
}
