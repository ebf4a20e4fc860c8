/**
 * Reads request bodies (api 1.2, 8.10). Small ones are read on the spot, which is faster than any hand-over. Large ones are
 * bounded in number, before a byte of them is taken from the connection and again before their values are built; they are
 * read in a thread that is made when it is first needed, and what it read comes back in pieces, so that 40 of the largest at
 * once are a matter of their senders' patience and of nobody else's.
 */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Json } from '../../machines/json.ts';
import { BodyReading } from '../api/body-reading.ts';
import { RequestError } from '../errors.ts';
import { type Pieces, putTogether } from './body-pieces.ts';
import { type BodyRules, isRefusal, type JsonPath, type Reading, type Refusal, readJson } from './body-rules.ts';
import { type ByteBudget, createByteBudget } from './byte-budget.ts';
import { createReadingThread, tooManyValues } from './reading-thread.ts';

export interface BodyReaderOptions {
  /** Larger bodies go to the thread. */
  readonly inlineMaxBytes?: number;
  /** Of large bodies that are on their way or in use. */
  readonly bytesMax?: number;
  /** Memory of the values of large bodies in use. */
  readonly heapBytesMax?: number;
  /** For one body; a guard against what nobody thought of. */
  readonly timeLimitMs?: number;
}

interface BodyReader {
  /** Before the body is read. A large one waits here for its turn; it counts until the answer has gone or the caller. */
  admit(request: FastifyRequest, reply: FastifyReply): Promise<void> | null;
  /** Throws RequestError: `invalid_json`, `validation_error`, `payload_too_large`. */
  read(request: FastifyRequest, bytes: Buffer): unknown;
  /** Ends the thread; what waits for it is refused. */
  close(): Promise<void>;
}

const INLINE_MAX_BYTES = 256 * 1024;
const BYTES_MAX = 256 * 1024 * 1024;
const HEAP_BYTES_MAX = 512 * 1024 * 1024;
const TIME_LIMIT_MS = 60_000;

/** What a request holds of the budgets, until it is over. */
interface Hold {
  readonly signal: AbortSignal;
  readonly releases: (() => void)[];
}

const floats = new WeakMap<object, readonly JsonPath[]>();

/** Places of a body where an integer is expected and was written otherwise (`1.0`, `1e3`). */
export function integralFloatsOf(body: object): readonly JsonPath[] {
  return floats.get(body) ?? [];
}

/** A body small enough to be read on the spot. Throws RequestError: `invalid_json`, `validation_error`. */
export function readSmallBody(bytes: Uint8Array, rules: BodyRules): unknown {
  return settle(readJson(bytes, rules), rules);
}

/** JSON is all that the app takes from now on (api 1.2), and this reads it. */
export function readBodies(app: FastifyInstance, options: BodyReaderOptions = {}): void {
  const bodies = createBodyReader(options);
  app.addHook('onClose', () => bodies.close());
  app.addHook('preParsing', (request, reply, payload, done) => {
    const turn = bodies.admit(request, reply);
    if (turn === null) done(null, payload);
    else turn.then(() => done(null, payload), done);
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      // parseAs: 'buffer' hands over a Buffer.
      const reading = bodies.read(request, body as Buffer);
      if (reading instanceof Promise) reading.then((json) => done(null, json), done);
      else done(null, reading);
    } catch (error) {
      done(error as Error);
    }
  });
  app.addContentTypeParser('*', (_request, payload, done) => readNothing(payload, done));
}

/** Of another kind than JSON a body may only be empty, which one that does not tell its length shows at its end. */
function readNothing(payload: IncomingMessage, done: (error: Error | null, body?: unknown) => void): void {
  let isOver = false;
  const settle = (error: Error | null) => {
    if (isOver) return;
    isOver = true;
    done(error, {});
  };
  payload.once('data', () => settle(new RequestError('unsupported_media_type', 'The body must be application/json')));
  payload.once('end', () => settle(null));
  payload.once('error', settle);
}

