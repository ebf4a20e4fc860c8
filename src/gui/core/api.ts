/**
 * The one door to the API. Answers are JSON of the documented shape, so the type a caller names is taken on trust here
 * and nowhere else. Errors carry the sentence of the server (api 1.7); whether the server can be reached at all is a
 * signal that the frame of the page shows.
 */
import { signal } from '@preact/signals';
import { csrfToken, goToLogin, renewCsrfToken } from './gateway-session.ts';
import { noteRefusal, token } from './sign-in.ts';
import type { Json } from './wire.ts';

/** Where the API lives: this origin, or what the page's `callboard-api` says when it is served from elsewhere. */
export const BASE = document.querySelector<HTMLMetaElement>('meta[name="callboard-api"]')?.content ?? '';

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  /** All problems, one sentence each; empty when the message says everything. */
  readonly errors: readonly string[];
  readonly requestId: string | null;
  constructor(status: number, code: string, message: string, errors: readonly string[], requestId: string | null) {
    super(message);
    this.status = status;
    this.code = code;
    this.errors = errors;
    this.requestId = requestId;
  }
}

/** False while the server does not answer. */
export const online = signal(true);

/** The server cannot be reached, or says that it starts or ends: worth asking again. */
export function isAway(error: Error | null): boolean {
  return error instanceof ApiError && (error.code === 'offline' || error.status === 503);
}

export type Query = Readonly<Record<string, string | number | boolean | null | undefined>>;

export function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return ask<T>('GET', path + queryText(query), undefined, signal);
}

/** With the headers of the answer, for lists whose totals stand there. */
export async function getWithHeaders<T>(
  path: string,
  query: Query,
  signal?: AbortSignal,
): Promise<{ readonly body: T; readonly headers: Headers }> {
  const response = await request('GET', path + queryText(query), undefined, signal);
  // The documented shape of this path (see above).
  return { body: (await response.json()) as T, headers: response.headers };
}

export function post<T>(path: string, body: unknown = {}, signal?: AbortSignal): Promise<T> {
  return ask<T>('POST', path, body, signal);
}

export function put<T>(path: string, body: unknown): Promise<T> {
  return ask<T>('PUT', path, body);
}

export function remove<T>(path: string, query: Query = {}): Promise<T> {
  return ask<T>('DELETE', path + queryText(query), undefined);
}

/** Null instead of an error when the server has no such door or thing. */
export async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 501)) return null;
    throw error;
  }
}

export function address(path: string): string {
  return BASE + path;
}

/** For requests that are no JSON calls: streams. */
export function headersOf(more: Readonly<Record<string, string>>): Record<string, string> {
  const held = token();
  return { ...more, ...(held === null ? {} : { authorization: `Bearer ${held}` }) };
}

/**
 * Saves an answer as a file. A link of the browser cannot carry a token, so with one the answer is fetched first; null
 * says that an ordinary link does, which writes to the disk while it loads.
 */
export function downloadWithToken(path: string, name: string): (() => Promise<void>) | null {
  if (token() === null) return null;
  return async () => {
    const response = await request('GET', path, undefined);
    const link = document.createElement('a');
    link.href = URL.createObjectURL(await response.blob());
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  };
}

async function ask<T>(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await request(method, path, body, signal);
  // The documented shape of this path (see above).
  return (await response.json()) as T;
}

async function request(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const response = await send(method, path, body, signal);
  if (response.ok) return response;
  const error = await errorOf(response);
  // A gateway wants the token of the session with every change. It refuses before it forwards, so once more is safe.
  if (error.code === 'csrf' && (await renewCsrfToken(BASE))) {
    const again = await send(method, path, body, signal);
    if (again.ok) return again;
    throw await errorOf(again);
  }
  if (response.status === 401 && !(await goToLogin(BASE))) await noteRefusal(BASE);
  throw error;
}

async function send(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const csrf = method === 'GET' ? null : csrfToken();
  const headers = headersOf({
    accept: 'application/json',
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(csrf === null ? {} : { 'x-csrf-token': csrf }),
  });
  try {
    const response = await fetch(address(path), {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
    online.value = true;
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    online.value = false;
    throw new ApiError(0, 'offline', 'The server does not answer', [], null);
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null);
  const detail = field(body, 'detail');
  const errors = field(detail, 'errors') ?? field(body, 'errors');
  const message = typeof detail === 'string' ? detail : (textOf(field(detail, 'message')) ?? response.statusText);
  return new ApiError(
    response.status,
    textOf(field(body, 'code')) ?? 'unknown',
    message === '' ? `The server answered ${response.status}` : message,
    Array.isArray(errors) ? errors.map((each) => textOf(field(each, 'message')) ?? String(each)) : [],
    textOf(field(body, 'request_id')),
  );
}

function field(of: unknown, key: string): unknown {
  return typeof of === 'object' && of !== null ? Reflect.get(of, key) : undefined;
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

export function queryText(query: Query): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') params.set(key, String(value));
  }
  const text = params.toString();
  return text === '' ? '' : `?${text}`;
}

export function catalogAddress(path: string, verb: string): string {
  return `/api/catalog/${encodePath(path)}/${verb}`;
}

export function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

export function pretty(value: Json | undefined): string {
  return JSON.stringify(value ?? null, null, 2);
}
