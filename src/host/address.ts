/** Who is asked and for what: the `Host` (api 8.7), the path (1.1) and the `Origin` (1.11) of a request. */
import type { IncomingHttpHeaders } from 'node:http';

const HOST = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(?::\d{1,5})?$/i;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);
const LOOPBACK_ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;

export function isLoopback(host: string): boolean {
  return LOOPBACK.has(host) || host === '::1' || host.startsWith('127.');
}

/** A check of the `Host` header that defeats DNS rebinding; everything passes when the server listens beyond loopback. */
export function hostCheck(options: {
  readonly host: string;
  readonly publicUrl: string | null;
  readonly allowedHosts: readonly string[];
}): (host: string | undefined) => boolean {
  if (!isLoopback(options.host)) return () => true;
  const allowed = new Set([...LOOPBACK, ...options.allowedHosts.map((each) => each.toLowerCase())]);
  if (options.publicUrl !== null) allowed.add(new URL(options.publicUrl).hostname.toLowerCase());
  return (host) => {
    const hostname = HOST.exec(host ?? '')?.[1]?.toLowerCase();
    return hostname !== undefined && (allowed.has(hostname) || allowed.has((host ?? '').toLowerCase()));
  };
}

/** Whether browsers may call from this origin: `loopback`, exact origins, or `*`. */
export function originCheck(allowed: readonly string[]): (origin: string) => boolean {
  const exact = new Set(allowed);
  const any = exact.has('*');
  const loopback = exact.has('loopback');
  return (origin) => any || exact.has(origin) || (loopback && LOOPBACK_ORIGIN.test(origin));
}

/**
 * Whether a browser may have been led to send this changing request by a page of a foreign origin. A JSON body cannot come
 * that way without a preflight, which such a page does not pass; what has no body could (api 8.7). The browser's own word
 * for the sender comes first: pages cannot write `Sec-Fetch-Site`.
 */
export function isForeignPage(
  method: string,
  headers: IncomingHttpHeaders,
  isAllowed: (origin: string) => boolean,
): boolean {
  if (!CHANGING.has(method) || /^\s*application\/json\s*(;|$)/i.test(headers['content-type'] ?? '')) return false;
  const site = headers['sec-fetch-site'];
  if (site === 'same-origin' || site === 'none') return false;
  const { origin } = headers;
  if (origin === undefined) return site === 'cross-site';
  return !isAllowed(origin) && origin.replace(/^https?:\/\//i, '').toLowerCase() !== headers.host?.toLowerCase();
}

const CHANGING = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

const ODD = /[%\\]|\/\.\.?(?:\/|$)/;
/** A proxy may name the whole address; the router leaves this out, so whoever looks at the path has to. */
const AUTHORITY = /^https?:\/\/[^/?#]+/i;

/** The path of a URL, decoded once; null when it is none the service may have (`.`, `..`, NUL, backslash, bad escapes). */
export function readPath(url: string): string | null {
  const target = url.startsWith('/') ? url : url.replace(AUTHORITY, '');
  const end = target.search(/[?#]/);
  const path = (end === -1 ? target : target.slice(0, end)) || '/';
  if (!path.startsWith('/')) return null;
  if (!ODD.test(path)) return path;
  try {
    const decoded = decodeURIComponent(path);
    const clean = !/[\0\\]/.test(decoded) && decoded.split('/').every((part) => part !== '.' && part !== '..');
    return clean ? decoded : null;
  } catch {
    return null;
  }
}

const REQUEST_ID = /^[A-Za-z0-9._-]{8,64}$/;

/** Takes over a good `X-Request-Id` and makes one otherwise; `prefix` tells processes apart. */
export function requestIds(prefix: string): (given: string | string[] | undefined) => string {
  let count = 0;
  return (given) => {
    if (typeof given === 'string' && REQUEST_ID.test(given)) return given;
    count++;
    return `r-${prefix}-${count.toString(36)}`;
  };
}
