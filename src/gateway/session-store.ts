/** The sessions of the API (api 2.18), asked with the internal token. */
import { ApiError } from '../client/errors.ts';
import { Transport } from '../client/transport.ts';
import { Refusal } from './refusal.ts';

export interface SessionUser {
  readonly userId: string;
  readonly email: string | null;
  readonly displayName: string | null;
  readonly roles: readonly string[];
}

export interface ValidSession {
  readonly user: SessionUser;
  /** ISO 8601. */
  readonly expiresAt: string;
}

export interface NewSession extends Omit<SessionUser, 'userId'> {
  readonly subject: string;
  readonly userAgent: string | null;
  readonly ip: string | null;
}

/** Every call throws Refusal `upstream_failed` when the API does not answer as it must: no answer is never a yes. */
export interface SessionStore {
  create(session: NewSession): Promise<{ readonly token: string; readonly expiresAt: string }>;
  validate(token: string): Promise<ValidSession | null>;
  revoke(token: string): Promise<void>;
  /** Whether the session may do this with a playbook, in the words of the API. */
  checkAccess(asked: {
    readonly session_token: string;
    readonly playbook_path: string;
    readonly permission_type: string;
  }): Promise<Readonly<Record<string, unknown>>>;
  close(): Promise<void>;
}

type Fields = Readonly<Record<string, unknown>>;

const TIMEOUT_MS = 5_000;

export function createSessionStore(serverUrl: string, internalToken: string): SessionStore {
  const transport = new Transport({ serverUrl, token: internalToken, connections: 16 });

  async function ask(method: 'POST' | 'DELETE', path: string, body: object): Promise<Fields> {
    try {
      return fieldsOf(await transport.send({ method, path, body, timeoutMs: TIMEOUT_MS }));
    } catch (error) {
      const hint = error instanceof ApiError ? ` (${error.code})` : '';
      throw new Refusal('upstream_failed', `Sessions cannot be checked now${hint}`, { cause: error });
    }
  }

  return {
    async create({ subject, email, displayName, roles, userAgent, ip }) {
      const body = { subject, email, name: displayName, roles, user_agent: userAgent, ip };
      const answer = await ask('POST', '/api/internal/sessions', body);
      const { session_token: token, expires_at: expiresAt } = answer;
      if (typeof token !== 'string' || typeof expiresAt !== 'string') throw unreadable();
      return { token, expiresAt };
    },
    async validate(token) {
      const answer = await ask('POST', '/api/auth/session/validate', { session_token: token });
      if (answer['valid'] !== true) return null;
      const user = fieldsOf(answer['user']);
      const { user_id: userId, roles } = user;
      const expiresAt = answer['expires_at'];
      if (typeof userId !== 'string' || !Array.isArray(roles) || typeof expiresAt !== 'string') throw unreadable();
      return {
        user: {
          userId,
          email: textOf(user['email']),
          displayName: textOf(user['display_name']),
          roles: roles.map(String),
        },
        expiresAt,
      };
    },
    async revoke(token) {
      await ask('DELETE', '/api/internal/sessions', { session_token: token });
    },
    checkAccess: (asked) => ask('POST', '/api/auth/check-access', asked),
    close: () => transport.close(),
  };
}

function unreadable(): Refusal {
  return new Refusal('upstream_failed', 'Sessions cannot be checked now');
}

export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {};
}

export function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
