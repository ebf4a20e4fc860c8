/**
 * The rule engine (language 7): runs the tasks of a command one after another, lets the rules of each decide what
 * follows, and keeps the names that templates see. A single tool is a pipeline of one. It never throws for a failure
 * of the work; what it throws is the reason of `signal`.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { Assignment, Rule, Task } from '../../machines/playbook/document.ts';
import type { FinishedTask } from '../../machines/playbook/pipeline-value.ts';
import { storable } from '../../machines/playbook/template/storable.ts';
import type { ToolFailure, ToolOutcome } from '../tools/tool.ts';
import { type EndedTry, engineFailure, envelopeOf } from './outcome.ts';
import { type RetryPlan, retryDelayMs, retryPlan, ruleOn } from './rules.ts';
import type { CommandScope, RenderedAssignment } from './scope.ts';
import type { ScopeState } from './scope-state.ts';
import { REAL_TIME, type WorkerTime } from './time.ts';

/** Renders against the scope and fetches stored payloads on the way. Throws what rendering throws. */
export interface Renders {
  value(source: Json): Promise<Json>;
  condition(when: string | boolean): Promise<boolean>;
}

export interface PipelineDeps {
  readonly scope: CommandScope;
  readonly renders: Renders;
  /** One try; `tryNumber` counts all tries of this label in this command, from 1. */
  readonly runTry: (task: Task, tryNumber: number) => Promise<ToolOutcome>;
  /** What a failed render means for the task. */
  readonly renderFailure: (error: unknown) => ToolFailure;
  readonly signal: AbortSignal;
  readonly maxTries: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** The machine's when absent. */
  readonly time?: WorkerTime;
  /** A retry that waits longer leaves this worker (milliseconds). */
  readonly parkAfterMs: number;
  /** Where an earlier worker left off; null: at the beginning. */
  readonly resume: PipelineState | null;
}

/** What a pipeline needs to go on elsewhere, as JSON (language 7.7). */
export interface PipelineState {
  readonly index: number;
  /** Tries made in this visit of the task, and in all. */
  readonly attempt: number;
  readonly tries: number;
  readonly finished: readonly FinishedTask[];
  readonly records: JsonMap;
  readonly warnings: readonly string[];
  readonly log: { readonly stdout: string; readonly stderr: string };
  readonly scope: ScopeState;
}

/** The next try lies ahead, and this worker will not wait for it. */
export interface PipelineWait {
  readonly afterMs: number;
  readonly state: PipelineState;
  /** The task that waits, and how its last try ended. */
  readonly task: Task;
  readonly outcome: ToolOutcome;
}

export interface PipelineEnd {
  /** In the order in which the labels last ran. */
  readonly tasks: readonly FinishedTask[];
  /** Per label, for the call event (language 13.2). */
  readonly records: JsonMap;
  readonly warnings: readonly string[];
  readonly log: { readonly stdout: string; readonly stderr: string } | null;
  /** Null where the pipeline succeeded. */
  readonly failed: { readonly task: Task; readonly outcome: ToolFailure } | null;
}

/** What a rule orders, with everything rendered. */
type Order =
  | { readonly do: 'continue' | 'break' }
  | { readonly do: 'jump'; readonly to: number }
  | { readonly do: 'retry'; readonly plan: RetryPlan }
  | { readonly do: 'fail'; readonly outcome: ToolFailure };

/** What a visit of a task ended with. */
type VisitEnd = Exclude<Order, { do: 'retry' }> | { readonly do: 'wait'; readonly wait: PipelineWait };

const LOG_MAX = 65_536;
const BREATHE_EVERY = 64;

export async function runPipeline(tasks: readonly Task[], deps: PipelineDeps): Promise<PipelineEnd | PipelineWait> {
  return new Pipeline(tasks, deps).run();
}

class Pipeline {
  readonly #tasks: readonly Task[];
  readonly #deps: PipelineDeps;
  readonly #time: WorkerTime;
  readonly #finished = new Map<string, FinishedTask>();
  readonly #records = new Map<string, { status: string; attempts: number; duration_ms: number }>();
  readonly #warnings: string[] = [];
  #stdout = '';
  #stderr = '';
  #tries = 0;

  constructor(tasks: readonly Task[], deps: PipelineDeps) {
    this.#tasks = tasks;
    this.#deps = deps;
    this.#time = deps.time ?? REAL_TIME;
  }

  async run(): Promise<PipelineEnd | PipelineWait> {
    const { resume } = this.#deps;
    let index = resume?.index ?? 0;
    let made = resume?.attempt ?? 0;
    if (resume !== null) this.#restore(resume);
    for (let task = this.#tasks[index]; task !== undefined; task = this.#tasks[index]) {
      const order = await this.#visit(task, index, made);
      made = 0;
      if (order.do === 'wait') return order.wait;
      if (order.do === 'fail') return this.#end({ task, outcome: order.outcome });
      if (order.do === 'break') return this.#end(null);
      index = order.do === 'jump' ? order.to : index + 1;
    }
    return this.#end(null);
  }

