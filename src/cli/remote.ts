/**
 * The server as the command line uses it: a handful of calls over the typed client. What a person reads is narrowed to
 * the fields that are printed, and "cannot be reached" says which server and what to do.
 */
import type { Json, JsonMap } from '../../machines/json.ts';
import type { CancelAnswer, EventRow, ExecutionAnswer } from '../client/answers.ts';
import { CallboardClient } from '../client/client.ts';
import { ApiError, TransportError } from '../client/errors.ts';
import { readConfig } from '../config.ts';
import { type Call, Unavailable } from './command.ts';
import type { SeenEvent } from './step-progress.ts';

/** The parts of a wire Execution (api 3.1) that are printed. */
export interface SeenExecution {
  readonly execution_id: number;
  readonly path: string;
  readonly version: number | null;
  readonly status: string;
  readonly progress: number;
  readonly result: Json;
  readonly error: string | null;
  readonly current_step: string | null;
  readonly start_time: string;
  readonly duration_seconds: number | null;
  readonly duration_human: string | null;
}

export interface Registered {
  readonly path: string;
  readonly version: number;
  readonly kind: string;
  readonly unchanged: boolean;
}

/** Every call throws Unavailable when the server cannot be reached, and Refused when it says no. */
export interface Remote {
  register(content: string, options: { readonly path?: string; readonly resourceType?: string }): Promise<Registered>;
  /** The id of the new execution. */
  start(playbook: Pick<Registered, 'path' | 'version' | 'kind'>, workload: JsonMap): Promise<number>;
  execution(id: number): Promise<SeenExecution>;
  /** Oldest first, after the given number; at most a page. */
  events(id: number, since: number): Promise<readonly SeenEvent[]>;
  cancel(id: number, reason: string): Promise<CancelAnswer>;
  executions(query: {
    readonly status?: string;
    readonly path?: string;
    readonly limit: number;
  }): Promise<readonly SeenExecution[]>;
  close(): Promise<void>;
}

/** The server's own words for a refusal. `invalid`: what was sent is at fault. */
export class Refused extends Error {
  readonly invalid: boolean;
  constructor(message: string, invalid: boolean, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Refused';
    this.invalid = invalid;
  }
}

const EVENTS_PAGE = 500;

/** Calls `work` with the server that `--server` or SVC_SERVER_URL names. Throws ConfigError for an address that is none. */
export async function withRemote<T>(call: Call, work: (remote: Remote) => Promise<T>): Promise<T> {
  const remote = remoteOf(call);
  try {
    return await work(remote);
  } finally {
    await remote.close();
  }
}

export function remoteOf(call: Call): Remote {
  const server = call.texts['server'];
  const { worker } = readConfig(server === undefined ? call.env : { ...call.env, SVC_SERVER_URL: server });
  return openRemote(worker.serverUrl, worker.cliToken ?? worker.token);
}

export function openRemote(serverUrl: string, token: string | null): Remote {
  const client = new CallboardClient({ serverUrl, token, connections: 2 });
  const ask = <T>(answer: Promise<T>): Promise<T> => answer.catch((error) => Promise.reject(worded(error, serverUrl)));
  return {
    register: async (content, options) => {
      const stored = await ask(client.register(content, { ...options, ifChanged: true }));
      return { path: stored.path, version: stored.version, kind: stored.kind, unchanged: stored['unchanged'] === true };
    },
    start: async ({ path, version, kind }, workload) =>
      (await ask(client.execute({ path, version, resource_kind: kind, workload }))).execution_id,
    execution: async (id) => seenExecution(await ask(client.execution(id))),
    events: async (id, since) => {
      const page = await ask(client.events(id, { since_event_id: since, page_size: EVENTS_PAGE, order: 'asc' }));
      return page.events.map(seenEvent);
    },
    cancel: async (id, reason) => ask(client.cancel(id, { reason })),
    executions: async ({ status, path, limit }) => {
      const query = { page_size: limit, ...(status === undefined ? {} : { status: status.split(',') }) };
      return (await ask(client.executions({ ...query, ...(path === undefined ? {} : { path }) }))).map(seenExecution);
    },
    close: () => client.close(),
  };
}

export function worded(error: unknown, serverUrl: string): unknown {
  if (error instanceof ApiError) {
    const further = error.errors.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)));
    const text = [error.message, ...further.filter((each) => !error.message.includes(each))].join('\n  ');
    return new Refused(text, error.status === 422 || error.status === 404, { cause: error });
  }
  if (error instanceof TransportError) {
    const why = error.code ?? error.message;
    return new Unavailable(
      `there is no answer from ${serverUrl} (${why}); start a server with \`npx callboard dev\` or name one with --server`,
      { cause: error },
    );
  }
  return error;
}

function seenEvent(row: EventRow): SeenEvent {
  return {
    event_id: row.event_id,
    event_type: row.event_type,
    node_id: textOf(row['node_id']) ?? row.node_name,
    node_name: row.node_name,
    node_type: textOf(row['node_type']),
    status: row.status,
    created_at: row.created_at,
    duration: numberOf(row['duration']),
    error: row.error ?? null,
    context: row.context ?? null,
    meta: row.meta ?? null,
  };
}

function seenExecution(row: ExecutionAnswer): SeenExecution {
  return {
    execution_id: row.execution_id,
    path: row.path,
    version: numberOf(row['version']),
    status: row.status,
    progress: row.progress,
    result: row.result,
    error: row.error,
    current_step: textOf(row['current_step']),
    start_time: row.start_time,
    duration_seconds: numberOf(row['duration_seconds']),
    duration_human: textOf(row['duration_human']),
  };
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}
