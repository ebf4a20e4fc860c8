/**
 * The client every request of a playbook leaves through: own connection pool, egress rules at connect time and on
 * every redirect, a cap on the decoded body, no proxy from the environment. It throws; kinds and codes are given by
 * its callers.
 */
import { lookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { Agent, buildConnector, type Dispatcher } from 'undici';
import { type Egress, EgressDenied } from './egress.ts';

export interface OutboundRequest {
  readonly url: URL;
  readonly method: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** Names of `headers` that carry secrets; they are dropped, like cookies, when a redirect leaves the origin. */
  readonly secretHeaders: readonly string[];
  readonly body: string | Buffer | null;
  readonly followRedirects: boolean;
  readonly verifySsl: boolean;
  readonly signal: AbortSignal;
  /** For bodies that need not end: asked with every decoded chunk, and the rest is not read once it says true. */
  readonly enough?: (headers: Readonly<Record<string, string>>, chunk: Buffer) => boolean;
}

export interface OutboundResponse {
  readonly status: number;
  /** Lower-case names; repeated headers are joined with a comma. */
  readonly headers: Readonly<Record<string, string>>;
  /** Where the last hop went. */
  readonly url: URL;
  readonly body: Buffer;
}

export interface Outbound {
  /** Sends a request and reads the whole answer. Throws EgressDenied, BodyTooLarge, RequestRefused, network errors. */
  send(request: OutboundRequest): Promise<OutboundResponse>;
  close(): Promise<void>;
}

/** The decoded body is larger than the configured limit. */
export class BodyTooLarge extends Error {
  override readonly name = 'BodyTooLarge';
}

/** The request cannot be sent as it is written: its URL, a header or the encoding of the answer. */
export class RequestRefused extends Error {
  override readonly name = 'RequestRefused';
}

/** The most redirects that are followed. */
export const maxHops = 5;
const maxEncodings = 4;
const redirects = new Set([301, 302, 303, 307, 308]);

/** `maxBytes` caps a decoded body, in bytes. */
export function createOutbound(egress: Egress, maxBytes: number): Outbound {
  const agents = new Map<boolean, Agent>();
  const agentFor = (verify: boolean) => {
    const agent = agents.get(verify) ?? createAgent(egress, verify);
    agents.set(verify, agent);
    return agent;
  };

  return {
    async send(request) {
      let { url, method, headers, body } = request;
      for (let hop = 0; ; hop += 1) {
        checkUrl(url, egress, hop);
        const answer = await exchange(agentFor(request.verifySsl), url, method, headers, body, request.signal);
        const location = answer.headers['location'];
        if (!request.followRedirects || hop >= maxHops || !redirects.has(answer.statusCode) || location === undefined)
          return { ...(await readAnswer(answer, method, maxBytes, request.enough)), url };
        await discard(answer.body);
        const next = nextUrl(url, Array.isArray(location) ? (location[0] ?? '') : location);
        if (becomesGet(answer.statusCode, method)) {
          method = 'GET';
          body = null;
          headers = without(headers, (name) => name.startsWith('content-') || name === 'transfer-encoding');
        }
        if (next.origin !== url.origin) {
          const secret = new Set(['authorization', 'cookie', 'proxy-authorization', 'host', ...request.secretHeaders]);
          headers = without(headers, (name) => secret.has(name));
        }
        url = next;
      }
    },
    async close() {
      const open = [...agents.values()];
      agents.clear();
      await Promise.all(open.map((agent) => agent.destroy()));
    },
  };
}

function createAgent(egress: Egress, verify: boolean): Agent {
  return new Agent({
    connections: 64,
    pipelining: 1,
    keepAliveTimeout: 4_000,
    // The caller's signal is the only clock for headers and body.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: 64 * 1024,
    connect: checkedConnector(egress, verify),
  });
}

/** A connector per port: egress rules may name one, and a lookup is not told which it resolves for. */
function checkedConnector(egress: Egress, verify: boolean): buildConnector.connector {
  const byPort = new Map<number, buildConnector.connector>();
  return (options, done) => {
    const port = options.port === '' ? (options.protocol === 'https:' ? 443 : 80) : Number(options.port);
    const known = byPort.get(port);
    const connector =
      known ?? buildConnector({ timeout: 30_000, rejectUnauthorized: verify, lookup: checkedLookup(egress, port) });
    byPort.set(port, connector);
    connector(options, done);
  };
}

/** Resolves a name once and hands on its addresses only when all of them passed. */
function checkedLookup(egress: Egress, port: number): LookupFunction {
  return (host, options, done) => {
    lookup(host, { ...options, all: true }, (error, found) => {
      if (error !== null) return done(error, '', 0);
      const addresses = found.map(({ address }) => address);
      try {
        egress.checkAddresses(host, port, addresses);
      } catch (refused) {
        return done(refused instanceof Error ? refused : new Error(String(refused)), '', 0);
      }
      const [first] = found;
      if (options.all === true) return done(null, found);
      return first === undefined ? done(new Error('no address'), '', 0) : done(null, first.address, first.family);
    });
  };
}

function checkUrl(url: URL, egress: Egress, hop: number): void {
  const refuse = (sentence: string) => (hop === 0 ? new RequestRefused(sentence) : new EgressDenied(sentence));
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refuse('the URL must use http or https');
  if (url.username !== '' || url.password !== '') throw refuse('the URL must not hold a user name or password');
  egress.checkTarget(url.hostname, url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port));
}

