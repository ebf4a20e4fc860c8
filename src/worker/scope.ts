/**
 * Where the templates of a command find their names (language 8.3), in the order of language 8.4: reserved roots, then
 * what the pipeline and the iteration made, then `ctx` writes, step values, inputs, and last the names of the command
 * itself. One scope lives as long as its command; every `set` and every finished task changes what later renders see.
 */
import type { Iteration } from '../../machines/execution/render-context.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import { isMap } from '../../machines/json.ts';
import type { EntryValue, KeychainRoot } from '../../machines/keychain/root.ts';
import type { Assignment } from '../../machines/playbook/document.ts';
import type { Scope } from '../../machines/playbook/template/facade.ts';
import { ownMember, type Payloads, stepValue } from '../../machines/playbook/values.ts';
import type { WorkerCommand } from './command.ts';
import { keychainRoot } from './keychain.ts';
import { plainOf } from './members.ts';
import type { ScopeState } from './scope-state.ts';
import { Snapshot } from './snapshot.ts';
import { withValueAt } from './variables.ts';

export interface ScopeFacts {
  readonly workerId: string;
  readonly serverUrl: string;
}

/** An assignment whose value is rendered. */
export interface RenderedAssignment {
  readonly target: Assignment;
  readonly value: Json;
}

interface CurrentTry {
  readonly name: string;
  readonly kind: string;
  /** Of this visit, from 1. */
  readonly attempt: number;
}

export class CommandScope implements Scope {
  readonly snapshot: Snapshot;
  readonly #command: WorkerCommand;
  readonly #facts: ScopeFacts;
  readonly #payloads: Payloads;
  /** Data of ended tasks, in the order in which they last ended. */
  readonly #ended = new Map<string, Json>();
  /** Names made by `iter.` and by bare keys of a task `set`. */
  #iter: JsonMap = {};
  #locals: JsonMap = {};
  /** Rendered inputs, bare names while their tool is rendered. */
  #input: JsonMap | null = null;
  #try: CurrentTry | null = null;
  #previous: Json | undefined;
  #keychain: KeychainRoot = keychainRoot(new Map());
  #output: unknown;
  #envelope: JsonMap | null = null;
  #stepInput: JsonMap | null = null;

  constructor(command: WorkerCommand, facts: ScopeFacts, payloads: Payloads) {
    this.#command = command;
    this.#facts = facts;
    this.#payloads = payloads;
    this.snapshot = new Snapshot(command.context, payloads);
  }

