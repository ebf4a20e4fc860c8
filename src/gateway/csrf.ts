/**
 * Whether a changing request with a cookie was meant by its user (api 8.8.2): the body has a type that forms cannot
 * send, the page is a trusted one, and it knows the session's token. Clients that name their token are exempt.
 */
import type { IncomingMessage } from 'node:http';
import type { Origins } from './origins.ts';
import { Refusal } from './refusal.ts';
import { isSameText, type Session } from './session.ts';

/** Throws Refusal `csrf`. */
export function checkCsrf(request: IncomingMessage, session: Session, origins: Origins): void {
  if (!session.isAmbient || request.method === 'GET' || request.method === 'HEAD') return;
  const { headers } = request;
  if (hasBody(request) && !/^application\/json\s*(;|$)/i.test(headers['content-type'] ?? '')) {
    throw new Refusal('csrf', 'The body must be application/json');
  }
  const { origin } = headers;
  if (origin !== undefined && !origins.isTrusted(origin)) throw new Refusal('csrf', 'The page may not do this');
  const site = headers['sec-fetch-site'];
  if (site === 'cross-site' && (origin === undefined || !origins.isListed(origin))) {
    throw new Refusal('csrf', 'The page may not do this');
  }
  const given = headers['x-csrf-token'];
  if (typeof given !== 'string' || !isSameText(given, session.csrfToken)) {
    throw new Refusal('csrf', 'X-CSRF-Token is missing or wrong; /auth/me tells it');
  }
}

export function hasBody(request: IncomingMessage): boolean {
  const { headers } = request;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
