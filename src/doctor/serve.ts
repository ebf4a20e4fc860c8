/**
 * The helper over HTTP (api 2.15), for orchestrators that would rather call than run a command. Its three doors need no router
 * and no framework, so that it starts where the server cannot.
 */
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { isMap, type JsonMap } from '../../machines/json.ts';
import type { Thresholds } from './facts.ts';
import type { RunningDoctor } from './start.ts';

export interface DoctorServer {
  readonly url: string;
  stop(): Promise<void>;
}

const BODY_MAX = 65_536;
const INVOKE = /^\/tools\/([A-Za-z0-9_.-]+)\/invoke\/?$/;

export async function serveDoctor(
  doctor: RunningDoctor,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<DoctorServer> {
  const server = createServer({ requestTimeout: 30_000, headersTimeout: 10_000 }, (request, response) => {
    const id = requestIdOf(request);
    answer(doctor, request).then(
      (given) => send(response, id, given),
      () => send(response, id, refused(500, 'internal_error', 'Internal error')),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => resolve());
  });
  const address = server.address();
  const given = typeof address === 'object' && address !== null ? address.port : port;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${given}`,
    async stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      await closed;
      await doctor.close();
    },
  };
}

interface Answer {
  readonly status: number;
  readonly body: object;
  /** Methods that are possible instead. */
  readonly allow?: string;
}

async function answer(doctor: RunningDoctor, request: IncomingMessage): Promise<Answer> {
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
  const { method } = request;
  const isRead = method === 'GET' || method === 'HEAD';
  if ((path === '/healthz' || path === '/tools') && !isRead) return wrongMethod(method, 'GET, HEAD');
  if (path === '/healthz') return { status: 200, body: { status: 'ok' } };
  if (path === '/tools') {
    const tools = doctor.tools.map(({ name, description, input_schema }) => ({ name, description, input_schema }));
    return { status: 200, body: { tools } };
  }
  const name = INVOKE.exec(path)?.[1];
  const tool = doctor.tools.find((each) => each.name === name);
  if (tool === undefined) return refused(404, 'not_found', `No such resource: ${method} ${path.slice(0, 200)}`);
  if (method !== 'POST') return wrongMethod(method, 'POST');
  const body = await bodyOf(request);
  if (body === 'too large') return refused(413, 'payload_too_large', 'The body is larger than 65536 bytes');
  const errors = body === null ? ['body: must be an object'] : misfitsIn(body);
  if (body === null || errors.length > 0) return refused(422, 'validation_error', errors.join('; '), errors);
  const outcome = await tool.run(overridden(doctor.thresholds, body));
  return { status: 200, body: { ...outcome, result: outcome } };
}

function refused(status: number, code: string, detail: string, errors?: readonly string[]): Answer {
  return { status, body: { detail, code, ...(errors === undefined ? {} : { errors }) } };
}

function wrongMethod(method: string | undefined, allow: string): Answer {
  return { ...refused(405, 'method_not_allowed', `${method} is not possible here`), allow };
}

/** Null for anything that is no JSON object; nothing counts as `{}`. A body that is too large is still taken to its end. */
async function bodyOf(request: IncomingMessage): Promise<JsonMap | 'too large' | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    // A request without an encoding gives buffers.
    const bytes = chunk as Buffer;
    size += bytes.length;
    if (size <= BODY_MAX) chunks.push(bytes);
  }
  if (size > BODY_MAX) return 'too large';
  if (size === 0) return {};
  try {
    const parsed: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    return isMap(parsed) ? parsed : null;
  } catch {
    return null;
  }
}

const OVERRIDES = ['stale_seconds', 'pending_retry_seconds', 'max_rows'] as const;

/** Overrides that are no numbers of at least 0, a sentence each. */
function misfitsIn(body: JsonMap): readonly string[] {
  return OVERRIDES.filter((name) => {
    const value = body[name] ?? 0;
    return typeof value !== 'number' || !Number.isFinite(value) || value < 0;
  }).map((name) => `body.${name}: must be a number of at least 0`);
}

function overridden(given: Thresholds, body: JsonMap): Thresholds {
  const maxRows = numberOf(body['max_rows'], given.maxRows);
  return {
    staleSeconds: numberOf(body['stale_seconds'], given.staleSeconds),
    pendingRetrySeconds: numberOf(body['pending_retry_seconds'], given.pendingRetrySeconds),
    maxRows: Math.min(10_000, Math.max(1, Math.floor(maxRows))),
  };
}

function numberOf(value: unknown, fallback: number): number {
  return typeof value === 'number' ? value : fallback;
}

const REQUEST_ID = /^[A-Za-z0-9._-]{8,64}$/;

function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : `d-${randomBytes(9).toString('base64url')}`;
}

function send(response: ServerResponse, requestId: string, { status, body, allow }: Answer): void {
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': requestId,
    ...(allow === undefined ? {} : { allow }),
  });
  response.end(JSON.stringify(status < 400 ? body : { ...body, request_id: requestId }));
}
