/**
 * The names a template on the server finds (language 8.2, 8.4): reserved roots first, then what is about the activation
 * that ended, written variables, step values, inputs, and the playbook's own path and version.
 */
import type { Json, JsonMap } from '../json.ts';
import { known, present } from '../known.ts';
import { Facade, type Scope } from '../playbook/template/facade.ts';
import { stepValue } from '../playbook/values.ts';
import type { Body } from './materials.ts';
import { envelopeExtras, errorMap, errorOf, eventNames, lastTaskOf } from './outcome.ts';
import type { Situation, Stage } from './stage.ts';

/** What of a decision's stage is only read. */
export type ReadStage = Pick<Stage, 'identity' | 'materials' | 'plan' | 'run' | 'payload'>;

const EMPTY: JsonMap = Object.freeze(Object.create(null));

export class ServerScope implements Scope {
  readonly #stage: ReadStage;
  readonly #situation: Situation | null;
  readonly #extra: JsonMap;

  /** `extra` holds names of one evaluation only (none of them reserved). */
  constructor(stage: ReadStage, situation: Situation | null, extra: JsonMap = EMPTY) {
    this.#stage = stage;
    this.#situation = situation;
    this.#extra = extra;
  }

  lookup(name: string): unknown {
    const { identity, materials, plan } = this.#stage;
    const situation = this.#situation;
    switch (name) {
      case 'workload':
        return materials.workload;
      case 'ctx':
        return new Variables(this.#stage);
      case 'steps':
        return new Steps(this.#stage);
      case 'args':
        return materials.args;
      case 'execution_id':
        return String(identity.executionId);
      case 'catalog_id':
        return String(identity.catalogId);
      case 'job':
        return jobOf(identity.executionId);
      case 'iter':
        return EMPTY;
      case 'keychain':
        return undefined;
      case 'event':
        return situation === null ? undefined : new Occurrence(this.#stage, situation);
    }
    if (situation !== null) {
      if (name === 'output') return new Envelope(this.#stage, situation);
      if (name === 'error') return errorOf(situation);
      if (name === 'loop' && situation.isLoop) return loopOf(present(situation.total));
    }
    if (Object.hasOwn(this.#extra, name)) return this.#extra[name];
    const written = writtenValue(this.#stage, name);
    if (written !== undefined) return written;
    if (plan.steps.has(name)) {
      const value = endedValue(this.#stage, name);
      if (value !== undefined) return value;
    }
    if (Object.hasOwn(materials.workload, name)) return materials.workload[name];
    if (name === 'result' && situation !== null) return bodyValue(this.#stage, situation.body);
    if (name === 'path') return identity.path;
    if (name === 'version') return identity.version;
    return undefined;
  }
}

export function jobOf(executionId: number): JsonMap {
  const id = String(executionId);
  return { uuid: id, execution_id: id, id };
}

function loopOf(length: number): JsonMap {
  return { index: Math.max(0, length - 1), first: length <= 1, last: true, length, done: true };
}

/** A written variable, or undefined. Large ones are stored apart and resolve when they are read. */
export function writtenValue(stage: ReadStage, name: string): unknown {
  const found = written(stage, name);
  if (found === undefined || found.ref === null) return found?.value;
  return stepValue(found.value, found.ref, (wanted) => stage.payload(wanted));
}

/** A written variable as the log has it; with a reference, `value` is a summary. */
export function written(
  stage: ReadStage,
  name: string,
): { readonly value: Json; readonly ref: string | null } | undefined {
  if (!Object.hasOwn(stage.run.written, name)) return undefined;
  const { values, references } = known(stage.materials.body(known(stage.run.written[name])));
  const ref = references?.[name];
  return { value: known(values?.[name]), ref: typeof ref === 'string' ? ref : null };
}

/** The value of a step that has ended at least once; undefined before that. */
function endedValue(stage: ReadStage, name: string): unknown {
  const step = stage.run.steps[name];
  if (step === undefined || step.value === null) return undefined;
  // A command that was closed without a word has the value null.
  return bodyValue(stage, stage.materials.body(step.value) ?? null);
}

export function bodyValue(stage: ReadStage, body: Body | null): Json | Facade {
  if (body === null || body.data === undefined) return null;
  return stepValue(body.data, body.reference?.ref ?? null, (ref) => stage.payload(ref));
}

/** `ctx`: the inputs under the written variables. */
class Variables extends Facade {
  readonly #stage: ReadStage;

  constructor(stage: ReadStage) {
    super();
    this.#stage = stage;
  }

  member(key: string | number): unknown {
    const name = String(key);
    const written = writtenValue(this.#stage, name);
    if (written !== undefined) return written;
    const { workload } = this.#stage.materials;
    return Object.hasOwn(workload, name) ? workload[name] : undefined;
  }

  plain(): unknown {
    const all: { [name: string]: unknown } = { ...this.#stage.materials.workload };
    for (const name of Object.keys(this.#stage.run.written)) {
      const value = writtenValue(this.#stage, name);
      all[name] = value instanceof Facade ? value.plain() : value;
    }
    return all;
  }
}

/** `steps`: a map of step name to `{status, data, ref, error, results, failed_task, activation}`. */
class Steps extends Facade {
  readonly #stage: ReadStage;

  constructor(stage: ReadStage) {
    super();
    this.#stage = stage;
  }

  member(key: string | number): unknown {
    const name = String(key);
    const step = this.#stage.run.steps[name];
    if (step === undefined || (step.value === null && step.status !== 'skipped')) return undefined;
    return new StepView(this.#stage, name);
  }

  plain(): unknown {
    const all: { [name: string]: unknown } = {};
    for (const name of Object.keys(this.#stage.run.steps)) {
      const view = this.member(name);
      if (view instanceof Facade) all[name] = view.plain();
    }
    return all;
  }
}

class StepView extends Facade {
  readonly #stage: ReadStage;
  readonly #name: string;

  constructor(stage: ReadStage, name: string) {
    super();
    this.#stage = stage;
    this.#name = name;
  }

  member(key: string | number): unknown {
    const step = known(this.#stage.run.steps[this.#name]);
    const body = this.#stage.materials.body(step.value) ?? null;
    switch (key) {
      case 'data':
        return bodyValue(this.#stage, body);
      case 'status':
        if (step.status !== 'open') return step.status;
        return step.failure || (body !== null && body.error !== null) ? 'failed' : 'completed';
      case 'ref':
        return body?.reference?.ref ?? null;
      case 'error':
        return step.failure ? errorMap(step.failure) : body?.error ? errorMap(body.error) : null;
      case 'results':
        return body?.tasks ?? null;
      case 'failed_task':
        return body?.failedTask ?? null;
      case 'activation':
        return step.activation;
    }
    return undefined;
  }

  plain(): unknown {
    const view: { [name: string]: unknown } = {};
    for (const key of ['status', 'data', 'ref', 'error', 'results', 'failed_task', 'activation']) {
      const value = this.member(key);
      view[key] = value instanceof Facade ? value.plain() : value;
    }
    return view;
  }
}

/** `output`: the outcome envelope of the activation that ended. */
class Envelope extends Facade {
  readonly #stage: ReadStage;
  readonly #situation: Situation;
  readonly #extras: JsonMap;

  constructor(stage: ReadStage, situation: Situation) {
    super();
    this.#stage = stage;
    this.#situation = situation;
    this.#extras = envelopeExtras(situation);
  }

  member(key: string | number): unknown {
    if (key === 'data')
      return this.#situation.outcome === 'skipped' ? undefined : bodyValue(this.#stage, this.#situation.body);
    if (key === 'ref') return this.#situation.body?.reference?.ref ?? null;
    if (key === 'http') return this.#http();
    return Object.hasOwn(this.#extras, key) ? this.#extras[String(key)] : undefined;
  }

  plain(): unknown {
    const data = this.member('data');
    const http = this.#http();
    return {
      ...this.#extras,
      ...(http === undefined ? {} : { http: http.plain() }),
      data: data instanceof Facade ? data.plain() : (data ?? null),
      ref: this.member('ref'),
    };
  }

  /** Undefined where the task was none of kind http, or had no answer. */
  #http(): HttpAnswer | undefined {
    const task = lastTaskOf(this.#situation);
    if (task?.kind !== 'http') return undefined;
    const { step, outcome, body } = this.#situation;
    const value = bodyValue(this.#stage, body);
    // A pipeline that succeeded has the data of each task under its label.
    const data = step.step.pipeline && outcome === 'ok' && value instanceof Facade ? value.member(task.label) : value;
    return data instanceof Facade && data.member('status_code') !== undefined ? new HttpAnswer(data) : undefined;
  }
}

/** `output.http`, read from the data of the task, which may be stored apart. */
class HttpAnswer extends Facade {
  readonly #data: Facade;

  constructor(data: Facade) {
    super();
    this.#data = data;
  }

  member(key: string | number): unknown {
    return key === 'status' || key === 'headers' ? this.#data.member(SOURCES[key]) : undefined;
  }

  plain(): unknown {
    const headers = this.#data.member('headers');
    return {
      status: this.#data.member('status_code'),
      headers: headers instanceof Facade ? headers.plain() : (headers ?? {}),
    };
  }
}

const SOURCES = { status: 'status_code', headers: 'headers' } as const;

/** `event`, whose name also equals its older spellings. */
class Occurrence extends Facade {
  readonly #stage: ReadStage;
  readonly #situation: Situation;

  constructor(stage: ReadStage, situation: Situation) {
    super();
    this.#stage = stage;
    this.#situation = situation;
  }

  member(key: string | number): unknown {
    switch (key) {
      case 'name':
        return new EventName(this.#situation);
      case 'step':
        return this.#situation.step.step.name;
      case 'timestamp':
        return this.#situation.at;
      case 'payload':
        return new Envelope(this.#stage, this.#situation);
    }
    return undefined;
  }

  plain(): unknown {
    return {
      name: eventNames(this.#situation).name,
      step: this.#situation.step.step.name,
      timestamp: this.#situation.at,
      payload: new Envelope(this.#stage, this.#situation).plain(),
    };
  }
}

class EventName extends Facade {
  readonly #situation: Situation;

  constructor(situation: Situation) {
    super();
    this.#situation = situation;
  }

  member(): unknown {
    return undefined;
  }

  plain(): string {
    return eventNames(this.#situation).name;
  }

  override equals(other: unknown): boolean | undefined {
    return typeof other === 'string' ? eventNames(this.#situation).aliases.has(other) : undefined;
  }
}
