/**
 * One try of one task (language 7.2): inputs are rendered, then every other field with the inputs as bare names, then
 * the credential is read, then the tool runs. Whatever goes wrong on the way is a failed outcome; only the end of the
 * command itself (stop order, step time-out) is thrown.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { Task } from '../../machines/playbook/document.ts';
import { keychainOf } from '../../machines/playbook/references.ts';
import { isMapField, isTextField } from '../../machines/playbook/tool-fields.ts';
import type { ResolvedAuth, Tool, ToolCall, ToolOutcome, ToolTrace } from '../tools/tool.ts';
import type { WorkerCommand } from './command.ts';
import { type CredentialReader, resolveAuth } from './credentials.ts';
import { type HostClient, hostOf } from './host.ts';
import type { KeychainReader } from './keychain.ts';
import { checkedOutcome, engineFailure, thrownFailure } from './outcome.ts';
import { type ChildClient, runChild } from './playbook.ts';
import { type Rendering, renderFailure } from './rendering.ts';
import type { CommandScope } from './scope.ts';
import type { Scrubber } from './scrub.ts';
import type { WorkerTime } from './time.ts';

export interface TryDeps {
  readonly command: WorkerCommand;
  readonly scope: CommandScope;
  readonly rendering: Rendering;
  readonly scrubber: Scrubber;
  readonly tools: ReadonlyMap<string, Tool>;
  readonly client: CredentialReader & ChildClient & HostClient;
  readonly keychain: KeychainReader;
  readonly workerId: string;
  readonly serverUrl: string;
  readonly signal: AbortSignal;
  readonly outsideSlot: <T>(wait: () => Promise<T>) => Promise<T>;
  readonly trace?: ToolTrace | null;
  readonly time: WorkerTime;
  /** Null: tries are done by their tools. */
  readonly rehearse: Rehearse | null;
}

/** A task ready to run. */
export interface RenderedTask {
  readonly fields: JsonMap;
  readonly input: JsonMap;
  readonly auth: ResolvedAuth | null;
  readonly timeoutSeconds: number | null;
}

/** The outcome of a try without its tool or child, or null: it is done in the ordinary way. Asked twice, it answers alike. */
export type Rehearse = (
  task: Task,
  tryNumber: number,
  rendered: RenderedTask,
  signal: AbortSignal,
) => Promise<ToolOutcome | null>;

/** Kinds whose code also gets the names of the iteration as inputs (language 9.3). */
const ITERATION_INPUT_KINDS: ReadonlySet<string> = new Set(['python', 'javascript']);

/** How long a stopped tool may take to let go before its command ends without it. Milliseconds. */
const LET_GO_MS = 5_000;

export async function runTry(task: Task, tryNumber: number, deps: TryDeps): Promise<ToolOutcome> {
  const rendered = await renderTask(task, deps);
  if ('ok' in rendered) return rendered;
  const rehearsed = deps.rehearse === null ? null : await deps.rehearse(task, tryNumber, rendered, deps.signal);
  if (rehearsed !== null) return rehearsed;
  if (task.kind === 'playbook') return runPlaybook(task, tryNumber, rendered, deps);
  const tool = deps.tools.get(task.kind);
  if (tool === undefined) {
    return engineFailure('config', 'TOOL_KIND', `tool kind '${task.kind}' is not available in this worker`);
  }
  return runTool(tool, callOf(task, rendered, deps));
}

/** Renders a task and resolves its credential; a failed outcome where that is not possible. */
export async function renderTask(task: Task, deps: TryDeps): Promise<RenderedTask | (ToolOutcome & { ok: false })> {
  const { scope, rendering } = deps;
  try {
    await readKeychain(task, deps);
    const input = await renderInput(task, deps);
    scope.showInput(input);
    const fields: [string, Json][] = [];
    for (const [name, source] of Object.entries(task.fields)) {
      fields.push([name, await renderField(rendering, task.kind, name, source)]);
    }
    const { auth: authField = null, ...own } = Object.fromEntries(fields);
    const timeoutSeconds = secondsOf(await rendering.value(task.timeout));
    if (timeoutSeconds === 'unusable') {
      return engineFailure('config', 'TOOL_FIELD', "'timeout' must be a positive number of seconds");
    }
    // Attached databases have a credential each, which the tool asks for by itself (language 11.11).
    const attached = task.kind === 'duckdb' && isAttachMap(authField);
    if (attached) return { fields: { ...own, auth: authField }, input, auth: null, timeoutSeconds };
    const resolved = await resolve(authField, deps);
    return 'failure' in resolved ? resolved.failure : { fields: own, input, auth: resolved.auth, timeoutSeconds };
  } catch (error) {
    deps.signal.throwIfAborted();
    return renderFailure(error);
  } finally {
    scope.showInput(null);
  }
}

/** A header that is null is not sent; every other text field has a text. Of a map, text is what it holds. */
function renderField(rendering: Rendering, kind: string, name: string, source: Json): Promise<Json> {
  const isWholeMap = typeof source === 'string' && isMapField(kind, name);
  if (isWholeMap || !isTextField(kind, [name])) return rendering.value(source);
  return name === 'headers' ? rendering.optionalText(source) : rendering.text(source);
}