async function exchange(
  agent: Agent,
  url: URL,
  method: string,
  headers: Readonly<Record<string, string>>,
  body: string | Buffer | null,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  // undici types the methods it knows; it accepts any token, and the caller has checked that this is one.
  const verb = method as Dispatcher.HttpMethod;
  return agent.request({ origin: url.origin, path: url.pathname + url.search, method: verb, headers, body, signal });
}

async function readAnswer(
  answer: Dispatcher.ResponseData,
  method: string,
  maxBytes: number,
  enough: OutboundRequest['enough'],
) {
  const headers = flatten(answer.headers);
  const declared = Number(headers['content-length']);
  if (method !== 'HEAD' && declared > maxBytes) {
    answer.body.on('error', () => {}).destroy();
    throw new BodyTooLarge(`the answer has ${declared} bytes`);
  }
  return {
    status: answer.statusCode,
    headers,
    body: await collect(
      answer.body,
      headers['content-encoding'],
      maxBytes,
      enough === undefined ? () => false : (chunk) => enough(headers, chunk),
    ),
  };
}

/** Not a failure: what was read so far is the answer. */
class Enough extends Error {}

/** Reads a body, undoing its content encoding; the cap holds for the decoded bytes, so a bomb stops early. */
async function collect(
  body: Readable,
  encoding: string | undefined,
  maxBytes: number,
  isEnough: (chunk: Buffer) => boolean,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  const cap = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.length;
      if (size > maxBytes) return done(new BodyTooLarge(`the answer has more than ${maxBytes} bytes`));
      chunks.push(chunk);
      return isEnough(chunk) ? done(new Enough()) : done();
    },
  });
  cap.resume();
  try {
    await pipeline([body, ...decoders(encoding).reverse(), cap]);
  } catch (error) {
    if (!(error instanceof Enough)) throw error;
  }
  return Buffer.concat(chunks, size);
}

// A body without a byte (HEAD, 304) is no error; a body that was cut is noticed by its length or its chunks.
const lenient = { finishFlush: constants.Z_SYNC_FLUSH };

function decoders(encoding: string | undefined): Transform[] {
  const names = (encoding ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  // Each costs a window of its own before the first byte is read, and a header has room for thousands.
  if (names.length > maxEncodings) throw new RequestRefused(`the answer has ${names.length} content encodings`);
  return names.flatMap((name): Transform[] => {
    if (name === '' || name === 'identity') return [];
    if (name === 'gzip' || name === 'x-gzip') return [createGunzip(lenient)];
    if (name === 'deflate') return [createInflate(lenient)];
    if (name === 'br') return [createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH })];
    throw new RequestRefused(`the answer has the unknown content encoding ${name.slice(0, 40)}`);
  });
}

/** Ends a body nobody reads, so that its connection can be used again; a long one costs the connection. */
async function discard(body: Dispatcher.ResponseData['body']): Promise<void> {
  await body.dump({ limit: 64 * 1024 });
}

function nextUrl(from: URL, location: string): URL {
  try {
    return new URL(location, from);
  } catch {
    throw new EgressDenied('the answer redirects to something that is not a URL');
  }
}

function becomesGet(status: number, method: string): boolean {
  if (status === 303) return method !== 'HEAD' && method !== 'GET';
  return (status === 301 || status === 302) && method === 'POST';
}

function without(headers: Readonly<Record<string, string>>, drop: (name: string) => boolean): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !drop(name)));
}

function flatten(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  const entries = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name.toLowerCase(), Array.isArray(value) ? value.join(', ') : value]],
  );
  return Object.fromEntries(entries);
}
