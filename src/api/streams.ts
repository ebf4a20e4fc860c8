/**
 * Server-sent events (api 1.15): headers, keep-alives, back-pressure and the bound on open streams. A writer waits for
 * a slow client instead of keeping frames for it; who follows a log decides when a client is too far behind.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { IdentityService } from '../../actors/access-service.ts';
import type { Meter } from '../../actors/ports.ts';
import { RequestError } from '../errors.ts';

const OPEN_MAX = 10_000;
/** Of one caller where callers are known, else of one address. */
const OPEN_PER_CALLER_MAX = 64;
const KEEP_ALIVE_MS = 15_000;
const LINGER_MS = 5_000;

export interface Frame {
  readonly event: string;
  readonly id?: number;
  readonly data: unknown;
}

export interface EventStream {
  /** False once the client is gone, was given up, or the process stops. */
  readonly open: boolean;
  /** Resolves when the client took it; at once in the ordinary case. */
  send(frame: Frame): Promise<void>;
  /** The number of the present wait for a client that does not take what was sent; null while none is waited for. */
  readonly wait: number | null;
  /** Gives up a client that is too far behind: one last frame, and the end. A pending `send` resolves. */
  abandon(last: Frame): void;
  /** Runs `listener` when the stream closes, or at once when it has. */
  onClose(listener: () => void): void;
  end(): void;
}

export interface Streams {
  /** Takes over the reply. Throws RequestError 503 when there are too many. */
  start(request: FastifyRequest, reply: FastifyReply, kind: string): EventStream;
}

export interface StreamsOptions {
  readonly meter: Meter;
  readonly stopping: AbortSignal;
  readonly identities: IdentityService;
}

/** A stream lives no longer than the access of who opened it: it ends when the token is revoked or has expired. */
export function createStreams({ meter, stopping, identities }: StreamsOptions): Streams {
  const perCaller = new Map<string, number>();
  const open = new Map<EventStream, FastifyRequest>();
  stopping.addEventListener('abort', () => {
    for (const each of open.keys()) each.end();
  });
  identities.onRevoked(() => void endRefused());
  const looking = setInterval(() => void endRefused(), KEEP_ALIVE_MS);
  looking.unref();
  stopping.addEventListener('abort', () => clearInterval(looking));

  async function endRefused(): Promise<void> {
    for (const [stream, request] of [...open]) {
      const { identity, identityToken: token } = request;
      if (identity === null || token === null) continue;
      // Where nobody can be asked just now the stream stays; the next look decides.
      const now = await identities.identify(token).catch(() => identity);
      if (now?.role !== identity.role) stream.end();
    }
  }

  return {
    start(request, reply, kind) {
      const caller = request.identity === null ? `address ${request.ip}` : `caller ${request.identity.actor}`;
      const count = perCaller.get(caller) ?? 0;
      if (open.size >= OPEN_MAX || count >= OPEN_PER_CALLER_MAX) {
        throw new RequestError('pool_saturated', 'Too many open streams');
      }
      const stream = takeOver(reply);
      open.set(stream, request);
      perCaller.set(caller, count + 1);
      meter.gauge('svc_streams_open', open.size, { kind });
      stream.onClose(() => {
        open.delete(stream);
        meter.gauge('svc_streams_open', open.size, { kind });
        const left = (perCaller.get(caller) ?? 1) - 1;
        if (left > 0) perCaller.set(caller, left);
        else perCaller.delete(caller);
      });
      if (stopping.aborted) stream.end();
      return stream;
    },
  };
}

/** Headers that the hooks have set go along; the framework writes nothing itself from here on. */
function takeOver(reply: FastifyReply): EventStream {
  reply.hijack();
  const raw = reply.raw;
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) raw.setHeader(name, value);
  }
  raw.setHeader('content-type', 'text/event-stream; charset=utf-8');
  raw.setHeader('x-accel-buffering', 'no');
  raw.writeHead(200);
  raw.write('retry: 2000\n\n');

  let closed = false;
  let release: (() => void) | null = null;
  let waits = 0;
  const listeners: (() => void)[] = [];
  const keepAlive = setInterval(() => {
    if (release === null) raw.write(': keep-alive\n\n');
  }, KEEP_ALIVE_MS);
  raw.on('drain', () => release?.());
  raw.on('error', () => raw.destroy());
  raw.once('close', () => {
    close();
    release?.();
  });

  function close(): void {
    if (closed) return;
    closed = true;
    clearInterval(keepAlive);
    for (const listener of listeners) listener();
  }

  function end(): void {
    close();
    if (raw.writableEnded) return;
    raw.end();
    // A client that does not read would keep the connection for ever.
    setTimeout(() => raw.destroy(), LINGER_MS).unref();
  }

  return {
    get open() {
      return !closed;
    },
    get wait() {
      return release === null ? null : waits;
    },
    onClose(listener) {
      if (closed) listener();
      else listeners.push(listener);
    },
    end,
    abandon(last) {
      if (!closed) raw.write(textOf(last));
      end();
      release?.();
    },
    async send(frame) {
      if (closed || raw.write(textOf(frame))) return;
      waits++;
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      release = null;
    },
  };
}

/** JSON text has no line breaks, so one `data:` line is enough. */
function textOf(frame: Frame): string {
  const id = frame.id === undefined ? '' : `id: ${frame.id}\n`;
  return `event: ${frame.event}\n${id}data: ${JSON.stringify(frame.data)}\n\n`;
}
