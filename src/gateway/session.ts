/**
 * Who calls. A session is the API's; the gateway asks it and believes the answer for 30 seconds, so that a page that
 * asks for much costs one question. In `dev` there is one local admin and no token at all.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ROLES, type Role } from './access.ts';
import { cookieOf } from './cookies.ts';
import { Refusal } from './refusal.ts';
import type { SessionStore, ValidSession } from './session-store.ts';

export interface Session {
  /** Null for the local user of `dev`. */
  readonly token: string | null;
  readonly user: ValidSession['user'];
  readonly role: Role;
  /** ISO 8601; null: as long as the process. */
  readonly expiresAt: string | null;
  readonly csrfToken: string;
  /** The browser sends it by itself, so that any page could make it do so: the CSRF check is due. */
  readonly isAmbient: boolean;
}

export interface Sessions {
  /** Throws Refusal `unauthenticated`, or `upstream_failed` when the API cannot be asked. */
  of(request: IncomingMessage): Promise<Session>;
  /** Of a token that came in a body; null when it is not valid. */
  byToken(token: string): Promise<Session | null>;
  /** Ends it here at once. */
  revoke(session: Session): Promise<void>;
}

const BELIEVED_MS = 30_000;
const BELIEVED_MAX = 10_000;
const TOKEN = /^[A-Za-z0-9_-]{20,512}$/;

export function createStoredSessions(store: SessionStore, cookieName: string, now: () => number): Sessions {
  const believed = new Map<string, { readonly until: number; readonly session: ValidSession }>();

  async function valid(token: string): Promise<ValidSession | null> {
    if (!TOKEN.test(token)) return null;
    const known = believed.get(token);
    if (known !== undefined && known.until > now()) return known.session;
    believed.delete(token);
    const session = await store.validate(token);
    if (session === null) return null;
    const oldest = believed.size >= BELIEVED_MAX ? believed.keys().next().value : undefined;
    if (oldest !== undefined) believed.delete(oldest);
    believed.set(token, { session, until: Math.min(now() + BELIEVED_MS, Date.parse(session.expiresAt)) });
    return session;
  }

  async function byToken(token: string, isAmbient: boolean): Promise<Session | null> {
    const found = await valid(token);
    const role = found === null ? null : highestRole(found.user.roles);
    if (found === null || role === null) return null;
    return { token, user: found.user, role, expiresAt: found.expiresAt, csrfToken: csrfTokenOf(token), isAmbient };
  }

  return {
    async of(request) {
      const given = givenToken(request, cookieName);
      if (given === null) throw new Refusal('unauthenticated', 'Missing authentication token');
      const session = await byToken(given.token, given.isAmbient);
      if (session === null) throw new Refusal('unauthenticated', 'Invalid or expired session');
      return session;
    },
    byToken: (token) => byToken(token, false),
    async revoke({ token }) {
      if (token === null) return;
      believed.delete(token);
      await store.revoke(token);
      // An answer that was under way while the session ended must not bring it back.
      believed.delete(token);
    },
  };
}

/** One local admin, whoever asks: for a gateway that only loopback reaches. `secret` makes the CSRF token. */
export function createDevSessions(secret: string): Sessions {
  const session: Session = {
    token: null,
    user: { userId: 'local', email: null, displayName: 'Local admin', roles: ['admin'] },
    role: 'admin',
    expiresAt: null,
    csrfToken: csrfTokenOf(secret),
    isAmbient: true,
  };
  return { of: async () => session, byToken: async () => null, revoke: async () => {} };
}

/** A client that names its token says so on purpose; its cookie does not count (api 8.8.2). */
function givenToken(request: IncomingMessage, cookieName: string): { token: string; isAmbient: boolean } | null {
  const { authorization, cookie } = request.headers;
  if (authorization !== undefined) {
    const token = /^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? '';
    return { token, isAmbient: false };
  }
  const inCookie = cookieOf(cookie, cookieName);
  if (inCookie !== null) return { token: inCookie, isAmbient: true };
  const header = request.headers['x-session-token'];
  return typeof header === 'string' ? { token: header, isAmbient: false } : null;
}

export function highestRole(roles: readonly string[]): Role | null {
  return ROLES.findLast((role) => roles.includes(role)) ?? null;
}

/** Follows from the token, so that every gateway knows it; the token does not follow from it. */
function csrfTokenOf(token: string): string {
  return createHmac('sha256', token).update('callboard csrf').digest('base64url');
}

export function isSameText(left: string, right: string): boolean {
  const [a, b] = [left, right].map((text) => createHmac('sha256', 'compare').update(text).digest());
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}
