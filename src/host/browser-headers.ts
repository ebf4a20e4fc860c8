/** Headers that every answer carries, CORS, and preflights (api 1.11). */
import type { IncomingHttpHeaders } from 'node:http';

/** What is read of a request here; Fastify's fit. */
export interface Asked {
  readonly id: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
}

/** What is done to an answer here; Fastify's fit. */
export interface Answer {
  header(name: string, value: string): unknown;
  code(status: number): unknown;
  send(): unknown;
}

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';
const HEADERS = [
  'authorization',
  'content-type',
  'accept',
  'idempotency-key',
  'x-idempotency-key',
  'x-request-id',
  'x-session-token',
  'last-event-id',
  'mcp-session-id',
  'mcp-protocol-version',
  'traceparent',
  'tracestate',
].join(', ');
const EXPOSED = 'X-Request-Id, X-Total-Count, Link, Retry-After';

/** A stream that takes over the reply takes these along. */
export function setHeaders(
  request: Asked,
  reply: Pick<Answer, 'header'>,
  isAllowed: (origin: string) => boolean,
): void {
  reply.header('x-request-id', request.id);
  reply.header('x-content-type-options', 'nosniff');
  reply.header('cache-control', 'no-store');
  reply.header('referrer-policy', 'no-referrer');
  const { origin } = request.headers;
  if (origin === undefined) return;
  reply.header('vary', 'Origin');
  if (!isAllowed(origin)) return;
  reply.header('access-control-allow-origin', origin);
  reply.header('access-control-expose-headers', EXPOSED);
}

export function isPreflight(request: Asked): boolean {
  const { headers } = request;
  return (
    request.method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  );
}

export function answerPreflight(request: Asked, reply: Answer, isAllowed: (origin: string) => boolean): void {
  reply.code(204);
  if (isAllowed(request.headers.origin ?? '')) {
    reply.header('access-control-allow-methods', METHODS);
    reply.header('access-control-allow-headers', HEADERS);
    reply.header('access-control-max-age', '600');
  }
  reply.send();
}
