/**
 * Runs claimed commands with the worker's own code and reports them in the worker's own words. Only three things are
 * different from a worker: tries are answered by the script, time is virtual, and when several commands end at one
 * instant, the seed says which is reported first.
 */
import type { RunningEngine } from '../../actors/engine.ts';
import type { MemoryStore } from '../../actors/memory/memory-store.ts';
import type { GrantedCommand, ResultService } from '../../actors/services.ts';
import { isoOf } from '../../machines/command/instant.ts';
import type { Json } from '../../machines/json.ts';
import { createNoop } from '../tools/noop.ts';
import { type Command, commandToWire } from '../wire/command.ts';
import { type ReportBody, toExchangeRequest } from '../wire/exchange.ts';
import { readCommand } from '../worker/command.ts';
import { executeCommand, type Outcome, type WorkerClient } from '../worker/execute.ts';
import type { Templates } from '../worker/templates.ts';
import type { Rehearse } from '../worker/try.ts';
import { Stopped } from '../worker/work.ts';
import type { Script, TriedCommand } from './script.ts';
import { OFFLINE_AFTER_SECONDS, type SimulatedWorkers } from './simulated-workers.ts';
import type { Timeline } from './timeline.ts';
import { createWorkerClient, maskedKeychain } from './worker-client.ts';

export interface CommandRunnerParts {
  readonly engine: RunningEngine;
  readonly store: MemoryStore;
  readonly results: ResultService;
  readonly timeline: Timeline;
  readonly workers: SimulatedWorkers;
  readonly script: Script;
  readonly templates: Templates;
  /** What the only step of a scripted child answers; null for every other playbook. */
  scriptedResult(catalogId: number): { readonly result: Json } | null;
  readonly settings: { readonly pipelineMaxTries: number; readonly resultInlineMaxBytes: number };
}

/** As a worker does: a command that runs longer is announced as started. */
const STARTED_AFTER_MS = 1_000;
const DEFERRED_MS = 100;
const TOOLS = new Map([['noop', createNoop()]]);
const SERVER_URL = 'http://simulator.invalid';

export class CommandRunner {
  readonly #parts: CommandRunnerParts;
  readonly #client: WorkerClient;
  readonly #keychain = maskedKeychain();
  readonly #running = new Map<number, AbortController>();
  readonly #ends = new Set<Promise<void>>();

  constructor(parts: CommandRunnerParts) {
    this.#parts = parts;
    this.#client = createWorkerClient(parts);
  }