  #restore({ tries, finished, records, warnings, log, scope }: PipelineState): void {
    this.#tries = tries;
    for (const task of finished) this.#finished.set(task.label, task);
    for (const [label, record] of Object.entries(records))
      if (isMap(record)) this.#records.set(label, recordOf(record));
    this.#warnings.push(...warnings);
    this.#stdout = log.stdout;
    this.#stderr = log.stderr;
    this.#deps.scope.restore(scope);
  }

  #state(index: number, attempt: number): PipelineState {
    return {
      index,
      attempt,
      tries: this.#tries,
      finished: [...this.#finished.values()],
      records: Object.fromEntries(this.#records),
      warnings: this.#warnings,
      log: { stdout: this.#stdout, stderr: this.#stderr },
      scope: this.#deps.scope.state(),
    };
  }

  /** Tries of one task until something else than a retry is ordered; `made` were made before, elsewhere. */
  async #visit(task: Task, index: number, made: number): Promise<VisitEnd> {
    for (let attempt = made + 1; ; attempt++) {
      if (this.#tries >= this.#deps.maxTries) {
        const message = `the pipeline ran ${this.#tries} tries`;
        return { do: 'fail', outcome: engineFailure('logic', 'PIPELINE_LIMIT', message) };
      }
      this.#tries += 1;
      // Tasks that wait for nothing must not keep heartbeats and stop orders waiting.
      if (this.#tries % BREATHE_EVERY === 0) await this.#time.breathe();
      const outcome = await this.#try(task, attempt);
      const { order, outcome: judged } = await this.#judge(task, index, attempt, outcome);
      if (order.do !== 'retry') return order;
      if (attempt >= order.plan.attempts) return { do: 'fail', outcome: exhausted(task, attempt, judged) };
      const afterMs = retryDelayMs(order.plan, attempt);
      if (afterMs > this.#deps.parkAfterMs) {
        return { do: 'wait', wait: { afterMs, state: this.#state(index, attempt), task, outcome: judged } };
      }
      await this.#time.pause(afterMs, this.#deps.signal);
    }
  }

  async #try(task: Task, attempt: number): Promise<EndedTry> {
    const { scope, now, signal } = this.#deps;
    signal.throwIfAborted();
    scope.beginTry({ name: task.name, kind: task.kind, attempt });
    const record = this.#records.get(task.name) ?? { status: '', attempts: 0, duration_ms: 0 };
    const startedAt = now();
    const tried = await this.#deps.runTry(task, record.attempts + 1);
    signal.throwIfAborted();
    const durationMs = now() - startedAt;
    const outcome = await this.#applyTaskSet(task, tried);
    const ended = { outcome, kind: task.kind, label: task.name, attempt, durationMs };
    record.attempts += 1;
    record.duration_ms = Math.round(record.duration_ms + durationMs);
    // In the order in which the tasks last ran, as their data.
    this.#records.delete(task.name);
    this.#records.set(task.name, record);
    this.#note(ended);
    this.#keepLog(outcome);
    return ended;
  }

  /** `set` of the task, on raw data, before its rules. */
  async #applyTaskSet(task: Task, outcome: ToolOutcome): Promise<ToolOutcome> {
    if (task.set.length === 0) return outcome;
    this.#deps.scope.showData(outcome.data);
    try {
      this.#deps.scope.assign(await this.#render(task.set));
      return outcome;
    } catch (error) {
      return outcome.ok ? { ...this.#deps.renderFailure(error), data: outcome.data } : outcome;
    }
  }

  /** Makes an ended try visible: its label, `output`, the record. */
  #note(ended: EndedTry): void {
    const { outcome, label } = ended;
    this.#deps.scope.endTry(label, outcome.data, outcome.ok);
    this.#deps.scope.showEnvelope(envelopeOf(ended));
    this.#finished.delete(label);
    this.#finished.set(label, { label, ok: outcome.ok, data: outcome.data });
    const record = this.#records.get(label);
    if (record !== undefined) record.status = outcome.ok ? 'ok' : 'error';
  }

  /**
   * The order that follows a try. A `set` of the matching rule that cannot be rendered makes an ok task a failed one,
   * and that failure passes through the other rules: a rule does not answer to its own failure (`broken`), or every
   * `else` would swallow it. On a failed task the assignment is dropped.
   */
  async #judge(
    task: Task,
    index: number,
    attempt: number,
    ended: EndedTry,
    broken: Rule | null = null,
  ): Promise<{ order: Order; outcome: ToolOutcome }> {
    const { outcome } = ended;
    const asked = broken === null ? task : { ...task, rules: task.rules.filter((rule) => rule !== broken) };
    const ruling = await ruleOn(asked, outcome.ok, (when) => this.#deps.renders.condition(when));
    this.#warnings.push(...ruling.warnings);
    try {
      if (ruling.rule !== null) this.#deps.scope.assign(await this.#render(ruling.rule.set));
    } catch (error) {
      if (outcome.ok) {
        const failed: EndedTry = { ...ended, outcome: { ...this.#deps.renderFailure(error), data: outcome.data } };
        this.#note(failed);
        return this.#judge(task, index, attempt, failed, ruling.rule);
      }
    }
    return { order: await this.#order(task, index, ruling.action, ruling.rule, outcome), outcome };
  }

  async #order(
    task: Task,
    index: number,
    action: Rule['action'],
    rule: Rule | null,
    outcome: ToolOutcome,
  ): Promise<Order> {
    switch (action) {
      case 'continue':
      case 'break':
        return { do: action };
      case 'fail':
        return { do: 'fail', outcome: outcome.ok ? failedByRule(task, rule, outcome.data) : outcome };
      case 'jump':
        return this.#jump(task, index, rule?.to ?? null);
      case 'retry':
        return this.#retry(rule, outcome);
    }
  }

  #jump(task: Task, index: number, to: string | null): Order {
    const target = to === '@previous' ? index - 1 : this.#tasks.findIndex((each) => each.name === to);
    if (target >= 0) return { do: 'jump', to: target };
    const message = `task '${task.name}' jumps to '${to ?? ''}', which is no task of this pipeline`;
    return { do: 'fail', outcome: engineFailure('config', 'JUMP_TARGET', message) };
  }

  async #retry(rule: Rule | null, outcome: ToolOutcome): Promise<Order> {
    try {
      const given = {
        attempts: await this.#number(rule?.attempts ?? null),
        delay: await this.#number(rule?.delay ?? null),
        backoff: await this.#number(rule?.backoff ?? null),
        maxDelay: await this.#number(rule?.maxDelay ?? null),
        multiplier: rule?.multiplier ?? null,
      };
      return { do: 'retry', plan: retryPlan(given) };
    } catch (error) {
      const failed =
        error instanceof RangeError
          ? engineFailure('config', 'RETRY_FIELD', error.message)
          : this.#deps.renderFailure(error);
      return { do: 'fail', outcome: { ...failed, data: outcome.data } };
    }
  }

  /** Numbers of a rule may be templates. */
  async #number(source: Json): Promise<Json> {
    return typeof source === 'string' ? this.#deps.renders.value(source) : source;
  }

  /** All values of one map are rendered before the first is assigned (language 6.1). */
  async #render(assignments: readonly Assignment[]): Promise<RenderedAssignment[]> {
    const rendered: RenderedAssignment[] = [];
    for (const target of assignments) {
      const value = await this.#deps.renders.value(target.value);
      // What stays in this command needs no place in a log.
      rendered.push({ target, value: target.scope === 'ctx' ? storable(value, target.value) : value });
    }
    return rendered;
  }

  #keepLog({ log, warnings }: ToolOutcome): void {
    if (warnings !== undefined) this.#warnings.push(...warnings);
    if (log === undefined) return;
    this.#stdout = (this.#stdout + log.stdout).slice(-LOG_MAX);
    this.#stderr = (this.#stderr + log.stderr).slice(-LOG_MAX);
  }

  #end(failed: PipelineEnd['failed']): PipelineEnd {
    const logged = this.#stdout !== '' || this.#stderr !== '';
    return {
      tasks: [...this.#finished.values()],
      records: Object.fromEntries(this.#records),
      warnings: this.#warnings,
      log: logged ? { stdout: this.#stdout, stderr: this.#stderr } : null,
      failed,
    };
  }
}

function recordOf(given: JsonMap): { status: string; attempts: number; duration_ms: number } {
  const { status, attempts, duration_ms: durationMs } = given;
  return {
    status: typeof status === 'string' ? status : '',
    attempts: typeof attempts === 'number' ? attempts : 0,
    duration_ms: typeof durationMs === 'number' ? durationMs : 0,
  };
}

function exhausted(task: Task, attempts: number, outcome: ToolOutcome): ToolFailure {
  if (!outcome.ok) return outcome;
  const message = `task '${task.name}' was tried ${attempts} times without the outcome its rules ask for`;
  return engineFailure('logic', 'RETRY_EXHAUSTED', message, outcome.data);
}

function failedByRule(task: Task, rule: Rule | null, data: Json): ToolFailure {
  const message =
    rule === null
      ? `task '${task.name}' failed: no policy rule matched`
      : `task '${task.name}' failed by policy rule ${rule.index + 1}`;
  return engineFailure('logic', 'POLICY_FAIL', message, data);
}
