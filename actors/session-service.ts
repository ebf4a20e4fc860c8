/**
 * Sessions of people who logged in at the gateway (api 2.18). Only a digest of the token is stored, so that a copy of the
 * database opens no session; the token itself is told once.
 */
import { ACCESS_CHANGED } from './access-service.ts';
import type { AuditRow, CurrentCaller } from './audit.ts';
import type { Bus, Ids } from './ports.ts';

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
  insert(
    row: Omit<NewSession, 'ttlSeconds'> & SessionLimits & { readonly tokenHash: Uint8Array },
    audit: AuditRow,
  ): Promise<string>;
  /** Counts as use: the idle time begins again. Null when there is none that is alive. */
  use(tokenHash: Uint8Array, idleSeconds: number): Promise<StoredSession | null>;
  /** How many ended; one audit row where any did. */
  revoke(which: EndedSessions, audit: (subject: string, count: number) => AuditRow): Promise<number>;
}

export type EndedSessions = { readonly tokenHash: Uint8Array } | { readonly subject: string };

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
  readonly ids: Ids;
  readonly bus: Pick<Bus, 'publish'>;
  readonly caller: CurrentCaller;
  /** 256 random bits as text. */
  newToken(): string;
  /** SHA-256. */
  digest(token: string): Uint8Array;
}

export function createSessionService(parts: SessionParts): SessionService {
  const { store, ids, bus, caller, newToken, digest, idleSeconds, maxSeconds } = parts;

  async function auditOf(action: string): Promise<Omit<AuditRow, 'target' | 'detail'>> {
    await ids.reserve(1);
    return { ...caller(), auditId: ids.next(), action, outcome: 'ok' };
  }

  return {
    async create({ ttlSeconds, ...session }) {
      const token = newToken();
      const limits = { idleSeconds, maxSeconds: Math.min(ttlSeconds ?? maxSeconds, maxSeconds) };
      const { subject, roles, ip } = session;
      const audit = { ...(await auditOf('session.login')), target: subject, detail: { roles: [...roles], ip } };
      const expiresAt = await store.insert({ ...session, ...limits, tokenHash: digest(token) }, audit);
      return { token, expiresAt };
    },
    validate: (token) => store.use(digest(token), idleSeconds),
    async revoke(which) {
      const audit = await auditOf('session.logout');
      const ended: EndedSessions = 'token' in which ? { tokenHash: digest(which.token) } : which;
      const count = await store.revoke(ended, (target, sessions) => ({ ...audit, target, detail: { sessions } }));
      if (count > 0) bus.publish('control', [{ action: ACCESS_CHANGED }]);
      return count;
    },
  };
}
