/**
 * Keychain entries on the wire (api 2.9). Token data leaves only in the answer to a read of a live entry, a renewal
 * request only where the entry renews itself; lists and logs have neither.
 */
import * as v from 'valibot';
import type { KeychainAddress, KeychainDraft, KeychainListing, KeychainLogRow } from '../../actors/services.ts';
import type { JsonMap } from '../../machines/json.ts';
import { TTL_MAX_SECONDS } from '../../machines/keychain/expiry.ts';
import { RENEW_DEFAULTS, type RenewConfig } from '../../machines/keychain/renewal.ts';
import { type Reading, secondsLeft } from '../../machines/keychain/reply.ts';
import { type EntryScope, readScope } from '../../machines/keychain/scope.ts';
import { described } from './described.ts';
import { flag, instant, integer, map, maybe, text } from './fields.ts';
import { id, idOut, name } from './ids.ts';
import { queryFlag, queryInteger, queryText } from './query-fields.ts';

const SCOPES = ['local', 'global', 'shared', 'catalog'];
const NEEDS_EXECUTION = "'execution_id' is required for scope local and shared";

const scope = v.pipe(
  described(
    v.custom<string>(
      (value) => typeof value === 'string' && readScope(value) !== null,
      `must be one of ${SCOPES.join(', ')}`,
    ),
    { type: 'string', enum: SCOPES },
  ),
  // The check above has read it once.
  v.transform((word) => readScope(word) ?? 'global'),
);

export const keychainParams = v.object({ catalog_id: id, keychain_name: name });

const address = { scope_type: maybe(scope), execution_id: maybe(id) };
interface Owned {
  readonly scope_type?: EntryScope | null | undefined;
  readonly execution_id?: number | null | undefined;
}

function hasOwner({ scope_type, execution_id }: Owned): boolean {
  return (scope_type ?? 'global') === 'global' || (execution_id ?? null) !== null;
}

export const keychainQuery = v.pipe(
  v.object(address),
  v.check((query) => hasOwner(query), NEEDS_EXECUTION),
);
export const keychainReadQuery = v.pipe(
  v.object({ ...address, claim_renewal: v.optional(queryFlag), worker_id: v.optional(name) }),
  v.check((query) => hasOwner(query), NEEDS_EXECUTION),
);
export type KeychainReadQuery = v.InferOutput<typeof keychainReadQuery>;

const renewConfig = v.object({
  endpoint: maybe(text(8192)),
  method: maybe(text(32)),
  headers: maybe(map),
  data: maybe(map),
  token_field: maybe(text(256, 1)),
  ttl_field: maybe(text(256, 1)),
});

/** Other years have no four digits, and the database none of them. */
const year = v.check((at: string) => /^[1-9]\d{3}-/.test(at), 'must be a time of the years 1000 to 9999');

export const keychainBody = v.pipe(
  v.object({
    ...address,
    token_data: map,
    credential_type: text(64, 1),
    cache_type: maybe(v.picklist(['secret', 'token'], 'must be secret or token')),
    parent_execution_id: maybe(id),
    ttl_seconds: maybe(integer(-TTL_MAX_SECONDS, TTL_MAX_SECONDS)),
    expires_at: maybe(v.pipe(instant, year)),
    auto_renew: maybe(flag),
    renew_config: maybe(renewConfig),
    schema: maybe(map),
  }),
  v.check((body) => hasOwner(body), NEEDS_EXECUTION),
  v.check(
    (body) => body.auto_renew !== true || (body.renew_config?.endpoint ?? '') !== '',
    "'renew_config.endpoint' is required with auto_renew",
  ),
);

const addressed = { keychain_name: v.string(), catalog_id: idOut, cache_key: v.string() };
const renewal = v.object({ granted: v.boolean(), until: v.string() });
const renewRequest = v.object({
  endpoint: v.string(),
  method: v.string(),
  headers: map,
  data: map,
  token_field: v.string(),
  ttl_field: v.string(),
});
const types = { credential_type: v.string(), cache_type: v.picklist(['secret', 'token']) };

export const keychainReading = v.variant('status', [
  v.object({
    status: v.literal('success'),
    ...addressed,
    token_data: map,
    ...types,
    scope_type: v.string(),
    expires_at: v.string(),
    ttl_seconds: v.number(),
    accessed_at: v.string(),
    access_count: v.number(),
    auto_renew: v.boolean(),
    expired: v.literal(false),
    renew_config: v.optional(renewRequest),
    renewal: v.optional(renewal),
  }),
  v.object({
    status: v.literal('expired'),
    ...addressed,
    auto_renew: v.boolean(),
    expired: v.literal(true),
    renew_config: v.optional(renewRequest),
    ...v.partial(v.object(types)).entries,
    renewal: v.optional(renewal),
  }),
  v.object({ status: v.literal('not_found'), ...addressed }),
]);
export type KeychainReading = v.InferOutput<typeof keychainReading>;

export const keychainStored = v.object({
  status: v.literal('success'),
  message: v.string(),
  ...addressed,
  expires_at: v.string(),
  ttl_seconds: v.number(),
  auto_renew: v.boolean(),
});

export const keychainRemoved = v.object({
  status: v.literal('success'),
  message: v.string(),
  keychain_name: v.string(),
  catalog_id: idOut,
  deleted: v.boolean(),
});