  begin(granted: GrantedCommand, workerId: string): void {
    const wire = commandToWire(granted, isoOf(this.#parts.timeline.now()));
    const stop = new AbortController();
    this.#running.set(wire.command_id, stop);
    const end = this.#run(wire, workerId, stop).finally(() => {
      if (this.#running.get(wire.command_id) === stop) this.#running.delete(wire.command_id);
      this.#ends.delete(end);
      this.#parts.timeline.stir();
    });
    this.#ends.add(end);
  }

  /** Its execution has ended: nobody waits for it. */
  cancel(commandId: number): void {
    this.#running.get(commandId)?.abort(new Stopped('execution_cancelled'));
  }

  /** Lets go of whatever still runs. */
  async stop(): Promise<void> {
    for (const stop of this.#running.values()) stop.abort(new Stopped('worker_stopped'));
    await Promise.all(this.#ends);
  }

  async #run(wire: Command, workerId: string, stop: AbortController): Promise<void> {
    const { timeline, workers } = this.#parts;
    let isLost = false;
    const lose = () => {
      isLost = true;
      stop.abort(new Stopped('worker_stopped'));
    };
    const clear = timeline.after(STARTED_AFTER_MS, () => void this.#announce(wire, workerId));
    try {
      const outcome = await this.#outcomeOf(wire, workerId, stop.signal, lose);
      clear();
      await timeline.pause(0, stop.signal);
      await this.#report(endOf(wire, outcome), workerId, stop.signal);
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    } finally {
      clear();
      if (isLost) this.#onLost(workerId);
      else workers.release(workerId);
    }
  }

  async #outcomeOf(wire: Command, workerId: string, stop: AbortSignal, lose: () => void): Promise<Outcome> {
    const { timeline, templates, settings } = this.#parts;
    try {
      const ref = wire.context.context_ref;
      const stored: Json = ref === null ? null : await this.#client.resolveResult(ref, { signal: stop });
      const deps = {
        client: this.#client,
        tools: TOOLS,
        templates,
        keychain: this.#keychain,
        workerId,
        serverUrl: SERVER_URL,
        ...settings,
        now: () => timeline.elapsedMs,
        outsideSlot: <T>(wait: () => Promise<T>) => wait(),
        time: timeline,
        rehearse: this.#rehearse(wire, lose),
      };
      return await executeCommand(readCommand(wire, stored), deps, stop);
    } catch (error) {
      stop.throwIfAborted();
      const message = error instanceof Error ? error.message : 'the worker failed';
      return { outcome: 'error', error: { kind: 'unknown', code: 'WORKER_DEFECT', message, retryable: false } };
    }
  }

  #rehearse(wire: Command, lose: () => void): Rehearse {
    const { timeline, script, scriptedResult } = this.#parts;
    const scripted = scriptedResult(wire.catalog_id);
    const command = triedOf(wire);
    const waited = new Set<string>();
    return async (task, tryNumber, rendered, signal) => {
      timeline.stir();
      if (scripted !== null) return { ok: true, data: scripted.result };
      const fate = script.fateOf(command, task, tryNumber, rendered, timeline.elapsedMs);
      if (fate === null) return null;
      const key = `${task.name}:${tryNumber}`;
      if (!waited.has(key) && (fate.afterMs > 0 || fate.workerLost)) await timeline.pause(fate.afterMs, signal);
      waited.add(key);
      if (fate.workerLost) lose();
      signal.throwIfAborted();
      return fate.outcome;
    };
  }

  async #announce(wire: Command, workerId: string): Promise<void> {
    const identity = { command_id: wire.command_id, attempt: wire.attempt };
    const event = { event_type: 'command.started', step: wire.step, payload: identity, ...identity };
    const reportId = `${wire.command_id}:${wire.attempt}:start`;
    const report = { report_id: reportId, ...identity, execution_id: wire.execution_id, events: [event] };
    await this.#report(report, workerId, new AbortController().signal);
  }

  async #report(report: ReportBody, workerId: string, signal: AbortSignal): Promise<void> {
    const { engine, timeline } = this.#parts;
    for (;;) {
      // A copy, as over a wire; a report is JSON.
      const copy = JSON.parse(JSON.stringify(report)) as Json;
      const { request, invalid } = toExchangeRequest({ worker_id: workerId, reports: [copy] }, signal);
      if (invalid.size > 0) {
        // A worker's stand-in for a report that the server cannot read.
        const message = 'the result of this command could not be reported';
        const error = { kind: 'unknown', code: 'REPORT_REFUSED', message, retryable: false };
        const { report_id: id, command_id, attempt } = report;
        return this.#report({ report_id: `${id}2`, command_id, attempt, outcome: 'error', error }, workerId, signal);
      }
      const { reports } = await engine.commands.exchange(request);
      timeline.stir();
      if (reports[0]?.result !== 'deferred') return;
      await timeline.pause(DEFERRED_MS, signal);
    }
  }

  /** Somebody notices after a while, as the server does by the missing heartbeats. */
  #onLost(workerId: string): void {
    const { timeline, workers, engine } = this.#parts;
    workers.lose(workerId);
    timeline.after(OFFLINE_AFTER_SECONDS * 1000, () => {
      workers.retire(workerId);
      void engine.recovery.releaseWorker(workerId).finally(() => timeline.stir());
    });
  }
}

function endOf(wire: Command, outcome: Outcome): ReportBody {
  const { command_id, attempt, execution_id } = wire;
  return { report_id: `${command_id}:${attempt}:end`, command_id, attempt, execution_id, ...outcome };
}

function triedOf({ command_id, attempt, execution_id, path, step, meta }: Command): TriedCommand {
  const { activation, iteration_index: iteration } = meta;
  return { commandId: command_id, attempt, executionId: execution_id, path, step, activation, iteration };
}
