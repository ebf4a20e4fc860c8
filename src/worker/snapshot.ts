/**
 * The command's part of the execution's state: inputs, variables and step values as they were when it was issued, and
 * the variables it has written since. Values stored apart look whole and throw NeedPayload when they are not.
 */
import type { RenderContext, StepSnapshot } from '../../machines/execution/render-context.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { ownMember, type Payloads, stepValue } from '../../machines/playbook/values.ts';
import { Members, plainOf } from './members.ts';
import { Writes, withValueAt } from './variables.ts';

export class Snapshot {
  /** What goes home with the report. */
  readonly writes = new Writes();
  /** Roots of templates; `ctx` is the inputs under everything written. */
  readonly ctx: Members;
  readonly steps: Members;
  readonly context: RenderContext;
  readonly #payloads: Payloads;
  #written: JsonMap;
  readonly #refs: Map<string, string>;

  constructor(context: RenderContext, payloads: Payloads) {
    this.context = context;
    this.#payloads = payloads;
    this.#written = context.ctx;
    this.#refs = new Map(Object.entries(context.ctx_refs ?? {}));
    this.ctx = new Members(
      (name) => this.variable(name),
      () => this.variables(),
    );
    this.steps = new Members(
      (name) => this.#stepRoot(name),
      () => this.stepViews(),
    );
  }

  /** A variable or, below it, an input. */
  variable(name: string): unknown {
    const written = this.written(name);
    return written === undefined ? ownMember(this.context.workload, name) : written;
  }

  /** A variable somebody wrote by `set`; undefined where nobody did. */
  written(name: string): unknown {
    if (!Object.hasOwn(this.#written, name)) return undefined;
    const value = this.#written[name] ?? null;
    const ref = this.#refs.get(name);
    return ref === undefined ? value : stepValue(value, ref, this.#payloads);
  }

  /** All variables over all inputs, as JSON. */
  variables(): JsonMap {
    const written = Object.keys(this.#written).map((name) => [name, plainOf(this.written(name))] as const);
    return Object.fromEntries([...Object.entries(this.context.workload), ...written]);
  }

  /** Writes a variable at `path`, next to what is there already. */
  write(path: readonly string[], value: Json): void {
    const [name = '', ...rest] = path;
    const present = rest.length === 0 ? undefined : plainOf(this.variable(name));
    const others = Object.entries(this.#written).filter(([key]) => key !== name);
    this.#written = Object.fromEntries([...others, [name, withValueAt(present, rest, value)]]);
    this.#refs.delete(name);
    this.writes.write(path, value);
  }

  /** Writes again what an earlier worker wrote. Throws NeedPayload; what was written by then may be written again. */
  restore(written: JsonMap): void {
    for (const [path, value] of Object.entries(written)) this.write(path.split('.'), value);
  }

  /** The value of a step that has ended; undefined for any other name. */
  step(name: string): unknown {
    const step = this.#step(name);
    if (step === undefined || (step.status === 'skipped' && step.activation === 0)) return undefined;
    return stepValue(step.value, step.ref, this.#payloads);
  }

  stepNames(): readonly string[] {
    return Object.keys(this.context.steps);
  }

  /** `steps` as JSON, values in full. */
  stepViews(): JsonMap {
    return Object.fromEntries(
      this.stepNames().map((name) => [name, { ...this.#view(name), data: plainOf(this.step(name)) }]),
    );
  }

  #stepRoot(name: string): unknown {
    if (this.#step(name) === undefined) return undefined;
    return new Members(
      (key) => (key === 'data' ? this.step(name) : ownMember(this.#view(name), key)),
      () => ({ ...this.#view(name), data: plainOf(this.step(name)) }),
    );
  }

  #step(name: string): StepSnapshot | undefined {
    const { steps } = this.context;
    return Object.hasOwn(steps, name) ? steps[name] : undefined;
  }

  /** A step without its data. */
  #view(name: string): JsonMap {
    const step = this.#step(name);
    if (step === undefined) return {};
    const error: unknown = step.error;
    return {
      status: step.status,
      ref: step.ref,
      error: isMap(error) ? { ...error, status: error['status_code'] ?? null } : null,
      results: step.tasks ?? null,
      failed_task: step.failed_task ?? null,
      activation: step.activation,
    };
  }
}
