/**
 * The service as a caller sees it: one method per call, typed by the schemas of the wire. Reads and calls with a key of
 * their own are repeated when the server cannot be reached; `exchange` and `claim` are not, because the worker repeats
 * them itself with the same report and claim ids.
 */
import * as v from 'valibot';
import type { Json, JsonMap } from '../../machines/json.ts';
import { type ClaimManyAnswer, type ClaimManyBody, claimManyAnswer } from '../wire/claim.ts';
import { type ExchangeAnswer, type ExchangeBody, exchangeAnswer } from '../wire/exchange.ts';
import { type KeychainReading, keychainReading } from '../wire/keychain.ts';
import {
  type DeregisterAnswer,
  type DeregisterBody,
  deregisterAnswer,
  type HeartbeatAnswer,
  type HeartbeatBody,
  heartbeatAnswer,
  type RegisterBody,
  type RegisterAnswer as WorkerRegisterAnswer,
  registerAnswer as workerRegisterAnswer,
} from '../wire/worker.ts';
import {
  type CancelAnswer,
  type CatalogEntryAnswer,
  type CredentialAnswer,
  cancelAnswer,
  catalogEntry,
  credentialAnswer,
  type EventRow,
  type EventsAnswer,
  type ExecutionAnswer,
  eventsAnswer,
  executionAnswer,
  type HealthAnswer,
  healthAnswer,
  type MachineAnswer,
  machineAnswer,
  type PutResultAnswer,
  putResultAnswer,
  type RegisterAnswer,
  registerAnswer,
  type StartAnswer,
  type StatusAnswer,
  startAnswer,
  statusAnswer,
  type TraceAnswer,
  traceAnswer,
} from './answers.ts';
import { type Call, Transport, type TransportOptions } from './transport.ts';

/** Tries of a call that may be repeated. */
const TRIES = 4;
/** The server ends its own waits; this much later an answer counts as lost. Milliseconds. */
const WAIT_GRACE_MS = 10_000;

export interface StartRequest {
  readonly path?: string;
  readonly catalog_id?: number;
  readonly version?: number | 'latest';
  readonly resource_kind?: string;
  readonly workload?: JsonMap;
  readonly parent_execution_id?: number;
  readonly parent_command_id?: number;
  readonly parent_event_id?: number;
  readonly idempotency_key?: string;
  readonly execution_pool?: string;
  readonly priority?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly wait_ms?: number;
}

export interface EventQuery {
  readonly page?: number;
  readonly page_size?: number;
  /** Exclusive. */
  readonly since_event_id?: number;
  readonly event_type?: readonly string[];
  readonly step?: string;
  readonly command_id?: number;
  readonly order?: 'asc' | 'desc';
  /** With the columns that only the engine needs. */
  readonly fields?: 'all';
}

export interface ExecutionQuery {
  readonly page?: number;
  readonly page_size?: number;
  readonly status?: readonly string[];
  readonly path?: string;
  readonly order?: string;
}

export interface PutResultRequest {
  readonly name: string;
  readonly data: Json;
  readonly scope?: string;
  readonly source_step?: string;
  readonly media_type?: string;
  readonly command_id?: number;
  readonly attempt?: number;
  readonly select?: readonly { readonly path: string; readonly as: string }[];
}

interface CallOptions {
  readonly signal?: AbortSignal;
}

export class CallboardClient {
  readonly #transport: Transport;

  constructor(options: TransportOptions) {
    this.#transport = new Transport(options);
  }

  /** Ends all connections; open calls fail with TransportError. */
  close(): Promise<void> {
    return this.#transport.close();
  }

  // ---------------------------------------------------------------- service, catalog

  health(options: CallOptions = {}): Promise<HealthAnswer> {
    return this.#transport.ask(healthAnswer, { method: 'GET', path: '/api/health', ...options });
  }

  register(
    content: string,
    options: { path?: string; resourceType?: string; ifChanged?: boolean } & CallOptions = {},
  ): Promise<RegisterAnswer> {
    const { path, resourceType: resource_type, ifChanged: if_changed, ...rest } = options;
    const body = {
      content,
      ...(path && { path }),
      ...(resource_type && { resource_type }),
      ...(if_changed && { if_changed }),
    };
    return this.#transport.ask(registerAnswer, { method: 'POST', path: '/api/catalog/register', body, ...rest });
  }

