/**
 * What tools would have answered. The script is asked once for each try, with the task as it would have been run; it
 * takes the first outcome that fits and writes down what was tried, so that an author sees what was not provided for.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { Task } from '../../machines/playbook/document.ts';
import type { DefaultOutcome, ScriptedError, ScriptedOutcome, SimulationRequest } from '../../machines/simulation.ts';
import { retryableKinds } from '../tools/errors.ts';
import type { ToolFailure, ToolOutcome } from '../tools/tool.ts';
import type { Templates } from '../worker/templates.ts';
import type { RenderedTask } from '../worker/try.ts';

/** The command a try belongs to. */
export interface TriedCommand {
  readonly commandId: number;
  readonly attempt: number;
  readonly executionId: number;
  readonly path: string;
  readonly step: string;
  readonly activation: number;
  readonly iteration: number | null;
}

export interface TryRecord extends TriedCommand {
  /** Null for the only tool of a step. */
  readonly task: string | null;
  readonly kind: string;
  readonly try: number;
  readonly rendered: JsonMap;
  /** Place of the outcome in the script; null: nothing in it fitted. */
  readonly outcome: number | null;
  /** How it was answered without an outcome: really evaluated, by a child, or by the default. */
  readonly answeredBy: 'script' | 'tool' | 'child' | 'default';
  readonly atMs: number;
}

/** What is to happen to a try; null: do it. */
export type Fate = { readonly outcome: ToolOutcome; readonly afterMs: number; readonly workerLost: boolean } | null;

/** Limit of a try where the task names none, in milliseconds (language 15); the others have none. */
const TIMED_KINDS: ReadonlySet<string> = new Set(['python', 'javascript', 'shell', 'postgres', 'duckdb', 'transfer']);
const TOOL_TIMEOUT_MS = 300_000;
const TIMEOUT_CODES: Readonly<Record<string, string>> = {
  http: 'CONN_TIMEOUT',
  python: 'PY_TIMEOUT',
  javascript: 'JS_TIMEOUT',
};
const UNSCRIPTED: ScriptedError = {
  kind: 'unknown',
  code: 'UNSCRIPTED',
  message: 'no scripted outcome fits this try',
  statusCode: null,
  retryable: false,
};

export class Script {
  readonly tries: TryRecord[] = [];
  readonly #request: Pick<SimulationRequest, 'outcomes' | 'defaultOutcome' | 'pureTools'>;
  readonly #templates: Templates;
  readonly #used = new Map<number, number>();
  readonly #triesOf = new Map<string, number>();
  readonly #fates = new Map<string, Fate>();

  constructor(request: Pick<SimulationRequest, 'outcomes' | 'defaultOutcome' | 'pureTools'>, templates: Templates) {
    this.#request = request;
    this.#templates = templates;
  }

  /** Places of the outcomes no try has used. */
  unused(): readonly number[] {
    return this.#request.outcomes.flatMap((_, index) => (this.#used.has(index) ? [] : [index]));
  }

