/** The doors for operators (api 2.13) and cleanup, as a typed client. The token is that of SVC_INTERNAL_TOKEN, where one is set. */
import * as v from 'valibot';
import { invariantsAnswer, keysAnswer, rotationAnswer } from '../wire/admin.ts';
import { createdToken, revokedToken, tokenList } from '../wire/token.ts';
import { Transport, type TransportOptions } from './transport.ts';

const cleanupAnswer = v.object({
  cancelled_count: v.number(),
  execution_ids: v.array(v.number()),
  message: v.string(),
  dry_run: v.boolean(),
});

const executionItem = v.object({
  execution_id: v.number(),
  path: v.string(),
  start_time: v.string(),
  last_event_id: v.number(),
});

const commandItem = v.object({
  command_id: v.number(),
  execution_id: v.number(),
  step: v.string(),
  status: v.string(),
  age_seconds: v.number(),
  claim_age_seconds: v.nullable(v.number()),
  worker_id: v.nullable(v.string()),
  worker_status: v.nullable(v.string()),
});

const ownCommand = v.object({
  command_id: v.number(),
  event_id: v.number(),
  status: v.string(),
  parked_on: v.nullable(v.number()),
});

const workerItem = v.object({
  name: v.string(),
  kind: v.string(),
  status: v.string(),
  heartbeat_age_seconds: v.number(),
});

export type CleanupAnswer = v.InferOutput<typeof cleanupAnswer>;
export type ListedExecution = v.InferOutput<typeof executionItem>;
export type ListedCommand = v.InferOutput<typeof commandItem>;
export type OwnCommand = v.InferOutput<typeof ownCommand>;
export type ListedWorker = v.InferOutput<typeof workerItem>;

export class AdminClient {
  readonly #transport: Transport;

  readonly #timeoutMs: number | undefined;

  /** `timeoutMs`: for the answer to begin; 35 s by default. */
  constructor(options: TransportOptions & { readonly timeoutMs?: number }) {
    this.#transport = new Transport(options);
    this.#timeoutMs = options.timeoutMs;
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  cleanup(request: { older_than_minutes?: number; dry_run: boolean }): Promise<CleanupAnswer> {
    return this.#ask(cleanupAnswer, 'POST', '/api/executions/cleanup', { body: request });
  }

  keys(): Promise<v.InferOutput<typeof keysAnswer>> {
    return this.#ask(keysAnswer, 'GET', '/api/admin/keys');
  }

  rotateKeys(): Promise<v.InferOutput<typeof rotationAnswer>> {
    return this.#ask(rotationAnswer, 'POST', '/api/admin/keys/rotate', { body: {} });
  }

  async retireKey(kid: string): Promise<void> {
    await this.#transport.send({ method: 'POST', path: '/api/admin/keys/retire', body: { kid } });
  }

  tokens(): Promise<v.InferOutput<typeof tokenList>> {
    return this.#ask(tokenList, 'GET', '/api/admin/tokens');
  }

  /** `role`: viewer, operator, admin or worker. The answer is the only place where the token can be read. */
  createToken(request: {
    name: string;
    role: string;
    expires_at?: string;
  }): Promise<v.InferOutput<typeof createdToken>> {
    return this.#ask(createdToken, 'POST', '/api/admin/tokens', { body: request });
  }

  revokeToken(name: string): Promise<v.InferOutput<typeof revokedToken>> {
    return this.#ask(revokedToken, 'DELETE', '/api/admin/tokens', { body: { name } });
  }

  invariants(): Promise<v.InferOutput<typeof invariantsAnswer>> {
    return this.#ask(invariantsAnswer, 'GET', '/api/admin/invariants');
  }

  /** Running executions, oldest first. */
  running(limit: number): Promise<readonly ListedExecution[]> {
    const query = { status: 'running', order: 'start_time', page_size: limit };
    return this.#ask(v.array(executionItem), 'GET', '/api/executions', { query });
  }

  /** The instant of the newest event; null when there is none. */
  async lastEventAt(executionId: number): Promise<string | null> {
    const page = await this.#ask(
      v.object({ events: v.array(v.object({ created_at: v.string() })) }),
      'GET',
      `/api/executions/${executionId}/events`,
      { query: { page_size: 10, fields: 'min' } },
    );
    return page.events[0]?.created_at ?? null;
  }

  /** Open commands of all executions, oldest first. */
  async openCommands(limit: number): Promise<readonly ListedCommand[]> {
    const query = { status: 'PENDING,CLAIMED,RUNNING', limit };
    const answer = v.object({ commands: v.array(commandItem) });
    return (await this.#ask(answer, 'GET', '/api/commands', { query })).commands;
  }

  /** Commands of one execution, oldest first. */
  async commandsOf(executionId: number, limit: number): Promise<readonly OwnCommand[]> {
    const answer = v.object({ commands: v.array(ownCommand) });
    return (await this.#ask(answer, 'GET', `/api/executions/${executionId}/commands`, { query: { limit } })).commands;
  }

  async workers(): Promise<readonly ListedWorker[]> {
    return (await this.#ask(v.object({ items: v.array(workerItem) }), 'GET', '/api/worker/pools')).items;
  }

  #ask<S extends v.GenericSchema>(
    schema: S,
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    more: { body?: unknown; query?: Record<string, string | number | undefined> } = {},
  ): Promise<v.InferOutput<S>> {
    return this.#transport.ask(schema, { method, path, ...more, ...this.#limits() });
  }

  #limits(): { timeoutMs?: number } {
    return this.#timeoutMs === undefined ? {} : { timeoutMs: this.#timeoutMs };
  }
}