export const keychainEntries = v.object({
  status: v.literal('success'),
  catalog_id: idOut,
  entries: v.array(
    v.object({
      keychain_name: v.string(),
      cache_key: v.string(),
      scope_type: v.string(),
      ...types,
      expires_at: v.string(),
      expired: v.boolean(),
      auto_renew: v.boolean(),
      access_count: v.number(),
    }),
  ),
  count: v.number(),
});

/** `<cache key>#<seq>` of the last row that was seen. */
const logCursor = v.pipe(
  described(
    v.custom<string>(
      (value) => typeof value === 'string' && /^[^#\0]{1,256}#[1-9]\d{0,14}$/.test(value),
      'must be the next_after of a page before',
    ),
    { type: 'string' },
  ),
  v.transform((cursor) => {
    const [cacheKey = '', seq = ''] = cursor.split('#');
    return { cacheKey, seq: Number(seq) };
  }),
);

export const keychainLogQuery = v.object({
  keychain_name: v.optional(queryText(128)),
  after: v.optional(logCursor),
  limit: v.optional(queryInteger(1, 1000)),
});

export const keychainLog = v.object({
  status: v.literal('success'),
  catalog_id: idOut,
  events: v.array(
    v.object({
      cache_key: v.string(),
      keychain_name: v.string(),
      seq: v.number(),
      event_type: v.string(),
      at: v.string(),
      context: map,
    }),
  ),
  count: v.number(),
  next_after: v.nullable(v.string()),
});

// ---------------------------------------------------------------- conversions

type Params = v.InferOutput<typeof keychainParams>;

export function toAddress(params: Params, query: v.InferOutput<typeof keychainQuery>): KeychainAddress {
  return {
    catalogId: params.catalog_id,
    name: params.keychain_name,
    scope: query.scope_type ?? 'global',
    executionId: query.execution_id ?? null,
  };
}

export function toDraft(params: Params, body: v.InferOutput<typeof keychainBody>): KeychainDraft {
  return {
    ...toAddress(params, body),
    parentExecutionId: body.parent_execution_id ?? null,
    tokenData: body.token_data,
    credentialType: body.credential_type,
    cacheType: body.cache_type ?? 'token',
    ttlSeconds: body.ttl_seconds ?? null,
    expiresAt: body.expires_at ?? null,
    autoRenew: body.auto_renew ?? false,
    renewConfig: toRenewConfig(body.renew_config ?? null),
    schema: body.schema ?? null,
  };
}

function toRenewConfig(given: v.InferOutput<typeof renewConfig> | null): RenewConfig | null {
  if (given === null) return null;
  return {
    endpoint: given.endpoint ?? '',
    method: given.method ?? RENEW_DEFAULTS.method,
    headers: given.headers ?? {},
    data: given.data ?? {},
    tokenField: given.token_field ?? RENEW_DEFAULTS.tokenField,
    ttlField: given.ttl_field ?? RENEW_DEFAULTS.ttlField,
  };
}

/** `claimed`: the caller may have to renew, and then stores what it does not see in an expired entry otherwise. */
export function readingToWire(params: Params, reading: Reading<JsonMap>, claimed: boolean): KeychainReading {
  const { cacheKey } = reading;
  const { keychain_name, catalog_id } = params;
  const found = { keychain_name, catalog_id, cache_key: cacheKey };
  if (reading.status === 'not_found') return { status: 'not_found', ...found };
  const { entry, renewConfig: renew, renewal: asked } = reading;
  const kinds = { credential_type: entry.credentialType, cache_type: entry.cacheType };
  const extras = {
    ...(renew === null ? {} : { renew_config: renewToWire(renew) }),
    ...(asked === null ? {} : { renewal: asked }),
  };
  if (reading.status === 'expired') {
    const more = { auto_renew: entry.autoRenew, expired: true as const, ...(claimed ? kinds : {}), ...extras };
    return { status: 'expired', ...found, ...more };
  }
  return {
    status: 'success',
    ...found,
    token_data: reading.data,
    ...kinds,
    scope_type: entry.scope,
    expires_at: entry.expiresAt,
    ttl_seconds: secondsLeft(entry),
    accessed_at: reading.accessedAt,
    access_count: reading.accessCount,
    auto_renew: entry.autoRenew,
    expired: false,
    ...extras,
  };
}

function renewToWire({ endpoint, method, headers, data, tokenField, ttlField }: RenewConfig) {
  return { endpoint, method, headers, data, token_field: tokenField, ttl_field: ttlField };
}

export function listingToWire(row: KeychainListing): v.InferOutput<typeof keychainEntries>['entries'][number] {
  return {
    keychain_name: row.name,
    cache_key: row.cacheKey,
    scope_type: row.scope,
    credential_type: row.credentialType,
    cache_type: row.cacheType,
    expires_at: row.expiresAt,
    expired: row.expired,
    auto_renew: row.autoRenew,
    access_count: row.accessCount,
  };
}

export function logRowToWire(row: KeychainLogRow): v.InferOutput<typeof keychainLog>['events'][number] {
  const { cacheKey, seq, type, at, context } = row;
  const [keychainName = ''] = cacheKey.split(':');
  return { cache_key: cacheKey, keychain_name: keychainName, seq, event_type: type, at, context };
}

export function cursorOf(row: KeychainLogRow): string {
  return `${row.cacheKey}#${row.seq}`;
}
