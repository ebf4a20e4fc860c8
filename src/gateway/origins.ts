/**
 * Which pages may call the gateway (api 2.19, 8.8.3): its own, and exact origins of a list. There is no `*`, no `null`
 * and no suffix, because an allowed page acts with the cookie of its visitor.
 */

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';
const HEADERS =
  'authorization, content-type, accept, idempotency-key, x-idempotency-key, x-request-id, x-session-token, x-csrf-token, last-event-id, traceparent, tracestate';
const EXPOSED = 'X-Request-Id, X-Total-Count, Link, Retry-After';

export interface Origins {
  /** Listed in CORS_ALLOWED_ORIGINS. */
  isListed(origin: string): boolean;
  /** Listed, or the gateway's own. */
  isTrusted(origin: string): boolean;
  /** Headers of an answer to this request. */
  headers(origin: string | undefined, isPreflight: boolean): Readonly<Record<string, string>>;
}

/** Throws RangeError with a sentence when the list holds something that is no origin. */
export function createOrigins(listed: readonly string[], own: string): Origins {
  for (const each of listed) {
    if (!URL.canParse(each) || new URL(each).origin !== each) {
      throw new RangeError(`CORS_ALLOWED_ORIGINS must hold origins such as https://gui.example.com, not '${each}'`);
    }
  }
  const exact = new Set(listed);
  const ownOrigin = new URL(own).origin;
  return {
    isListed: (origin) => exact.has(origin),
    isTrusted: (origin) => exact.has(origin) || origin === ownOrigin,
    headers(origin, isPreflight) {
      if (origin === undefined || !exact.has(origin)) return { vary: 'Origin' };
      const allowed = {
        vary: 'Origin',
        'access-control-allow-origin': origin,
        'access-control-allow-credentials': 'true',
      };
      return isPreflight
        ? {
            ...allowed,
            'access-control-allow-methods': METHODS,
            'access-control-allow-headers': HEADERS,
            'access-control-max-age': '600',
          }
        : { ...allowed, 'access-control-expose-headers': EXPOSED };
    },
  };
}
