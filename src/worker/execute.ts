/**
 * Runs one command to its report: tasks under the rule engine, the time limit of the step, the value of language 7.8,
 * secrets removed, large values stored apart. It always ends with a report unless it was told to stop, in which case
 * nobody waits for one.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { Task } from '../../machines/playbook/document.ts';
import { pipelineValue, resultsOf } from '../../machines/playbook/pipeline-value.ts';
import type { CallboardClient } from '../client/client.ts';
import { ApiError } from '../client/errors.ts';
import type { Metrics } from '../metrics.ts';
import type { Tool, ToolFailure, ToolOutcome, ToolTrace } from '../tools/tool.ts';
import type { ReportBody } from '../wire/exchange.ts';
import type { WorkerCommand } from './command.ts';
import { type TravellingValue, travelling } from './externalise.ts';
import type { KeychainReader } from './keychain.ts';
import { engineFailure, errorOf, thrownFailure } from './outcome.ts';
import { type PipelineEnd, type PipelineState, type PipelineWait, runPipeline } from './pipeline.ts';
import { isParkable, startChild } from './playbook.ts';
import { PayloadCache, Rendering, renderFailure } from './rendering.ts';
import { CommandScope } from './scope.ts';
import { Scrubber } from './scrub.ts';
import type { WorkerSpans } from './spans.ts';
import type { Templates } from './templates.ts';
import { REAL_TIME, type WorkerTime } from './time.ts';
import { childCallOf, type Rehearse, renderTask, runTry, type TryDeps } from './try.ts';

export type WorkerClient = Pick<
  CallboardClient,
  'execute' | 'events' | 'resolveResult' | 'credential' | 'putResult' | 'catalogGet'
>;

export interface ExecuteDeps {
  readonly client: WorkerClient;
  readonly tools: ReadonlyMap<string, Tool>;
  readonly templates: Templates;
  readonly keychain: KeychainReader;
  readonly workerId: string;
  readonly serverUrl: string;
  readonly pipelineMaxTries: number;
  readonly resultInlineMaxBytes: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Runs a wait without occupying a slot. */
  readonly outsideSlot: <T>(wait: () => Promise<T>) => Promise<T>;
  readonly spans?: WorkerSpans;
  readonly meter?: Pick<Metrics, 'observe'>;
  /** The machine's when absent. */
  readonly time?: WorkerTime;
  /** Only in simulations: answers tries in place of their tools. */
  readonly rehearse?: Rehearse;
}

/** What a report says beside its identity. */
export type Outcome = Omit<ReportBody, 'report_id' | 'command_id' | 'attempt' | 'execution_id'>;

const WARNING_MAX = 4096;
const WARNINGS_MAX = 256;
/** A retry that waits longer gives its slot back and is no longer this worker's. */
const PARK_AFTER_MS = 5_000;

class StepTimeout extends Error {}

/** Throws the reason of `stop` once that has aborted; any other end is an outcome. */
export async function executeCommand(command: WorkerCommand, deps: ExecuteDeps, stop: AbortSignal): Promise<Outcome> {
  const startedAt = deps.now();
  // Joined by hand: every command has one, and a composite signal takes six times as long to make.
  const ending = new AbortController();
  const follow = () => ending.abort(stop.reason);
  if (stop.aborted) follow();
  stop.addEventListener('abort', follow, { once: true });
  const { time = REAL_TIME } = deps;
  const clear = time.after(command.timeoutSeconds * 1000, () => ending.abort(new StepTimeout()));
  const run = new CommandRun(command, deps, ending.signal);
  try {
    return { ...(await run.outcome()), duration_ms: deps.now() - startedAt };
  } catch (error) {
    stop.throwIfAborted();
    const failed = ending.signal.aborted ? stepTimeout(command) : thrownFailure(error);
    return { ...run.failedOutcome(failed), duration_ms: deps.now() - startedAt };
  } finally {
    clear();
    stop.removeEventListener('abort', follow);
  }
}

class CommandRun {
  readonly #command: WorkerCommand;
  readonly #deps: ExecuteDeps;
  readonly #signal: AbortSignal;
  readonly #scope: CommandScope;
  readonly #rendering: Rendering;
  readonly #scrubber = new Scrubber();
  readonly #startedAt: number;

