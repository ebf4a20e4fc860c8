/**
 * How many requests one token, or one address where callers are not told apart, may make (api 1.12): a bucket each that
 * fills at a steady rate. Off by default; workers and the sign of life are never held up.
 */
import type { FastifyRequest } from 'fastify';
import { RequestError } from '../errors.ts';

export interface RateLimits {
  /** Requests; 0: no limit. */
  readonly perSecond: number;
  /** How many may come at once after a pause. */
  readonly burst: number;
}

const CALLERS_MAX = 20_000;
/** Seconds. Nobody keeps a longer promise; who asks again too early is told again. */
const RETRY_AFTER_MAX = 3_600;
const SIGN_OF_LIFE = '/health';

interface Bucket {
  left: number;
  /** Milliseconds, monotonic. */
  at: number;
}

/** Throws RequestError `rate_limited`; runs when it is known who calls. */
export function createRateLimit({ perSecond, burst }: RateLimits, now: () => number = () => performance.now()) {
  const buckets = new Map<string, Bucket>();

  return (request: FastifyRequest): void => {
    const { url, config } = request.routeOptions;
    const roles = config.roles ?? [];
    const isWorkers = roles.length > 0 && roles.every((mark) => mark === 'W');
    if (url === SIGN_OF_LIFE || isWorkers || request.identity?.role === 'worker') return;
    const caller = request.identity === null ? `address ${request.ip}` : `token ${request.identity.actor}`;
    const at = now();
    const known = buckets.get(caller);
    const bucket = known ?? { left: burst, at };
    bucket.left = Math.min(burst, bucket.left + ((at - bucket.at) / 1000) * perSecond);
    bucket.at = at;
    // What was used last stays; a bucket that is forgotten is a full one.
    buckets.delete(caller);
    buckets.set(caller, bucket);
    const oldest = buckets.size > CALLERS_MAX ? buckets.keys().next().value : undefined;
    if (oldest !== undefined) buckets.delete(oldest);
    if (bucket.left >= 1) {
      bucket.left -= 1;
      return;
    }
    const seconds = Math.min(RETRY_AFTER_MAX, Math.max(1, Math.ceil((1 - bucket.left) / perSecond)));
    throw new RequestError('rate_limited', `Too many requests; ${perSecond} a second are served`, {
      headers: { 'retry-after': String(seconds) },
    });
  };
}