  lookup(name: string): unknown {
    // Reserved as well, though only the server has one: an input of that name must not stand in for it.
    if (name === 'event') return undefined;
    const reserved = this.#reserved(name);
    if (reserved !== undefined) return reserved;
    const made = this.#made(name);
    if (made !== undefined) return made;
    const written = this.snapshot.written(name);
    if (written !== undefined) return written;
    const step = this.snapshot.step(name);
    if (step !== undefined) return step;
    const given = ownMember(this.#command.context.workload, name);
    return given === undefined ? this.#lowest(name) : given;
  }

  // ---------------------------------------------------------------- how a pipeline changes the names

  beginTry(current: CurrentTry): void {
    this.#try = current;
    this.#input = null;
  }

  /** The entries a try may read; until the next one shows its own. */
  showKeychain(entries: ReadonlyMap<string, EntryValue>): void {
    this.#keychain = keychainRoot(entries);
  }

  /** Null once the tool is rendered. */
  showInput(input: JsonMap | null): void {
    this.#input = input;
  }

  /** Inputs of the step as they were rendered for the first try; null before that. */
  get stepInput(): JsonMap | null {
    return this.#stepInput;
  }

  keepStepInput(input: JsonMap): void {
    this.#stepInput = input;
  }

  /** `output` is the raw data, with accessors (task `set`). */
  showData(data: Json): void {
    this.#output = stepValue(data, null, this.#payloads);
  }

  /** `output` is the outcome envelope (rules, later tasks). */
  showEnvelope(envelope: JsonMap): void {
    this.#output = envelope;
    this.#envelope = envelope;
  }

  /** The label shows this data from now on; a success is also `_prev`. */
  endTry(label: string, data: Json, ok: boolean): void {
    this.#ended.delete(label);
    this.#ended.set(label, data);
    if (ok) this.#previous = data;
  }

  assign(assignments: readonly RenderedAssignment[]): void {
    for (const { target, value } of assignments) {
      if (target.scope === 'ctx') this.snapshot.write(target.path, value);
      else if (target.scope === 'iter') this.#iter = mapOf(withValueAt(this.#iter, target.path, value));
      else this.#locals = mapOf(withValueAt(this.#locals, target.path, value));
    }
  }

  // ---------------------------------------------------------------- across workers

  state(): ScopeState {
    return {
      ended: [...this.#ended].map(([label, data]) => ({ label, data })),
      iter: this.#iter,
      locals: this.#locals,
      ...(this.#previous === undefined ? {} : { previous: this.#previous }),
      ...(this.#stepInput === null ? {} : { stepInput: this.#stepInput }),
      output: this.#envelope,
    };
  }

  /** Variables are restored by themselves (`Snapshot.restore`): they travel with every report. */
  restore({ ended, iter, locals, previous, stepInput, output }: ScopeState): void {
    for (const { label, data } of ended) this.#ended.set(label, data);
    this.#iter = iter;
    this.#locals = locals;
    this.#previous = previous;
    this.#stepInput = stepInput ?? null;
    if (output !== null) this.showEnvelope(output);
  }

  // ---------------------------------------------------------------- as JSON

  /** Everything a template can see, for code that mentions `context`. Throws NeedPayload. */
  everything(): JsonMap {
    const { workload, args } = this.#command.context;
    const steps = this.snapshot
      .stepNames()
      .filter((name) => this.snapshot.step(name) !== undefined)
      .map((name) => [name, plainOf(this.snapshot.step(name))] as const);
    const variables = this.snapshot.variables();
    return {
      ...this.#own(),
      ...workload,
      ...Object.fromEntries(steps),
      ...variables,
      ...this.#iterationNames(),
      ...Object.fromEntries(this.#ended),
      results: Object.fromEntries(this.#ended),
      ...this.#locals,
      ...this.#input,
      workload,
      ctx: variables,
      args: { ...args, ...this.#input },
      steps: this.snapshot.stepViews(),
      iter: this.#iterAll(),
      execution_id: this.#command.context.execution_id,
      catalog_id: this.#command.context.catalog_id,
      job: this.#job(),
    };
  }

  /** The names that some kinds also get as inputs (language 9.3). Empty outside an iteration. */
  iterationInputs(): JsonMap {
    const { iteration } = this.#command;
    if (iteration?.kind !== 'item') return {};
    return { [iteration.iterator]: plainOf(this.#item(iteration)), ...countersOf(iteration) };
  }

  // ---------------------------------------------------------------- the layers

  /** Names nothing can hide. */
  #reserved(name: string): unknown {
    const { context } = this.#command;
    switch (name) {
      case 'workload':
        return context.workload;
      case 'ctx':
        return this.snapshot.ctx;
      case 'steps':
        return this.snapshot.steps;
      case 'args':
        return this.#input === null ? context.args : { ...context.args, ...this.#input };
      case 'execution_id':
        return context.execution_id;
      case 'catalog_id':
        return context.catalog_id;
      case 'job':
        return this.#job();
      case 'iter':
        return this.#iterRoot();
      case 'keychain':
        return this.#keychain;
      default:
        return undefined;
    }
  }

  /** Input, pipeline and iteration names. */
  #made(name: string): unknown {
    if (this.#input !== null && Object.hasOwn(this.#input, name)) return this.#input[name];
    if (Object.hasOwn(this.#locals, name)) return this.#locals[name];
    switch (name) {
      case 'output':
        return this.#output;
      case 'results':
        return Object.fromEntries(this.#ended);
      case '_task':
        return this.#try?.name;
      case '_attempt':
        return this.#try?.attempt;
      case '_prev':
        return this.#previous === undefined ? undefined : stepValue(this.#previous, null, this.#payloads);
      case 'input':
        return this.#input ?? undefined;
    }
    const data = this.#ended.get(name) ?? this.#ended.get(this.#onlyLabel(name));
    return data === undefined ? this.#iterationName(name) : stepValue(data, null, this.#payloads);
  }

  /** The only task of a single tool also answers to the name of its step. */
  #onlyLabel(name: string): string {
    const { pipeline, step, tasks } = this.#command;
    return !pipeline && name === step ? (tasks[0]?.name ?? name) : name;
  }

  #iterationName(name: string): unknown {
    const { iteration } = this.#command;
    if (iteration === null) return undefined;
    if (iteration.kind === 'claim') return name === '__frame_max_rows' ? iteration.max_rows : undefined;
    if (name === iteration.iterator) return this.#item(iteration);
    if (name === 'loop') return loopOf(iteration);
    return ownMember(countersOf(iteration), name);
  }

  #lowest(name: string): unknown {
    return ownMember(this.#own(), name);
  }

  #own(): JsonMap {
    const { context, step, commandId } = this.#command;
    return {
      path: context.path,
      version: context.version,
      step,
      command_id: commandId,
      worker_id: this.#facts.workerId,
      server_url: this.#facts.serverUrl,
      action: this.#try?.kind ?? this.#command.toolKind,
    };
  }

  #job(): JsonMap {
    const id = this.#command.context.execution_id;
    return { uuid: id, execution_id: id, id };
  }

  // ---------------------------------------------------------------- the iteration

  #item(iteration: Iteration & { kind: 'item' }): unknown {
    return iteration.ref === undefined ? iteration.item : stepValue(iteration.item, iteration.ref, this.#payloads);
  }

  /** `iter` needs a look of its own only where the item is stored apart. */
  #iterRoot(): unknown {
    const { iteration } = this.#command;
    if (iteration?.kind !== 'item') return this.#iter;
    return { ...iterOf(iteration), [iteration.iterator]: this.#item(iteration), ...this.#iter };
  }

  #iterAll(): JsonMap {
    const { iteration } = this.#command;
    if (iteration?.kind !== 'item') return this.#iter;
    return { ...iterOf(iteration), [iteration.iterator]: plainOf(this.#item(iteration)), ...this.#iter };
  }

  #iterationNames(): JsonMap {
    const { iteration } = this.#command;
    return iteration?.kind === 'item' ? { ...this.iterationInputs(), loop: loopOf(iteration) } : {};
  }
}

type Item = Iteration & { kind: 'item' };

function countersOf(iteration: Item): JsonMap {
  return { _index: iteration.index, _total: iteration.total, loop_index: iteration.index };
}

function iterOf({ index, total }: Item): JsonMap {
  return { _index: index, _total: total, _first: index === 0, _last: total !== null && index === total - 1 };
}

function loopOf({ index, total }: Item): JsonMap {
  return {
    index,
    first: index === 0,
    last: total !== null && index === total - 1,
    length: total,
    done: false,
  };
}

function mapOf(value: Json): JsonMap {
  return isMap(value) ? value : {};
}
