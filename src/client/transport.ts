/**
 * One server, a pool of kept-alive connections, JSON in and out. A call is repeated only when the caller says that
 * repeating is harmless; the pauses between tries double and obey `Retry-After`.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import * as v from 'valibot';
import type { Json } from '../../machines/json.ts';
import type { Line, LineAnswer } from '../wire/line.ts';
import { ApiError, isPassing, TransportError } from './errors.ts';

export interface TransportOptions {
  /** `http://host:port`, without a trailing slash; a path in front of the API is kept. */
  readonly serverUrl: string;
  readonly token?: string | null;
  /** Connections at most. */
  readonly connections?: number;
  /** W3C trace context of the call being made. */
  readonly traceHeaders?: () => Readonly<Record<string, string>> | undefined;
  /** To a server in this process, for what it takes; everything else goes over the network. */
  readonly line?: Line | null;
}

export interface Call {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds until the answer must have begun; the server's own waiting time is part of it. */
  readonly timeoutMs?: number;
  /** Tries in total; more than 1 only for calls that may be repeated. */
  readonly tries?: number;
}

const UNREACHABLE = 'the server cannot be reached';
const TIMEOUT_MS = 35_000;
const PAUSE_MS = 100;
const PAUSE_MAX_MS = 5_000;

export class Transport {
  readonly #pool: Pool;
  readonly #prefix: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #traceHeaders: () => Readonly<Record<string, string>> | undefined;
  readonly #line: Line | null;
  readonly #closing = new AbortController();

  constructor(options: TransportOptions) {
    const url = new URL(options.serverUrl);
    this.#prefix = url.pathname === '/' ? '' : url.pathname.replace(/\/$/, '');
    this.#pool = new Pool(url.origin, {
      connections: options.connections ?? 32,
      keepAliveTimeout: 30_000,
      connect: { timeout: 5_000 },
    });
    this.#traceHeaders = options.traceHeaders ?? (() => undefined);
    this.#line = options.line ?? null;
    this.#headers = {
      accept: 'application/json',
      ...(options.token == null ? {} : { authorization: `Bearer ${options.token}` }),
    };
  }

  /** The answer as the schema says. Throws what `send` throws, and TransportError for an answer that nobody sends. */
  async ask<S extends v.GenericSchema>(schema: S, call: Call): Promise<v.InferOutput<S>> {
    const answer = v.safeParse(schema, await this.send(call));
    if (answer.success) return answer.output;
    throw new TransportError(`the answer of ${call.method} ${call.path} is not what the service sends`, {
      cause: new Error(answer.issues.map((issue) => `${v.getDotPath(issue) ?? 'body'}: ${issue.message}`).join('; ')),
    });
  }

  /** The answer's JSON. Throws ApiError, TransportError, or the signal's reason. */
  async send(call: Call): Promise<Json> {
    const tries = call.tries ?? 1;
    for (let done = 1; ; done++) {
      try {
        return await this.#once(call);
      } catch (error) {
        if (done >= tries || !isPassing(error)) throw error;
        await pause(pauseMs(error, done), undefined, call.signal === undefined ? {} : { signal: call.signal });
      }
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#pool.destroy();
  }

  async #once(call: Call): Promise<Json> {
    call.signal?.throwIfAborted();
    const text = call.body === undefined ? null : JSON.stringify(call.body);
    const answer = await (this.#onLine(call, text) ?? this.#overNetwork(call, text));
    const body = jsonOf(answer.text);
    if (answer.status >= 200 && answer.status < 300) {
      if (body === undefined) throw new TransportError('the answer is not JSON');
      return body;
    }
    const seconds = Number(answer.retryAfter ?? undefined);
    throw new ApiError(answer.status, body ?? null, Number.isFinite(seconds) ? seconds : null);
  }

  /** With the limits of a call over the network; whatever ends it ends the other side's waiting too. */
  #onLine(
    { method, path, query, signal, timeoutMs = TIMEOUT_MS }: Call,
    text: string | null,
  ): Promise<LineAnswer> | null {
    const line = this.#line;
    if (line === null || method !== 'POST' || path !== line.path || query !== undefined || text === null) return null;
    const ending = new AbortController();
    const answer = line.post(text, ending.signal);
    if (answer === null) return null;
    const closing = this.#closing.signal;
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', giveUp);
        closing.removeEventListener('abort', close);
      };
      const fail = (reason: unknown) => {
        end();
        reject(reason);
        ending.abort();
      };
      const lost = (message: string) => fail(new TransportError(UNREACHABLE, { cause: new Error(message) }));
      const giveUp = () => fail(signal?.reason);
      const close = () => lost('the client was closed');
      const timer = setTimeout(() => lost(`no answer within ${timeoutMs} ms`), timeoutMs);
      signal?.addEventListener('abort', giveUp);
      closing.addEventListener('abort', close);
      if (closing.aborted) close();
      answer.then((given) => {
        end();
        resolve(given);
      }, fail);
    });
  }

  async #overNetwork(call: Call, text: string | null): Promise<LineAnswer> {
    const timeoutMs = call.timeoutMs ?? TIMEOUT_MS;
    try {
      const { statusCode, headers, body } = await this.#pool.request({
        method: call.method,
        path: this.#prefix + call.path + queryOf(call.query),
        headers: {
          ...this.#headers,
          ...this.#traceHeaders(),
          ...(text === null ? {} : { 'content-type': 'application/json' }),
          ...call.headers,
        },
        body: text,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        ...(call.signal === undefined ? {} : { signal: call.signal }),
      });
      const retryAfter = headers['retry-after'];
      return {
        status: statusCode,
        retryAfter: typeof retryAfter === 'string' ? retryAfter : null,
        text: await body.text(),
      };
    } catch (error) {
      if (call.signal?.aborted) throw call.signal.reason;
      throw new TransportError(UNREACHABLE, { cause: error });
    }
  }
}

function pauseMs(error: unknown, tries: number): number {
  const asked = error instanceof ApiError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
  const backoff = PAUSE_MS * 2 ** (tries - 1) * (0.5 + Math.random());
  return Math.min(PAUSE_MAX_MS, Math.max(asked, backoff));
}

function queryOf(query: Call['query']): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === null || value === undefined) continue;
    search.set(name, Array.isArray(value) ? value.join(',') : String(value));
  }
  const text = search.toString();
  return text === '' ? '' : `?${text}`;
}

function jsonOf(text: string): Json | undefined {
  try {
    // JSON.parse yields JSON.
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}
