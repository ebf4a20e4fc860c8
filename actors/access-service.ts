/**
 * Who a token belongs to (api 1.13, 8.6). A judgement counts for less than a second, so that a token in use costs one
 * look-up a second and a revocation holds everywhere within one, also where its message was lost; the message only makes
 * it hold sooner. Tokens are kept as digests: no copy of memory or database opens anything.
 */
import { highestRole, type PeopleRole, type TokenRole } from '../machines/access.ts';
import type { Bus, Clock } from './ports.ts';
import { Recent } from './recent.ts';
import type { SessionService } from './session-service.ts';
import type { LiveToken } from './token-service.ts';

/** Somebody whose token is good. */
export interface Identity {
  /** Subject of the session, name of the token, or `internal`. */
  readonly actor: string;
  readonly role: TokenRole;
  readonly email: string | null;
  readonly displayName: string | null;
  /** ISO 8601; null: it does not end by itself. */
  readonly expiresAt: string | null;
}

/** A service token set by configuration (SVC_API_TOKENS). */
export interface StaticToken {
  readonly name: string;
  readonly role: TokenRole;
  /** SHA-256. */
  readonly digest: Uint8Array;
}

export interface IdentityService {
  /** Whose the token is; null for one that is unknown, expired or revoked. Asking counts as use of a session. */
  identify(token: string): Promise<Identity | null>;
  /** Runs `listener` when somebody's access has ended somewhere, so that streams can ask again. */
  onRevoked(listener: () => void): () => void;
}

export interface IdentityParts {
  readonly sessions: Pick<SessionService, 'validate'>;
  /** The live service token of a digest. */
  readonly serviceToken: (digest: Uint8Array) => Promise<LiveToken | null>;
  readonly staticTokens: readonly StaticToken[];
  readonly internalToken: string | null;
  readonly bus: Pick<Bus, 'subscribe'>;
  readonly clock: Clock;
  digest(text: string): Uint8Array;
  /** In constant time; both have the same length. */
  isSame(left: Uint8Array, right: Uint8Array): boolean;
}

/** On topic `control`: sessions or tokens have ended. */
export const ACCESS_CHANGED = 'access_changed';

const BELIEVED_MS = 900;
const BELIEVED_MAX = 10_000;
const SERVICE_TOKEN = /^cb_(?:viewer|operator|admin|worker)_[A-Za-z0-9_-]{43}$/;
const SESSION_TOKEN = /^[A-Za-z0-9_-]{43}$/;
const TOKEN_CHARS_MAX = 512;

export function createIdentityService(parts: IdentityParts): IdentityService {
  const { sessions, bus, clock, digest, isSame } = parts;
  const internal = parts.internalToken === null ? null : digest(parts.internalToken);
  const believed = new Recent<string, { readonly until: number; readonly answer: Promise<Identity | null> }>({
    countMax: BELIEVED_MAX,
    sizeMax: BELIEVED_MAX,
  });
  const listeners = new Set<() => void>();
  let generation = 0;

  bus.subscribe((topic, hints) => {
    if (topic !== 'control' || !hints.some((hint) => hint['action'] === ACCESS_CHANGED)) return;
    generation++;
    for (const listener of listeners) listener();
  });

  async function judged(token: string, hash: Uint8Array): Promise<Identity | null> {
    // Every configured token is compared, whichever fits: how long it takes tells nothing.
    const configured = parts.staticTokens.filter((each) => isSame(each.digest, hash))[0];
    if (internal !== null && isSame(internal, hash)) return named('internal', 'admin', null);
    if (configured !== undefined) return named(configured.name, configured.role, null);
    if (SERVICE_TOKEN.test(token)) {
      const found = await parts.serviceToken(hash);
      return found === null ? null : named(found.name, found.role, found.expiresAt);
    }
    if (!SESSION_TOKEN.test(token)) return null;
    const session = await sessions.validate(token);
    const role: PeopleRole | null = session === null ? null : highestRole(session.roles);
    if (session === null || role === null) return null;
    const { subject, email, name, expiresAt } = session;
    return { actor: subject, role, email, displayName: name, expiresAt };
  }

  return {
    identify(token) {
      if (token === '' || token.length > TOKEN_CHARS_MAX) return Promise.resolve(null);
      const hash = digest(token);
      const key = `${generation}:${hash.join()}`;
      const known = believed.get(key);
      const now = clock.now();
      if (known !== undefined && known.until > now) return known.answer;
      const answer = judged(token, hash);
      believed.put(key, { until: now + BELIEVED_MS, answer }, 1);
      // What is no good is asked for anew each time: a token made a moment ago on another server works at once.
      answer.then(
        (identity) => {
          if (identity === null) believed.delete(key);
        },
        () => believed.delete(key),
      );
      return answer;
    },
    onRevoked(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function named(name: string, role: TokenRole, expiresAt: string | null): Identity {
  return { actor: name, role, email: null, displayName: name, expiresAt };
}
