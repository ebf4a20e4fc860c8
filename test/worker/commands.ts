/** Builders for the tests of the worker: a command, tools that answer from a script, and a client that is not called. */
import type { Iteration, RenderContext } from '../../machines/execution/render-context.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import { DEFAULT_LIMITS } from '../../machines/playbook/template/run.ts';
import { readTask } from '../../machines/playbook/tool-config.ts';
import type { Tool, ToolCall, ToolOutcome } from '../../src/tools/tool.ts';
import type { WorkerCommand } from '../../src/worker/command.ts';
import type { ExecuteDeps, WorkerClient } from '../../src/worker/execute.ts';
import { CachingTemplates } from '../../src/worker/template-cache.ts';

export interface CommandOptions {
  /** A map is a single tool, a list a pipeline. */
  readonly tool: JsonMap | readonly JsonMap[];
  readonly context?: Partial<RenderContext>;
  readonly iteration?: Iteration;
  readonly timeoutSeconds?: number;
  readonly resume?: WorkerCommand['resume'];
  readonly step?: string;
}

export function commandOf(options: CommandOptions): WorkerCommand {
  const { tool, step = 'fetch' } = options;
  const pipeline = Array.isArray(tool);
  const configs: readonly JsonMap[] = Array.isArray(tool) ? tool : [tool];
  return {
    commandId: 41_012,
    executionId: 41_007,
    catalogId: 2003,
    attempt: 1,
    step,
    toolKind: String(configs[0]?.['kind']),
    tasks: configs.map((config, index) => readTask(config, pipeline ? `task_${index}` : `${step}_task`)),
    pipeline,
    context: {
      execution_id: '41007',
      catalog_id: '2003',
      path: 'demo/greet',
      version: 3,
      workload: {},
      args: {},
      ctx: {},
      steps: {},
      ...options.context,
    },
    iteration: options.iteration ?? null,
    timeoutSeconds: options.timeoutSeconds ?? 60,
    trace: null,
    tracestate: null,
    resume: options.resume ?? null,
  };
}

/** Answers `result` as noop does. */
export const noop: Tool = {
  kind: 'noop',
  run: async ({ fields }) => ({ ok: true, data: fields['result'] ?? { status: 'ok', message: 'noop' } }),
};

/** A tool of this kind that gives its answers one after another, the last one for ever. */
export function scripted(kind: string, answers: readonly (ToolOutcome | ((call: ToolCall) => unknown))[]) {
  const calls: ToolCall[] = [];
  const tool: Tool = {
    kind,
    async run(call) {
      const answer = answers[Math.min(calls.length, answers.length - 1)];
      calls.push(call);
      // A script may answer with what no tool should answer with.
      return (typeof answer === 'function' ? await answer(call) : answer) as ToolOutcome;
    },
  };
  return { tool, calls };
}

export const ok = (data: Json): ToolOutcome => ({ ok: true, data });

export function bad(kind: string, retryable = false, data: Json = null): ToolOutcome & { ok: false } {
  return { ok: false, data, error: { kind, code: kind.toUpperCase(), message: `a ${kind}`, retryable } };
}

const refuse = (name: string) => async () => {
  throw new Error(`${name} is not expected here`);
};

export const noClient: WorkerClient = {
  execute: refuse('execute'),
  events: refuse('events'),
  resolveResult: refuse('resolveResult'),
  credential: refuse('credential'),
  putResult: refuse('putResult'),
  catalogGet: refuse('catalogGet'),
};

export function executeDeps(tools: readonly Tool[], client: Partial<WorkerClient> = {}): ExecuteDeps {
  return {
    client: { ...noClient, ...client },
    tools: new Map([noop, ...tools].map((tool) => [tool.kind, tool])),
    templates: new CachingTemplates(DEFAULT_LIMITS),
    keychain: { resolve: async () => ({ available: false, reason: 'not_found' }) },
    workerId: 'worker-7',
    serverUrl: 'http://callboard.test',
    pipelineMaxTries: 50,
    resultInlineMaxBytes: 2000,
    now: () => performance.now(),
    outsideSlot: (wait) => wait(),
  };
}

export const never = new AbortController().signal;