  constructor(command: WorkerCommand, deps: ExecuteDeps, signal: AbortSignal) {
    this.#command = command;
    this.#deps = deps;
    this.#signal = signal;
    this.#startedAt = deps.now();
    const payloads = new PayloadCache((ref) => deps.client.resolveResult(ref, { signal }));
    this.#scope = new CommandScope(command, deps, payloads.get);
    this.#rendering = new Rendering(deps.templates, this.#scope, payloads);
  }

  async outcome(): Promise<Outcome> {
    const { resume } = this.#command;
    const parked =
      resume === null && isParkable(this.#command.tasks, this.#command.pipeline) ? await this.#park() : null;
    if (parked !== null) return parked;
    const end = await runPipeline(this.#command.tasks, {
      scope: this.#scope,
      renders: this.#rendering,
      runTry: (task, tryNumber) => this.#try(task, tryNumber),
      renderFailure,
      signal: this.#signal,
      maxTries: this.#deps.pipelineMaxTries,
      now: this.#deps.now,
      time: this.#deps.time ?? REAL_TIME,
      parkAfterMs: PARK_AFTER_MS,
      resume: resume === null ? null : await this.#restored(resume),
    });
    if ('state' in end) return this.#waiting(end);
    return end.failed === null ? this.#succeeded(end) : this.#failed(end, end.failed);
  }

