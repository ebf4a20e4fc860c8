/** The token in front of /api/admin and /api/internal (api 1.13), when one is set; compared in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto';

export const INTERNAL_TOKEN_MISSING = 'This needs the token of SVC_INTERNAL_TOKEN';

/** Whether a text is the token; null when none is set. */
export function internalTokenCheck(token: string | null): ((given: string) => boolean) | null {
  if (token === null) return null;
  const expected = digest(token);
  return (given) => timingSafeEqual(expected, digest(given));
}

const GUARDED = /^\/api\/(admin|internal)(\/|$)/i;

export function isGuardedPath(path: string): boolean {
  return GUARDED.test(path);
}

/** Equal lengths, whatever was sent. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}