  catalogList(query: { q?: string; kind?: string } = {}, options: CallOptions = {}): Promise<CatalogEntryAnswer[]> {
    const path = '/api/catalog/playbooks';
    return this.#transport.ask(v.array(catalogEntry), { method: 'GET', path, query, tries: TRIES, ...options });
  }

  catalogGet(
    path: string,
    version: number | 'latest' = 'latest',
    options: CallOptions = {},
  ): Promise<CatalogEntryAnswer> {
    const place = `/api/catalog/playbook/${path.split('/').map(encodeURIComponent).join('/')}`;
    return this.#transport.ask(catalogEntry, {
      method: 'GET',
      path: place,
      query: { version },
      tries: TRIES,
      ...options,
    });
  }

  // ---------------------------------------------------------------- executions

  /** Repeated only with an `idempotency_key`: without one a lost answer may have started an execution. */
  execute(request: StartRequest, options: CallOptions = {}): Promise<StartAnswer> {
    return this.#transport.ask(startAnswer, {
      method: 'POST',
      path: '/api/execute',
      body: request,
      timeoutMs: (request.wait_ms ?? 25_000) + WAIT_GRACE_MS,
      tries: request.idempotency_key === undefined ? 1 : TRIES,
      ...options,
    });
  }

  /** The older start call with its own answer (api 2.3.2). */
  run(path: string, payload: JsonMap = {}, options: CallOptions = {}): Promise<StartAnswer> {
    const call: Call = { method: 'POST', path: '/api/run/playbook', body: { path, payload }, ...options };
    return this.#transport.ask(startAnswer, call);
  }

  execution(executionId: number, options: CallOptions = {}): Promise<ExecutionAnswer> {
    return this.#transport.ask(executionAnswer, {
      method: 'GET',
      path: `/api/executions/${executionId}`,
      query: { include_events: false },
      tries: TRIES,
      ...options,
    });
  }

  executionStatus(executionId: number, options: CallOptions = {}): Promise<StatusAnswer> {
    const path = `/api/executions/${executionId}/status`;
    return this.#transport.ask(statusAnswer, { method: 'GET', path, tries: TRIES, ...options });
  }

  executions(query: ExecutionQuery = {}, options: CallOptions = {}): Promise<ExecutionAnswer[]> {
    const call: Call = { method: 'GET', path: '/api/executions', query: { ...query }, tries: TRIES, ...options };
    return this.#transport.ask(v.array(executionAnswer), call);
  }

  machine(name: string, options: CallOptions = {}): Promise<MachineAnswer> {
    return this.#transport.ask(machineAnswer, {
      method: 'GET',
      path: `/api/machines/${name}`,
      tries: TRIES,
      ...options,
    });
  }

  /** Frames of the chart of an execution behind frame `after`, those that changed something. */
  trace(executionId: number, after: number, options: CallOptions = {}): Promise<TraceAnswer> {
    const path = `/api/executions/${executionId}/trace`;
    return this.#transport.ask(traceAnswer, { method: 'GET', path, query: { after }, tries: TRIES, ...options });
  }

  /** One page of the log. */
  events(executionId: number, query: EventQuery = {}, options: CallOptions = {}): Promise<EventsAnswer> {
    return this.#transport.ask(eventsAnswer, {
      method: 'GET',
      path: `/api/executions/${executionId}/events`,
      query: { order: 'asc', ...query },
      tries: TRIES,
      ...options,
    });
  }

  /** Every event after `since`, oldest first. */
  async *eventsSince(executionId: number, since = 0, options: CallOptions = {}): AsyncGenerator<EventRow> {
    for (let last = since; ; ) {
      const page = await this.events(executionId, { since_event_id: last, page_size: 500, order: 'asc' }, options);
      yield* page.events;
      const newest = page.events.at(-1)?.event_id;
      if (newest === undefined || page.events.length < 500) return;
      last = newest;
    }
  }

  cancel(
    executionId: number,
    request: { reason?: string; cascade?: boolean } = {},
    options: CallOptions = {},
  ): Promise<CancelAnswer> {
    const path = `/api/executions/${executionId}/cancel`;
    return this.#transport.ask(cancelAnswer, { method: 'POST', path, body: request, tries: TRIES, ...options });
  }

  // ---------------------------------------------------------------- the worker protocol

  workerRegister(request: RegisterBody, options: CallOptions = {}): Promise<WorkerRegisterAnswer> {
    const path = '/api/worker/pool/register';
    return this.#transport.ask(workerRegisterAnswer, { method: 'POST', path, body: request, ...options });
  }

  workerHeartbeat(request: HeartbeatBody, options: CallOptions = {}): Promise<HeartbeatAnswer> {
    const path = '/api/worker/pool/heartbeat';
    return this.#transport.ask(heartbeatAnswer, { method: 'POST', path, body: request, ...options });
  }

  workerDeregister(request: DeregisterBody, options: CallOptions = {}): Promise<DeregisterAnswer> {
    const path = '/api/worker/pool/deregister';
    return this.#transport.ask(deregisterAnswer, { method: 'POST', path, body: request, ...options });
  }

  exchange(request: ExchangeBody, options: CallOptions = {}): Promise<ExchangeAnswer> {
    return this.#transport.ask(exchangeAnswer, {
      method: 'POST',
      path: '/api/worker/exchange',
      body: request,
      timeoutMs: (request.claim?.wait_ms ?? 0) + WAIT_GRACE_MS,
      ...options,
    });
  }

  claim(request: ClaimManyBody, options: CallOptions = {}): Promise<ClaimManyAnswer> {
    return this.#transport.ask(claimManyAnswer, {
      method: 'POST',
      path: '/api/commands/claim',
      body: request,
      timeoutMs: (request.wait_ms ?? 0) + WAIT_GRACE_MS,
      ...options,
    });
  }

  // ---------------------------------------------------------------- credentials, keychain, results

  /** `withData` decrypts; the names of the reader go into the audit. */
  credential(
    name: string,
    withData = false,
    options: { executionId?: number; workerId?: string; tries?: number } & CallOptions = {},
  ): Promise<CredentialAnswer> {
    const { executionId: execution_id, workerId: worker_id, tries = TRIES, ...rest } = options;
    const query = { include_data: withData, execution_id, worker_id };
    const path = `/api/credentials/${encodeURIComponent(name)}`;
    return this.#transport.ask(credentialAnswer, { method: 'GET', path, query, tries, ...rest });
  }

  /** A read that is answered with data is counted; `claimRenewal` asks to be the one who renews. */
  keychainRead(
    catalogId: number,
    name: string,
    options: { scope: string; executionId: number; claimRenewal: boolean; workerId: string } & CallOptions,
  ): Promise<KeychainReading> {
    const { scope: scope_type, executionId, claimRenewal: claim_renewal, workerId: worker_id, ...rest } = options;
    const query = { scope_type, execution_id: executionId, claim_renewal, worker_id };
    const path = `/api/keychain/${catalogId}/${encodeURIComponent(name)}`;
    return this.#transport.ask(keychainReading, { method: 'GET', path, query, tries: TRIES, ...rest });
  }

  /** Replaces what is there, so it may be repeated. */
  async keychainStore(
    catalogId: number,
    name: string,
    { body, ...rest }: { body: JsonMap } & CallOptions,
  ): Promise<void> {
    const path = `/api/keychain/${catalogId}/${encodeURIComponent(name)}`;
    await this.#transport.send({ method: 'POST', path, body, tries: TRIES, ...rest });
  }

  /** The same bytes under the same name give the same reference, so it may be repeated. */
  putResult(executionId: number, request: PutResultRequest, options: CallOptions = {}): Promise<PutResultAnswer> {
    const path = `/api/result/${executionId}`;
    return this.#transport.ask(putResultAnswer, { method: 'PUT', path, body: request, tries: TRIES, ...options });
  }

  /** The stored JSON behind a reference. */
  resolveResult(ref: string, options: CallOptions = {}): Promise<Json> {
    return this.#transport.send({
      method: 'GET',
      path: '/api/result/resolve',
      query: { ref },
      tries: TRIES,
      ...options,
    });
  }
}
