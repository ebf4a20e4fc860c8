/**
 * The port of a server, open from the first moment (api 4.9): while the database starts and is brought up to date, callers
 * are told that the server starts and when to ask again, which a refused connection cannot tell. Then the same port, with
 * the connections that were opened meanwhile, is handed to the host.
 */
import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Config } from '../config.ts';
import { answerOf, RequestError } from '../errors.ts';
import { hostCheck, originCheck, readPath, requestIds } from './address.ts';
import { type Answer, answerPreflight, isPreflight, setHeaders } from './browser-headers.ts';
import { createClientErrorHandler } from './client-error.ts';

const HEADERS_TIMEOUT_MS = 10_000;
const HEADERS_BYTES_MAX = 16_384;
const LOOK_FOR_SLOW_PEERS_MS = 1_000;
const KEEP_ALIVE_MS = 72_000;
const CLOSE_WITHIN_MS = 1_000;
const LOOK_FOR_IDLE_MS = 20;
const RETRY_AFTER_SECONDS = 2;

export type DoorConfig = Pick<
  Config,
  | 'host'
  | 'port'
  | 'publicUrl'
  | 'allowedHosts'
  | 'corsAllowedOrigins'
  | 'requestTimeoutSeconds'
  | 'claimRetryAfterSeconds'
>;

export interface DoorOptions {
  /** Of the package. */
  readonly version: string;
  /** The process was asked to stop before it was ready. */
  readonly isStopping: () => boolean;
}

export interface Door {
  /** With SVC_PORT=0 the one that was given. */
  readonly port: number;
  /** By the monotonic clock of this process, in milliseconds. */
  readonly openedAt: number;
  /** From now on requests are for this listener. */
  handOver(listener: RequestListener): void;
  /**
   * Takes no more connections, and resolves when the requests under way have been answered; after `withinMs` their
   * connections are cut. Idempotent.
   */
  close(withinMs?: number): Promise<void>;
}

/** What every HTTP server of ours asks of its peers. Slow ones are only closed when all three times are set. */
export function httpLimits(config: Pick<Config, 'requestTimeoutSeconds'>) {
  return {
    headersTimeout: Math.min(HEADERS_TIMEOUT_MS, config.requestTimeoutSeconds * 1000),
    maxHeaderSize: HEADERS_BYTES_MAX,
    connectionsCheckingInterval: LOOK_FOR_SLOW_PEERS_MS,
    // A request without one is refused by the host, in the form of all refusals.
    requireHostHeader: false,
  };
}

/** Throws what listening throws, such as EADDRINUSE. */
export async function openDoor(config: DoorConfig, options: DoorOptions): Promise<Door> {
  const openedAt = performance.now();
  let listener: RequestListener = createStartAnswer(config, options, openedAt);
  const nextRequestId = requestIds(randomBytes(4).toString('hex'));
  const servers: Server[] = [];

  function newServer(): Server {
    const server = createServer(
      {
        ...httpLimits(config),
        requestTimeout: config.requestTimeoutSeconds * 1000,
        keepAliveTimeout: KEEP_ALIVE_MS,
      },
      (request, response) => listener(request, response),
    );
    server.on(
      'clientError',
      createClientErrorHandler(() => nextRequestId(undefined), config),
    );
    return server;
  }

  let { port } = config;
  let refusal: unknown = null;
  for (const address of await addressesOf(config.host)) {
    const server = newServer();
    server.listen(port, address);
    try {
      await once(server, 'listening');
      servers.push(server);
      // A TCP server's address is an object once it listens.
      port = (server.address() as AddressInfo).port;
    } catch (error) {
      refusal ??= error;
      if (config.port !== 0 && isTaken(error)) break;
    }
  }
  // A machine may know an address of `localhost` that it does not have; one that somebody else has is another matter.
  if (servers.length === 0 || (config.port !== 0 && isTaken(refusal))) {
    for (const server of servers) server.close();
    throw refusal;
  }

  let closing: Promise<void> | null = null;
  return {
    port,
    openedAt,
    handOver(next) {
      listener = next;
    },
    close(withinMs = CLOSE_WITHIN_MS) {
      closing ??= Promise.all(servers.map((server) => closeServer(server, withinMs))).then(() => {});
      return closing;
    },
  };
}

function isTaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
}

/** `localhost` is every loopback address of the machine; anything else is one address. */
async function addressesOf(host: string): Promise<readonly string[]> {
  if (host !== 'localhost') return [host];
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.length === 0 ? [host] : [...new Set(found.map(({ address }) => address))];
}

function closeServer(server: Server, withinMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), withinMs);
    // Node closes those that are idle now; one whose answer comes later would be kept for the next request.
    const looking = setInterval(() => server.closeIdleConnections(), LOOK_FOR_IDLE_MS);
    server.close(() => {
      clearTimeout(timer);
      clearInterval(looking);
      resolve();
    });
  });
}

/** Answers while nothing is behind the door yet. */
function createStartAnswer(config: DoorConfig, options: DoorOptions, openedAt: number): RequestListener {
  const nextRequestId = requestIds(randomBytes(4).toString('hex'));
  const isHostAllowed = hostCheck(config);
  const isOriginAllowed = originCheck(config.corsAllowedOrigins);

  function refuse(response: ServerResponse, requestId: string, error: RequestError): void {
    const { status, headers, body } = answerOf(error, requestId, config);
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    sendJson(response, status, body);
  }

  return (request, response) => {
    const id = nextRequestId(request.headers['x-request-id']);
    const asked = { id, method: request.method ?? 'GET', headers: request.headers };
    const answer = answerInto(response);
    setHeaders(asked, answer, isOriginAllowed);
    if (!isHostAllowed(request.headers.host)) {
      refuse(response, id, new RequestError('misdirected_host', 'This server does not answer for that host name'));
      return;
    }
    if (isPreflight(asked)) {
      answerPreflight(asked, answer, isOriginAllowed);
      return;
    }
    const isStopping = options.isStopping();
    const path = (readPath(request.url ?? '/') ?? '').replace(/(?<=.)\/$/, '');
    const isRead = asked.method === 'GET' || asked.method === 'HEAD';
    if (isRead && path === '/health') {
      sendJson(response, 200, { status: 'ok' });
      return;
    }
    response.setHeader('retry-after', String(RETRY_AFTER_SECONDS));
    if (isRead && path === '/api/health') {
      sendJson(response, 503, {
        status: isStopping ? 'draining' : 'degraded',
        database: 'down',
        bus: 'down',
        jobs: 'down',
        version: options.version,
        schema_version: null,
        uptime_seconds: Math.round(performance.now() - openedAt) / 1000,
      });
      return;
    }
    if (isRead && wantsPage(request)) {
      sendPage(response);
      return;
    }
    const error = isStopping
      ? new RequestError('shutting_down', 'The server is shutting down')
      : new RequestError('db_unavailable', 'The server is starting');
    refuse(response, id, error);
  };
}

function answerInto(response: ServerResponse): Answer {
  const answer: Answer = {
    header(name, value) {
      response.setHeader(name, value);
    },
    code(status) {
      response.statusCode = status;
    },
    send() {
      response.end();
    },
  };
  return answer;
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  send(response, status, 'application/json; charset=utf-8', JSON.stringify(body));
}

function send(response: ServerResponse, status: number, type: string, text: string): void {
  response.statusCode = status;
  response.setHeader('content-type', type);
  response.setHeader('content-length', Buffer.byteLength(text));
  response.end(text);
}

/** Someone opened the GUI before it is there. */
function wantsPage({ headers }: IncomingMessage): boolean {
  return (headers.accept ?? '').includes('text/html');
}

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="${RETRY_AFTER_SECONDS}">
<title>Callboard is starting</title>
<p>Callboard is starting. This page looks again by itself.</p>
</html>
`;

function sendPage(response: ServerResponse): void {
  response.setHeader('content-security-policy', `default-src 'self'; frame-ancestors 'none'`);
  send(response, 503, 'text/html; charset=utf-8', PAGE);
}
