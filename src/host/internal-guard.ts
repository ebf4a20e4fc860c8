/** The token in front of /api/admin and /api/internal (api 1.13), when one is set; compared in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** Whether a request carries the token; `unset`: there is none. */
export function internalTokenCheck(
  token: string | null,
): (headers: IncomingHttpHeaders) => 'right' | 'wrong' | 'unset' {
  if (token === null) return () => 'unset';
  const expected = digest(token);
  return (headers) => (timingSafeEqual(expected, digest(given(headers))) ? 'right' : 'wrong');
}

/** True for a request that must be refused. */
export type Guard = (path: string, headers: IncomingHttpHeaders) => boolean;

const GUARDED = /^\/api\/(admin|internal)(\/|$)/i;

export function internalGuard(token: string | null): Guard {
  const check = internalTokenCheck(token);
  return (path, headers) => GUARDED.test(path) && check(headers) === 'wrong';
}

function given(headers: IncomingHttpHeaders): string {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  const session = headers['x-session-token'];
  return bearer ?? (typeof session === 'string' ? session : '');
}

/** Equal lengths, whatever was sent. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}
