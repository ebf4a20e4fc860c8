/** A set of tools and the shortest way to run one: what a worker would hand over, with sensible defaults. */
import { createTools, type ToolOptions, type Tools } from '../../src/tools/registry.ts';
import type { ToolCall, ToolFailure, ToolHost, ToolOutcome, ToolSuccess } from '../../src/tools/tool.ts';

export interface Harness extends AsyncDisposable {
  readonly tools: Tools;
  run(kind: string, fields: ToolCall['fields'], more?: Partial<ToolCall>): Promise<ToolOutcome>;
}

/** Tools with the defaults of the configuration; children see only the given environment and PATH. */
export function openTools(options: Partial<ToolOptions> = {}): Harness {
  const tools = createTools({
    httpMaxResponseBytes: 64 * 1024 * 1024,
    toolTimeoutSeconds: 30,
    pythonBin: 'python3',
    scriptDir: './no-scripts',
    jsMemoryMb: 64,
    jsAllowedModules: [],
    egress: { policy: 'no-metadata', allow: [], deny: [] },
    jsSpares: 1,
    ...options,
  });
  return {
    tools,
    run(kind, fields, more = {}) {
      const tool = tools.get(kind);
      if (tool === undefined) throw new Error(`no tool ${kind}`);
      return tool.run(call(kind, fields, more));
    },
    [Symbol.asyncDispose]: () => tools.close(),
  };
}

const refuse = (what: string) => (): never => {
  throw new Error(`${what} is not expected here`);
};

/** A worker that is not asked for anything. */
export const noHost: ToolHost = {
  credential: refuse('a credential'),
  conceal: refuse('a secret'),
  resolveResult: refuse('a result'),
  putResult: refuse('a result to store'),
  catalogDocument: refuse('the catalog'),
};

function call(kind: string, fields: ToolCall['fields'], more: Partial<ToolCall>): ToolCall {
  return {
    kind,
    fields,
    input: {},
    context: async () => ({}),
    auth: null,
    timeoutMs: null,
    signal: new AbortController().signal,
    executionId: 7,
    commandId: 8,
    step: 'a_step',
    task: 'a_task',
    serverUrl: 'http://server.test',
    host: noHost,
    ...more,
  };
}

/** The outcome as a success, or an error that says what failed. */
export function succeeded(outcome: ToolOutcome): ToolSuccess {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.message}`);
  return outcome;
}

/** The outcome as a failure, or an error that shows its data. */
export function failed(outcome: ToolOutcome): ToolFailure {
  if (outcome.ok) throw new Error(`it succeeded with ${JSON.stringify(outcome.data).slice(0, 200)}`);
  return outcome;
}
