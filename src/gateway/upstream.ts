/**
 * The server behind the gateway: a pool of connections, and one call passed through in both directions as it comes.
 * Answers that are event streams live as long as both ends do; everything else has a limit in time.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Dispatcher, errors, Pool } from 'undici';
import { hasBody } from './csrf.ts';
import { responseHeaders } from './header-hygiene.ts';
import { Refusal } from './refusal.ts';

export interface Upstream {
  /** Sends the request on and the answer back. Throws Refusal while nothing was answered yet. */
  pass(request: IncomingMessage, response: ServerResponse, call: PassedCall): Promise<void>;
  close(): Promise<void>;
}

export interface PassedCall {
  readonly path: string;
  readonly headers: Record<string, string>;
  /** Set on the answer beside the server's own. */
  readonly answerHeaders: Readonly<Record<string, string>>;
  /** Is shown the text of a good answer that is short. */
  readonly look?: (text: string) => void;
}

/** What the answer to a start is long at most, unless it brings a large result along. */
const LOOK_BYTES_MAX = 1_048_576;

export interface UpstreamOptions {
  /** `http://host:port`. */
  readonly url: string;
  readonly bodyLimitBytes: number;
  readonly timeoutMs: number;
}

export function createUpstream({ url, bodyLimitBytes, timeoutMs }: UpstreamOptions): Upstream {
  const base = new URL(url);
  const prefix = base.pathname === '/' ? '' : base.pathname.replace(/\/$/, '');
  const pool = new Pool(base.origin, {
    connections: 256,
    connect: { timeout: 5_000 },
    headersTimeout: timeoutMs,
    bodyTimeout: 0,
  });
  return {
    async pass(request, response, call) {
      const length = Number(request.headers['content-length'] ?? 0);
      if (length > bodyLimitBytes) throw tooLarge();
      const over = new AbortController();
      const timer = setTimeout(
        () => over.abort(new Refusal('upstream_timeout', 'The server took too long')),
        timeoutMs,
      );
      const onClose = (): void => {
        if (!response.writableFinished) over.abort(new Error('the caller has gone'));
      };
      response.once('close', onClose);
      try {
        const answer = await sent(request, call, over);
        const type = String(answer.headers['content-type'] ?? '');
        if (type.startsWith('text/event-stream')) {
          clearTimeout(timer);
          response.socket?.setNoDelay(true);
        }
        response.writeHead(answer.statusCode, {
          ...responseHeaders(answer.headers),
          ...call.answerHeaders,
          ...pageHeaders(type, answer),
        });
        response.flushHeaders();
        const { look } = call;
        if (look === undefined || answer.statusCode !== 200) await pipeline(answer.body, response);
        else await pipeline(answer.body, shown(look), response);
      } finally {
        clearTimeout(timer);
        response.off('close', onClose);
      }
    },
    close: () => pool.destroy(),
  };

  async function sent(
    request: IncomingMessage,
    call: PassedCall,
    over: AbortController,
  ): Promise<Dispatcher.ResponseData> {
    try {
      return await pool.request({
        // The server only lets the methods of HTTP through.
        method: (request.method ?? 'GET') as Dispatcher.HttpMethod,
        path: prefix + call.path,
        headers: call.headers,
        body: hasBody(request) ? request.pipe(limited(bodyLimitBytes, over)) : null,
        signal: over.signal,
      });
    } catch (error) {
      const { reason } = over.signal;
      if (reason instanceof Refusal) throw reason;
      if (error instanceof errors.HeadersTimeoutError)
        throw new Refusal('upstream_timeout', 'The server took too long');
      throw new Refusal('upstream_failed', 'The server cannot be reached', { cause: error });
    }
  }
}

/** Passes everything on as it comes, and shows the whole at the end. */
function shown(look: (text: string) => void): Transform {
  const chunks: Buffer[] = [];
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes <= LOOK_BYTES_MAX) chunks.push(chunk);
      done(null, chunk);
    },
    flush(done) {
      if (bytes <= LOOK_BYTES_MAX) look(Buffer.concat(chunks).toString('utf8'));
      done();
    },
  });
}

/** A body may come in pieces and never tell its length. */
function limited(bytesMax: number, over: AbortController): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes <= bytesMax) return done(null, chunk);
      over.abort(tooLarge());
      return done(tooLarge());
    },
  });
}

function tooLarge(): Refusal {
  return new Refusal('payload_too_large', 'The body is too large');
}

/** The page of the GUI brings a stricter policy of its own. */
function pageHeaders(type: string, answer: Dispatcher.ResponseData): Record<string, string> {
  const encoded: Record<string, string> =
    answer.headers['vary'] === undefined ? {} : { vary: 'Origin, Accept-Encoding' };
  if (!type.startsWith('text/html') || answer.headers['content-security-policy'] !== undefined) return encoded;
  return { ...encoded, 'content-security-policy': "default-src 'self'; frame-ancestors 'none'" };
}