  async #try(task: Task, tryNumber: number): Promise<ToolOutcome> {
    const { meter, spans, now, tools } = this.#deps;
    const startedAt = now();
    const run = (trace: ToolTrace | null) => runTry(task, tryNumber, { ...this.#tryDeps(), trace });
    const named = { kind: task.kind, task: task.name, number: tryNumber };
    const outcome = await (spans?.try(this.#command, named, ({ ok }) => !ok, run) ?? run(null));
    const kind = tools.has(task.kind) || task.kind === 'playbook' ? task.kind : 'other';
    meter?.observe('svc_tool_seconds', (now() - startedAt) / 1000, { kind, outcome: outcome.ok ? 'ok' : 'error' });
    return outcome;
  }

  /** A failure of the command as a whole; no rule is asked (language 4.4). */
  failedOutcome(outcome: ToolFailure): Outcome {
    return { outcome: 'error', error: this.#error(outcome, this.#command.toolKind), ...this.#writes() };
  }

  /** Starts the child and leaves the waiting to the server; null where the ordinary way must say what went wrong. */
  async #park(): Promise<Outcome | null> {
    const [task] = this.#command.tasks;
    if (task === undefined) return null;
    const deps = this.#tryDeps();
    const rendered = await renderTask(task, deps);
    if ('ok' in rendered) return null;
    if (deps.rehearse !== null && (await deps.rehearse(task, 1, rendered, deps.signal)) !== null) return null;
    const call = childCallOf(task, 1, rendered, deps);
    const start = () => startChild(deps.client, call);
    const named = { kind: task.kind, task: task.name, number: 1 };
    const { spans } = this.#deps;
    const child = await (spans?.try(this.#command, named, (started) => 'ok' in started, start) ?? start());
    return 'ok' in child ? null : { outcome: 'parked', child_execution_id: child.executionId };
  }

  /** Where an earlier worker left off. Its variables are written again, so that they go home with this report too. */
  async #restored({ state, ctx }: NonNullable<WorkerCommand['resume']>): Promise<PipelineState> {
    await this.#rendering.whole(() => this.#scope.snapshot.restore(ctx));
    const ref = isMap(state) ? state['ref'] : null;
    const kept = typeof ref === 'string' ? await this.#rendering.payload(ref) : state;
    const given = isMap(kept) ? kept['pipeline'] : null;
    if (!isMap(given)) throw new Error('the state of this command is not readable');
    // Written by #waiting of this or an earlier release; nobody else may write there.
    return given as unknown as PipelineState;
  }

  /** The next try is for whoever is free by then. What it needs goes with the report, apart from it where it is large. */
  async #waiting({ afterMs, state, task, outcome }: PipelineWait): Promise<Outcome> {
    // A pipeline's state is JSON by construction.
    const kept = this.#scrubber.json({ pipeline: state as unknown as Json });
    const travelled = await this.#travelling(kept, kept, null);
    if ('ok' in travelled) return this.failedOutcome(travelled);
    const spentMs = this.#deps.now() - this.#startedAt;
    return {
      outcome: 'parked',
      resume: {
        after_seconds: afterMs / 1000,
        timeout_seconds: Math.max(0, this.#command.timeoutSeconds - spentMs / 1000),
        state: 'data' in travelled ? kept : { ref: travelled.reference.ref },
      },
      ...(outcome.ok ? {} : { error: this.#error(outcome, task.kind), failed_task: task.name }),
      ...this.#writes(),
    };
  }

  async #succeeded(end: PipelineEnd): Promise<Outcome> {
    const [only] = end.tasks;
    const value: Json = this.#command.pipeline ? pipelineValue(end.tasks) : (only?.data ?? null);
    const once: Json = this.#command.pipeline ? resultsOf(end.tasks) : value;
    const travelled = await this.#travelling(value, once);
    if ('ok' in travelled) return { ...this.failedOutcome(travelled), ...this.#records(end) };
    return { outcome: 'ok', ...travelled, ...this.#writes(), ...this.#records(end) };
  }

  async #failed(end: PipelineEnd, failed: NonNullable<PipelineEnd['failed']>): Promise<Outcome> {
    const { task, outcome } = failed;
    const travelled = outcome.data === null ? {} : await this.#travelling(outcome.data, outcome.data);
    return {
      outcome: 'error',
      error: this.#error(outcome, task.kind),
      failed_task: task.name,
      ...('ok' in travelled ? {} : travelled),
      ...this.#writes(),
      ...this.#records(end),
    };
  }

  async #travelling(
    value: Json,
    once: Json,
    output = this.#command.tasks.at(-1)?.output ?? null,
  ): Promise<TravellingValue | ToolFailure> {
    const { client, resultInlineMaxBytes } = this.#deps;
    try {
      const [safe, safeOnce] = [this.#scrubber.json(value), this.#scrubber.json(once)];
      return await travelling(safe, safeOnce, output, resultInlineMaxBytes, this.#command, client, this.#signal);
    } catch (error) {
      this.#signal.throwIfAborted();
      if (!(error instanceof ApiError)) return thrownFailure(error);
      const kind = error.status === 413 ? 'storage_quota' : 'storage_access';
      return engineFailure(kind, error.code.toUpperCase(), `the result cannot be stored: ${error.message}`);
    }
  }

  #error(outcome: ToolFailure, source: string): JsonMap {
    return this.#scrubber.map(errorOf(outcome, source));
  }

  #writes(): Pick<Outcome, 'ctx'> {
    const { writes } = this.#scope.snapshot;
    return writes.isEmpty ? {} : { ctx: this.#scrubber.map(writes.toJson()) };
  }

  #records(end: PipelineEnd): Pick<Outcome, 'tasks' | 'warnings' | 'log'> {
    const warnings = end.warnings.slice(0, WARNINGS_MAX).map((each) => this.#scrubber.text(each).slice(0, WARNING_MAX));
    const log = end.log === null ? null : this.#scrubber.map({ ...end.log });
    return {
      tasks: end.records,
      ...(warnings.length === 0 ? {} : { warnings }),
      ...(log === null ? {} : { log }),
    };
  }

  #tryDeps(): TryDeps {
    const { client, tools, keychain, workerId, serverUrl, outsideSlot, time = REAL_TIME, rehearse = null } = this.#deps;
    return {
      command: this.#command,
      scope: this.#scope,
      rendering: this.#rendering,
      scrubber: this.#scrubber,
      tools,
      client,
      keychain,
      workerId,
      serverUrl,
      signal: this.#signal,
      outsideSlot,
      time,
      rehearse,
    };
  }
}

function stepTimeout(command: WorkerCommand): ToolFailure {
  const message = `step '${command.step}' did not end within ${command.timeoutSeconds} s`;
  const failed = engineFailure('timeout', 'STEP_TIMEOUT', message);
  return { ...failed, error: { ...failed.error, retryable: false } };
}