  /** Asked again for the same try, it answers the same. Throws what a condition throws. */
  fateOf(command: TriedCommand, task: Task, tryNumber: number, rendered: RenderedTask, atMs: number): Fate {
    const key = `${command.commandId}:${command.attempt}:${task.name}:${tryNumber}`;
    const known = this.#fates.get(key);
    if (known !== undefined) return known;
    const label = `${command.commandId}:${task.name}`;
    const count = (this.#triesOf.get(label) ?? 0) + 1;
    const tried = { ...command, task: task.name === `${command.step}_task` ? null : task.name, kind: task.kind };
    const made = { ...tried, try: count, rendered: renderedOf(rendered), atMs };
    const index = this.#request.outcomes.findIndex((each, place) => this.#fits(each, place, made, task.name));
    // Only now: a condition that throws leaves no half of a try behind.
    this.#triesOf.set(label, count);
    const outcome = this.#request.outcomes[index];
    const answeredBy = outcome === undefined ? this.#answerer(task) : 'script';
    this.tries.push({ ...made, outcome: outcome === undefined ? null : index, answeredBy });
    if (outcome !== undefined) this.#used.set(index, (this.#used.get(index) ?? 0) + 1);
    const said = outcome ?? (answeredBy === 'default' ? defaultOf(this.#request.defaultOutcome) : null);
    const fate = said === null ? null : fateOf(task.kind, said, outcome?.workerLost ?? false, rendered.timeoutSeconds);
    this.#fates.set(key, fate);
    return fate;
  }

  #answerer({ kind }: Task): TryRecord['answeredBy'] {
    if (kind === 'playbook') return 'child';
    return kind === 'noop' && this.#request.pureTools ? 'tool' : 'default';
  }

  #fits(
    scripted: ScriptedOutcome,
    index: number,
    tried: Omit<TryRecord, 'outcome' | 'answeredBy'>,
    label: string,
  ): boolean {
    const { times } = scripted;
    if (scripted.step !== tried.step) return false;
    if (times !== null && (this.#used.get(index) ?? 0) >= times) return false;
    const isSaid =
      agrees(scripted.path, tried.path) &&
      agrees(scripted.task, label) &&
      agrees(scripted.kind, tried.kind) &&
      agrees(scripted.activation, tried.activation) &&
      agrees(scripted.iteration, tried.iteration) &&
      agrees(scripted.try, tried.try);
    if (!isSaid || scripted.when === null) return isSaid;
    const { rendered } = tried;
    return this.#templates.condition(scripted.when, {
      lookup: (name) => (Object.hasOwn(rendered, name) ? rendered[name] : undefined),
    });
  }
}

function agrees(said: string | number | null, found: string | number | null): boolean {
  return said === null || said === found;
}

/** The task's own fields and its inputs; code is text that is never rendered differently from try to try. */
function renderedOf({ fields, input }: RenderedTask): JsonMap {
  const { code: _, ...shown } = fields;
  return { ...shown, input };
}

function defaultOf(outcome: SimulationRequest['defaultOutcome']): DefaultOutcome {
  return outcome === 'fail' ? { result: null, error: UNSCRIPTED, durationMs: 0 } : outcome;
}

function fateOf(kind: string, said: DefaultOutcome, workerLost: boolean, timeoutSeconds: number | null): Fate {
  const limitMs = timeoutSeconds === null ? (TIMED_KINDS.has(kind) ? TOOL_TIMEOUT_MS : null) : timeoutSeconds * 1000;
  if (!workerLost && limitMs !== null && said.durationMs > limitMs) {
    return { outcome: failed(kind, timedOut(kind, limitMs), null), afterMs: limitMs, workerLost: false };
  }
  const outcome = said.error === null ? succeeded(kind, said.result) : failed(kind, said.error, said.result);
  return { outcome, afterMs: said.durationMs, workerLost };
}

function timedOut(kind: string, limitMs: number): ScriptedError {
  const message = `${kind} timed out after ${limitMs / 1000} s`;
  return { kind: 'timeout', code: TIMEOUT_CODES[kind] ?? 'TOOL_TIMEOUT', message, statusCode: null, retryable: null };
}

function succeeded(kind: string, result: Json): ToolOutcome {
  return { ok: true, data: result, ...extrasOf(kind, result, 200, null) };
}

function failed(source: string, error: ScriptedError, data: Json): ToolFailure {
  const { kind, code, message, statusCode } = error;
  const known: Readonly<Record<string, boolean>> = retryableKinds;
  return {
    ok: false,
    error: { kind, code, message, retryable: error.retryable ?? known[kind] ?? false, status_code: statusCode },
    data,
    ...extrasOf(source, data, statusCode, code),
  };
}

/** `output.http` and `output.pg`, as far as the script says what would stand there (language 7.3). */
function extrasOf(kind: string, data: Json, status: number | null, code: string | null) {
  const fields: JsonMap = isMap(data) ? data : {};
  const headers = fields['headers'];
  const given = typeof fields['status'] === 'number' ? fields['status'] : status;
  if (kind === 'http') return { http: { status: given, headers: isMap(headers) ? headers : {} } };
  return kind === 'postgres' && code !== null ? { pg: { code, sqlstate: code } } : {};
}
