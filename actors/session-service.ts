/**
 * Sessions of people who logged in at the gateway (api 2.18). Only a digest of the token is stored, so that a copy of the
 * database opens no session; the token itself is told once.
 */

export interface NewSession {
  readonly subject: string;
  readonly email: string | null;
  readonly name: string | null;
  readonly roles: readonly string[];
  readonly userAgent: string | null;
  readonly ip: string | null;
  /** Null: as long as sessions may live. */
  readonly ttlSeconds: number | null;
}

export interface StoredSession {
  readonly subject: string;
  readonly email: string | null;
  readonly name: string | null;
  readonly roles: readonly string[];
  /** The absolute end, ISO 8601; a session that is not used ends before. */
  readonly expiresAt: string;
}

export interface SessionStore {
  /** The end, ISO 8601. */
  insert(row: Omit<NewSession, 'ttlSeconds'> & SessionLimits & { readonly tokenHash: Uint8Array }): Promise<string>;
  /** Counts as use: the idle time begins again. Null when there is none that is alive. */
  use(tokenHash: Uint8Array, idleSeconds: number): Promise<StoredSession | null>;
  revokeToken(tokenHash: Uint8Array): Promise<number>;
  revokeSubject(subject: string): Promise<number>;
}

export interface SessionLimits {
  readonly idleSeconds: number;
  readonly maxSeconds: number;
}

export interface SessionService {
  create(session: NewSession): Promise<{ readonly token: string; readonly expiresAt: string }>;
  /** Null for a token that is unknown, expired or revoked. */
  validate(token: string): Promise<StoredSession | null>;
  /** How many sessions ended by it. */
  revoke(which: { readonly token: string } | { readonly subject: string }): Promise<number>;
}

export interface SessionParts extends SessionLimits {
  readonly store: SessionStore;
  /** 256 random bits as text. */
  newToken(): string;
  /** SHA-256. */
  digest(token: string): Uint8Array;
}

export function createSessionService({
  store,
  newToken,
  digest,
  idleSeconds,
  maxSeconds,
}: SessionParts): SessionService {
  return {
    async create({ ttlSeconds, ...session }) {
      const token = newToken();
      const limits = { idleSeconds, maxSeconds: Math.min(ttlSeconds ?? maxSeconds, maxSeconds) };
      const expiresAt = await store.insert({ ...session, ...limits, tokenHash: digest(token) });
      return { token, expiresAt };
    },
    validate: (token) => store.use(digest(token), idleSeconds),
    revoke: (which) => ('token' in which ? store.revokeToken(digest(which.token)) : store.revokeSubject(which.subject)),
  };
}
