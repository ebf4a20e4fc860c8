/**
 * What a worker asks of its server, answered by the engine in the same process through the schemas of the wire: a child
 * starts as it would over HTTP, with the same refusals. Nothing leaves the process, and no credential is ever resolved.
 */
import * as v from 'valibot';
import type { RunningEngine } from '../../actors/engine.ts';
import { DomainError } from '../../actors/errors.ts';
import type { MemoryStore } from '../../actors/memory/memory-store.ts';
import type { ResultService } from '../../actors/services.ts';
import type { Json } from '../../machines/json.ts';
import type { EntryValue } from '../../machines/keychain/root.ts';
import { startAnswer } from '../client/answers.ts';
import type { EventQuery, PutResultRequest, StartRequest } from '../client/client.ts';
import { ApiError } from '../client/errors.ts';
import { answerOf } from '../errors.ts';
import { eventToWire } from '../wire/event.ts';
import { startBody, startToWire, toStartRequest } from '../wire/start.ts';
import type { WorkerClient } from '../worker/execute.ts';
import type { KeychainReader } from '../worker/keychain.ts';
import type { Timeline } from './timeline.ts';

export interface WorkerClientParts {
  readonly engine: RunningEngine;
  readonly store: MemoryStore;
  readonly results: ResultService;
  readonly timeline: Timeline;
}

interface Options {
  readonly signal: AbortSignal;
}

const CLAIM_RETRY_SECONDS = 2;

export function createWorkerClient({ engine, store, results, timeline }: WorkerClientParts): WorkerClient {
  async function start(request: StartRequest, { signal }: Options) {
    const parsed = v.safeParse(startBody, request);
    if (!parsed.success) {
      const errors = parsed.issues.map((issue) => issue.message);
      throw refused(new DomainError('validation_error', errors.join('; '), { errors }));
    }
    const { waitMs = 0, ...rest } = toStartRequest(parsed.output, null, null);
    const receipt = await engine.executions.start(rest).catch((error) => Promise.reject(refused(error)));
    if (waitMs === 0) return v.parse(startAnswer, startToWire({ ...receipt, waited: null }));
    const late = new AbortController();
    const cancel = timeline.after(waitMs, () => late.abort());
    const row = await engine.executions.whenEnded(receipt.executionId, AbortSignal.any([signal, late.signal]));
    cancel();
    signal.throwIfAborted();
    const waited = { status: row.status, result: row.result, error: row.error };
    return v.parse(startAnswer, startToWire({ ...receipt, waited }));
  }

  return {
    execute: (request, options) => start(request, { signal: options?.signal ?? new AbortController().signal }),
    async events(executionId: number, query: EventQuery = {}) {
      const owner = await store.execution(executionId);
      if (owner === null) throw notFound(`Execution ${executionId} not found`);
      const rows = store.log(executionId).filter((event) => isWanted(event.type, event.nodeName, query));
      if (query.order === 'desc') rows.reverse();
      const events = rows.slice(0, query.page_size ?? rows.length).map((event) => eventToWire(event, owner));
      return { execution_id: executionId, status: owner.status, events, pagination: { page: 1, has_next: false } };
    },
    async resolveResult(ref: string): Promise<Json> {
      const found = await results.resolve(ref);
      if (found === null) throw notFound(`Result not found: ${ref}`);
      // The text was made by JSON.stringify.
      return JSON.parse(new TextDecoder().decode(found.data)) as Json;
    },
    async putResult(executionId: number, request: PutResultRequest) {
      const { name, data, select = [] } = request;
      const stored = await results
        .put(executionId, {
          name,
          data,
          scope: request.scope ?? 'execution',
          sourceStep: request.source_step ?? null,
          ttlSeconds: null,
          mediaType: request.media_type ?? 'application/json',
          commandId: request.command_id ?? null,
          select,
        })
        .catch((error) => Promise.reject(refused(error)));
      const { ref, store: tier, bytes, sha256, summary } = stored;
      return { ref, store: tier, bytes, sha256, summary };
    },
    credential: async (name: string) => ({ name, type: 'simulated', data: {} }),
    catalogGet: async (path: string) => {
      throw notFound(`Playbook '${path}' not found`);
    },
  };
}

/** Every declared entry is there, and every field of it is three stars. */
export function maskedKeychain(): KeychainReader {
  return { resolve: async (): Promise<EntryValue> => ({ available: true, data: STARS }) };
}

const STAR = { value: '***', enumerable: true, configurable: true, writable: false } as const;
const STARS = new Proxy<{ readonly [field: string]: Json }>(
  {},
  {
    has: () => true,
    get: (_, field) => (typeof field === 'string' ? STAR.value : undefined),
    getOwnPropertyDescriptor: (_, field) => (typeof field === 'string' ? STAR : undefined),
  },
);

function isWanted(type: string, step: string, { event_type: types, step: wanted }: EventQuery): boolean {
  return (types === undefined || types.includes(type)) && (wanted === undefined || wanted === step);
}

/** A refusal as the client of a worker meets it. */
function refused(error: unknown): unknown {
  if (!(error instanceof DomainError)) return error;
  const answer = answerOf(error, '', { claimRetryAfterSeconds: CLAIM_RETRY_SECONDS });
  return new ApiError(answer.status, answer.body, null);
}

function notFound(message: string): unknown {
  return refused(new DomainError('not_found', message));
}
