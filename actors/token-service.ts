/** Service tokens (api 2.13, 8.6): made once and told once, stored as digests, ended by name; each change leaves its audit row. */
import { TOKEN_ROLES, type TokenRole } from '../machines/access.ts';
import { ACCESS_CHANGED } from './access-service.ts';
import type { AuditRow, CurrentCaller } from './audit.ts';
import { DomainError } from './errors.ts';
import type { Bus, Ids } from './ports.ts';

/** A row of `core.api_token` without its digest. Instants are ISO 8601. */
export interface StoredToken {
  readonly name: string;
  readonly role: string;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
  readonly revokedAt: string | null;
}

export interface LiveToken {
  readonly name: string;
  readonly role: TokenRole;
  readonly expiresAt: string | null;
}

export interface TokenStore {
  /** By name. */
  list(): Promise<readonly StoredToken[]>;
  /** Takes the place of one that has ended. Null when a live one has the name. */
  insert(row: NewToken & { readonly tokenHash: Uint8Array }, audit: AuditRow): Promise<StoredToken | null>;
  /** `gone`: it had ended before; null: there is none of that name. */
  revoke(name: string, audit: AuditRow): Promise<'revoked' | 'gone' | null>;
  /** The live token of a digest; notes the use once a minute at most. */
  find(
    tokenHash: Uint8Array,
  ): Promise<(Omit<LiveToken, 'role'> & { readonly role: string; readonly tokenHash: Uint8Array }) | null>;
}

export interface NewToken {
  readonly name: string;
  readonly role: TokenRole;
  readonly expiresAt: string | null;
}

export interface TokenService {
  list(): Promise<readonly StoredToken[]>;
  /** Throws validation_error when a live token has the name. */
  create(token: NewToken): Promise<{ readonly token: string; readonly row: StoredToken }>;
  /** False: it had ended before. Throws not_found. */
  revoke(name: string): Promise<boolean>;
  /** The live token of a digest. */
  find(digest: Uint8Array): Promise<LiveToken | null>;
}

export interface TokenParts {
  readonly store: TokenStore;
  readonly ids: Ids;
  readonly bus: Pick<Bus, 'publish'>;
  readonly caller: CurrentCaller;
  /** 256 random bits as base64url. */
  newSecret(): string;
  digest(text: string): Uint8Array;
  isSame(left: Uint8Array, right: Uint8Array): boolean;
}

export function createTokenService({ store, ids, bus, caller, newSecret, digest, isSame }: TokenParts): TokenService {
  async function auditOf(action: string, target: string, detail: AuditRow['detail'] = {}): Promise<AuditRow> {
    await ids.reserve(1);
    return { ...caller(), auditId: ids.next(), action, target, outcome: 'ok', detail };
  }

  return {
    list: () => store.list(),
    async create({ name, role, expiresAt }) {
      const token = `cb_${role}_${newSecret()}`;
      const audit = await auditOf('token.create', name, { role, expires_at: expiresAt });
      const row = await store.insert({ name, role, expiresAt, tokenHash: digest(token) }, audit);
      if (row === null) {
        const sentence = `body.name: a token named '${name}' is in use; revoke it first or choose another name`;
        throw new DomainError('validation_error', sentence, { errors: [sentence] });
      }
      return { token, row };
    },
    async revoke(name) {
      const ended = await store.revoke(name, await auditOf('token.revoke', name));
      if (ended === null) throw new DomainError('not_found', `Token '${name}' not found`);
      bus.publish('control', [{ action: ACCESS_CHANGED }]);
      return ended === 'revoked';
    },
    async find(hash) {
      const found = await store.find(hash);
      const role = TOKEN_ROLES.find((each) => each === found?.role);
      // The row was found by its digest; what decides is a comparison that takes the same time wherever they differ.
      if (found === null || role === undefined || !isSame(found.tokenHash, hash)) return null;
      return { name: found.name, role, expiresAt: found.expiresAt };
    },
  };
}
