/** One request and its answer, with what every answer of the gateway carries: the request id, CORS, and headers that keep browsers strict. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Refusal } from './refusal.ts';

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  /** Of every answer to this request. */
  readonly headers: Readonly<Record<string, string>>;
}

const REQUEST_ID = /^[A-Za-z0-9._-]{8,64}$/;

export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : `g-${randomBytes(9).toString('base64url')}`;
}

export function sendJson(
  exchange: Exchange,
  status: number,
  body: object,
  more: Readonly<Record<string, string | string[]>> = {},
): void {
  const text = JSON.stringify(body);
  send(exchange, status, text, { 'content-type': 'application/json; charset=utf-8', ...more });
}

export function sendText(exchange: Exchange, status: number, text: string): void {
  send(exchange, status, text, { 'content-type': 'text/plain; charset=utf-8' });
}

/** `location` is trusted here: who calls this has checked where it leads. */
export function redirect(exchange: Exchange, status: 302 | 303, location: string, cookies: string[] = []): void {
  send(exchange, status, '', { location, ...(cookies.length === 0 ? {} : { 'set-cookie': cookies }) });
}

export function sendRefusal(exchange: Exchange, refusal: Refusal): void {
  if (exchange.response.headersSent) return;
  sendJson(exchange, refusal.status, refusal.told(exchange.requestId));
  discardRest(exchange.request);
}

const DISCARDED_BYTES_MAX = 64 * 1024 * 1024;

/**
 * Takes what is left of a body nobody wants: a client that sends all of it before it reads would otherwise meet a broken
 * connection in place of the answer.
 */
function discardRest(request: IncomingMessage): void {
  if (request.complete) return;
  let bytes = 0;
  request.unpipe();
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > DISCARDED_BYTES_MAX) request.destroy();
  });
  request.resume();
}

function send(
  { request, response, headers }: Exchange,
  status: number,
  text: string,
  more: Readonly<Record<string, string | string[]>>,
): void {
  const length = { 'content-length': String(Buffer.byteLength(text)) };
  response.writeHead(status, { ...headers, 'cache-control': 'no-store', ...(status === 204 ? {} : length), ...more });
  response.end(request.method === 'HEAD' || status === 204 ? undefined : text);
}

const BODY_MAX = 65_536;

/** A JSON object of at most so many bytes; null for anything else. */
export async function readBody(
  request: IncomingMessage,
  bytesMax = BODY_MAX,
): Promise<Readonly<Record<string, unknown>> | null> {
  if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? '')) return null;
  const chunks: Buffer[] = [];
  let size = 0;
  // What is too long is refused, and whoever sends it is to read that.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    // A request without an encoding gives buffers.
    const bytes = chunk as Buffer;
    size += bytes.length;
    if (size > bytesMax) return null;
    chunks.push(bytes);
  }
  try {
    const parsed: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
      ? Object.fromEntries(Object.entries(parsed))
      : null;
  } catch {
    return null;
  }
}
