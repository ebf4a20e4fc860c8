/**
 * Who calls. A session is the API's; the gateway asks it and believes the answer for 30 seconds, or until it hears that
 * some session has ended, so that a page that asks for much costs one question. In `dev` there is one local admin and no token at all.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ROLES, type Role } from './access.ts';
import type { Changes } from './changes.ts';
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
  /**
   * `further`: a token that came in the address, where that is allowed; it counts last. Throws Refusal `unauthenticated`,
   * or `upstream_failed` when the API cannot be asked.
   */
  of(request: IncomingMessage, further?: string | null): Promise<Session>;
  /** Of a token that came in a body; null when it is not valid. */
  byToken(token: string): Promise<Session | null>;
  /** Ends it here at once. */
  revoke(session: Session): Promise<void>;
}

/** While the server tells what has ended (changes.ts). */
const BELIEVED_MS = 30_000;
/** While it cannot: a session that ended elsewhere is over here within a second all the same. */
const BELIEVED_ALONE_MS = 900;
const BELIEVED_MAX = 10_000;
const TOKEN = /^[A-Za-z0-9_-]{20,512}$/;

export interface StoredSessionsParts {
  readonly store: SessionStore;
  readonly cookieName: string;
  readonly now: () => number;
  readonly changes: Pick<Changes, 'isHeard' | 'onChange'>;
}

export function createStoredSessions({ store, cookieName, now, changes }: StoredSessionsParts): Sessions {
  const believed = new Map<string, { readonly until: number; readonly session: ValidSession }>();
  let generation = 0;
  changes.onChange(() => {
    generation++;
    believed.clear();
  });

  async function valid(token: string): Promise<ValidSession | null> {
    if (!TOKEN.test(token)) return null;
    const known = believed.get(token);
    if (known !== undefined && known.until > now()) return known.session;
    believed.delete(token);
    const asked = { generation, isHeard: changes.isHeard(), at: now() };
    const session = await store.validate(token);
    // An answer that was under way while something ended is worth this one request only.
    if (session === null || asked.generation !== generation) return session;
    const oldest = believed.size >= BELIEVED_MAX ? believed.keys().next().value : undefined;
    if (oldest !== undefined) believed.delete(oldest);
    const until = asked.at + (asked.isHeard ? BELIEVED_MS : BELIEVED_ALONE_MS);
    believed.set(token, { session, until: Math.min(until, Date.parse(session.expiresAt)) });
    return session;
  }

  async function byToken(token: string, isAmbient: boolean): Promise<Session | null> {
    const found = await valid(token);
    const role = found === null ? null : highestRole(found.user.roles);
    if (found === null || role === null) return null;
    return { token, user: found.user, role, expiresAt: found.expiresAt, csrfToken: csrfTokenOf(token), isAmbient };
  }

  return {
    async of(request, further) {
      const given = givenTokens(request, cookieName, further ?? null);
      if (given.length === 0) throw new Refusal('unauthenticated', 'Missing authentication token');
      for (const { token, isAmbient } of given) {
        const session = await byToken(token, isAmbient);
        if (session !== null) return session;
      }
      throw new Refusal('unauthenticated', 'Invalid or expired session');
    },
    byToken: (token) => byToken(token, false),
    async revoke({ token }) {
      if (token === null) return;
      generation++;
      believed.delete(token);
      await store.revoke(token);
      generation++;
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
  return { of: async () => session, byToken: async () => session, revoke: async () => {} };
}

/**
 * The tokens of a request in the order in which they count (api 2.19): cookie, bearer token, X-Session-Token; the next one
 * counts where the one before is none any more. For a client that brings a bearer token its cookie does not exist, and
 * no other token either (8.8.2): a request with a good cookie and a forged token is a forged request.
 */
function givenTokens(
  request: IncomingMessage,
  cookieName: string,
  further: string | null,
): readonly { readonly token: string; readonly isAmbient: boolean }[] {
  const { authorization, cookie } = request.headers;
  const bearer = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (bearer !== undefined) return [{ token: bearer, isAmbient: false }];
  const inCookie = cookieOf(cookie, cookieName);
  const header = request.headers['x-session-token'];
  const named = typeof header === 'string' && header !== '' ? header : further;
  const given = [
    ...(inCookie === null ? [] : [{ token: inCookie, isAmbient: true }]),
    ...(named === null ? [] : [{ token: named, isAmbient: false }]),
  ];
  // A way to bring a token that is none of ours, and nothing beside it.
  return given.length === 0 && authorization !== undefined ? [{ token: '', isAmbient: false }] : given;
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