function createBodyReader(options: BodyReaderOptions): BodyReader {
  const { inlineMaxBytes = INLINE_MAX_BYTES, bytesMax = BYTES_MAX, heapBytesMax = HEAP_BYTES_MAX } = options;
  const holds = new WeakMap<FastifyRequest, Hold>();
  const byteBudget = createByteBudget(bytesMax);
  const heapBudget = createByteBudget(heapBytesMax);
  const thread = createReadingThread(options.timeLimitMs ?? TIME_LIMIT_MS);

  /** One value is built at a time: each has its slices of the event loop, and the others wait for nobody but it. */
  let building: Promise<unknown> = Promise.resolve();
  function build(pieces: Pieces): Promise<Json> {
    const built = building.then(() => putTogether(pieces));
    building = built.catch(() => {});
    return built;
  }

  async function take(budget: ByteBudget, bytes: number, hold: Hold): Promise<void> {
    const release = await budget.take(Math.min(bytes, budget.max), hold.signal);
    if (hold.signal.aborted) release();
    else hold.releases.push(release);
  }

  function holdOf(request: FastifyRequest, reply: FastifyReply): Hold {
    const known = holds.get(request);
    if (known !== undefined) return known;
    const gone = new AbortController();
    const hold: Hold = { signal: gone.signal, releases: [] };
    holds.set(request, hold);
    // Of an answer that was sent and of a connection that broke alike.
    reply.raw.once('close', () => {
      gone.abort(new RequestError('request_timeout', 'The connection ended before the body was read'));
      for (const release of hold.releases.splice(0)) release();
    });
    return hold;
  }

  async function readLarge(request: FastifyRequest, bytes: Buffer): Promise<unknown> {
    const rules = rulesOf(request);
    const reply = await thread.read(bytes, rules);
    if (isRefusal(reply)) return settle(reply, rules);
    const { heapBytes } = reply.pieces;
    if (heapBytes > heapBytesMax) throw tooManyValues();
    const hold = holds.get(request);
    if (hold !== undefined) await take(heapBudget, heapBytes, hold);
    return settle({ json: await build(reply.pieces), floats: reply.floats }, rules);
  }

  return {
    admit(request, reply) {
      const length = Number(request.headers['content-length']);
      const limit = request.routeOptions.bodyLimit;
      if (Number.isFinite(length)) {
        // One that is too large is refused at once, without a wait.
        return length <= inlineMaxBytes || length > limit ? null : take(byteBudget, length, holdOf(request, reply));
      }
      if (request.headers['transfer-encoding'] === undefined || limit <= inlineMaxBytes) return null;
      watch(request, () => take(byteBudget, limit, holdOf(request, reply)));
      return null;
    },

    read(request, bytes) {
      if (bytes.length > inlineMaxBytes) return readLarge(request, bytes);
      return readSmallBody(bytes, rulesOf(request));
    },

    close: () => thread.close(),
  };

  /** A body that does not tell its length: it stops where it becomes a large one, until there is room for the largest. */
  function watch({ raw }: FastifyRequest, admitted: () => Promise<void>): void {
    let received = 0;
    const count = (chunk: Buffer) => {
      received += chunk.length;
      if (received <= inlineMaxBytes) return;
      raw.off('data', count);
      raw.pause();
      admitted().then(
        () => raw.resume(),
        () => raw.destroy(),
      );
    };
    raw.on('data', count);
  }
}

function rulesOf(request: FastifyRequest): BodyRules {
  const { anyBody = false, integers = null } = request.routeOptions.config;
  return { anyRoot: anyBody, integers };
}

/** What the handler is given; endpoints that take any JSON are told a refusal in place of it. */
function settle(reading: Reading | Refusal, { anyRoot }: BodyRules): unknown {
  if (isRefusal(reading)) {
    const error = new RequestError(reading.code, reading.sentence, { errors: [reading.sentence] });
    if (anyRoot) return new BodyReading(undefined, error);
    throw error;
  }
  const { json } = reading;
  if (anyRoot) return new BodyReading(json, null);
  if (reading.floats.length > 0 && typeof json === 'object' && json !== null) floats.set(json, reading.floats);
  return json;
}