/** Reads the entries this task mentions and hides what they hold; a command that mentions none pays nothing. */
async function readKeychain(task: Task, { command, scope, keychain, scrubber, signal }: TryDeps): Promise<void> {
  const { keychain: scopes } = command.context;
  if (scopes === undefined) return;
  const mentioned = keychainOf(task);
  const names = mentioned.everyKeychainEntry ? Object.keys(scopes) : mentioned.keychain;
  const { catalogId, executionId, step } = command;
  const values = await Promise.all(
    names.map(async (name) => {
      const value = await keychain.resolve({ catalogId, name, scope: scopes[name] ?? null, executionId, step, signal });
      if (value.available) scrubber.learnFrom(value.data);
      return [name, value] as const;
    }),
  );
  scope.showKeychain(new Map(values));
}

async function renderInput(task: Task, { scope, rendering }: TryDeps): Promise<JsonMap> {
  const { input: merged, stepInput = [] } = task;
  const own = await rendering.value(chosen(merged, (name) => !stepInput.includes(name)));
  const given = stepInput.length === 0 ? {} : await renderStepInput(task, scope, rendering);
  const input = { ...mapOf(own), ...given };
  if (!ITERATION_INPUT_KINDS.has(task.kind)) return input;
  return { ...(await rendering.whole(() => scope.iterationInputs())), ...input };
}

/** Once per command (language 7.2), save for what comes from the keychain: a later try may need a newer token. */
async function renderStepInput(task: Task, scope: CommandScope, rendering: Rendering): Promise<JsonMap> {
  if (scope.stepInput !== null) return scope.stepInput;
  const source = chosen(task.input, (name) => task.stepInput?.includes(name) === true);
  const rendered = mapOf(await rendering.value(source));
  if (!JSON.stringify(source).includes('keychain')) scope.keepStepInput(rendered);
  return rendered;
}

function chosen(map: JsonMap, wanted: (name: string) => boolean): JsonMap {
  return Object.fromEntries(Object.entries(map).filter(([name]) => wanted(name)));
}

function mapOf(value: Json): JsonMap {
  return isMap(value) ? value : {};
}

function isAttachMap(auth: Json): boolean {
  return isMap(auth) && Object.keys(auth).length > 0 && Object.values(auth).every(isMap);
}

async function resolve(auth: Json, deps: TryDeps): ReturnType<typeof resolveAuth> {
  const { client, command, scrubber, workerId, signal } = deps;
  if (auth === null || auth === '') return { auth: null };
  const resolved = await resolveAuth(client, { auth, executionId: command.executionId, workerId, signal });
  if ('auth' in resolved && resolved.auth !== null) scrubber.learn(resolved.auth);
  return resolved;
}

function callOf(task: Task, rendered: RenderedTask, deps: TryDeps): ToolCall {
  const { command, rendering, scope, signal, serverUrl } = deps;
  const { fields, input, auth, timeoutSeconds } = rendered;
  return {
    kind: task.kind,
    fields,
    input,
    context: () => rendering.whole(() => scope.everything()),
    auth,
    timeoutMs: timeoutSeconds === null ? null : timeoutSeconds * 1000,
    signal,
    executionId: command.executionId,
    commandId: command.commandId,
    step: command.step,
    task: task.name,
    trace: deps.trace ?? null,
    serverUrl,
    host: hostOf(
      deps,
      task.name,
      (ref) => rendering.payload(ref),
      (auth) => resolve(auth, deps),
    ),
  };
}

/** A tool that was told to stop gets a moment to leave nothing behind; then the command ends whatever it does. */
async function runTool(tool: Tool, call: ToolCall): Promise<ToolOutcome> {
  const { signal } = call;
  signal.throwIfAborted();
  const running = tool.run(call).then(checkedOutcome, thrownFailure);
  const { promise: stopped, resolve: stop } = Promise.withResolvers<null>();
  let timer: NodeJS.Timeout | undefined;
  const onAbort = () => {
    timer = setTimeout(() => stop(null), LET_GO_MS);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    const outcome = await Promise.race([running, stopped]);
    signal.throwIfAborted();
    return outcome ?? engineFailure('unknown', 'TOOL_STUCK', 'the tool did not stop when it was told to');
  } finally {
    signal.removeEventListener('abort', onAbort);
    clearTimeout(timer);
  }
}

async function runPlaybook(task: Task, tryNumber: number, rendered: RenderedTask, deps: TryDeps): Promise<ToolOutcome> {
  try {
    return await runChild(deps.client, childCallOf(task, tryNumber, rendered, deps));
  } catch (error) {
    deps.signal.throwIfAborted();
    return thrownFailure(error);
  }
}

/** Secrets do not travel into the inputs of another execution. */
export function childCallOf(task: Task, tryNumber: number, rendered: RenderedTask, deps: TryDeps) {
  return {
    executionId: deps.command.executionId,
    commandId: deps.command.commandId,
    task: task.name,
    tryNumber,
    fields: deps.scrubber.map(rendered.fields),
    input: deps.scrubber.map(rendered.input),
    timeoutSeconds: rendered.timeoutSeconds,
    signal: deps.signal,
    outsideSlot: deps.outsideSlot,
    time: deps.time,
  };
}

function secondsOf(value: Json): number | null | 'unusable' {
  if (value === null || value === '') return null;
  const seconds = typeof value === 'string' ? Number(value) : value;
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds > 0 ? seconds : 'unusable';
}
