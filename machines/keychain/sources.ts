/**
 * Where the value of a declared entry comes from (language 12.3): its definition, rendered. What a definition asks for
 * is told here; asking for it is the business of whoever has a network.
 */
import { isMap, type Json, type JsonMap } from '../json.ts';
import type { Scope } from '../playbook/template/facade.ts';
import type { Limits } from '../playbook/template/run.ts';
import { compileTree, renderTree } from '../playbook/template/tree.ts';
import { TTL_MAX_SECONDS } from './expiry.ts';
import { type Encoding, RENEW_DEFAULTS, type RenewConfig } from './renewal.ts';

export type EntrySource =
  | {
      readonly from: 'secrets';
      readonly provider: SecretProvider;
      /** The name of a credential, an inline map, or null. */
      readonly auth: Json;
      readonly paths: readonly (readonly [string, string])[];
    }
  | { readonly from: 'request'; readonly config: RenewConfig; readonly encoding: Encoding }
  | { readonly from: 'value'; readonly data: JsonMap }
  | { readonly from: 'credential'; readonly name: string }
  | { readonly from: 'nowhere'; readonly reason: string };

/** `env` is for development: variables of the server. */
export type SecretProvider = (typeof PROVIDERS)[number];
const PROVIDERS = ['env', 'gcp', 'aws', 'azure'] as const;

export interface RenderedEntry {
  readonly source: EntrySource;
  /** Of an entry that comes from a credential, the credential's own type takes its place. */
  readonly credentialType: string;
  readonly cacheType: 'secret' | 'token';
  readonly autoRenew: boolean;
  /** Seconds; null: the answer or the default says. */
  readonly ttlSeconds: number | null;
}

/** Everything of these and of `headers` is text; `data` and the map of a `static` entry keep the types of their values (language 8.5). */
const TEXT_FIELDS: ReadonlySet<string> = new Set([
  'kind',
  'provider',
  'auth',
  'endpoint',
  'method',
  'token',
  'credential',
  'token_field',
  'ttl_field',
]);

/** Renders a definition as the parser left it. Throws TemplateError, and what the scope throws. */
export function renderEntry(definition: JsonMap, scope: Scope, limits: Limits): RenderedEntry {
  const { name: _name, scope: _scope, ...fields } = definition;
  const mapIsText = definition['kind'] === 'secret_manager';
  const tree = compileTree(fields, ([field = '']) => {
    // A header that is null is not sent.
    if (field === 'headers') return 'optional text';
    return TEXT_FIELDS.has(field) || (field === 'map' && mapIsText) ? 'text' : 'value';
  });
  // The tree was compiled from a map, and a map renders to a map.
  return entryOf(renderTree(tree, scope, limits) as JsonMap);
}

function entryOf(fields: JsonMap): RenderedEntry {
  const autoRenew = fields['auto_renew'] === true || fields['auto_renew'] === 'true';
  const common = { autoRenew, ttlSeconds: secondsOf(fields['ttl_seconds']) };
  const kind = textAt(fields, 'kind');
  switch (kind) {
    case 'secret_manager':
      return { ...common, credentialType: kind, cacheType: 'secret', source: secretsOf(fields) };
    case 'oauth2':
      return {
        ...common,
        credentialType: 'oauth2_client_credentials',
        cacheType: 'token',
        source: requestOf(fields, 'form'),
      };
    case 'http':
      return { ...common, credentialType: kind, cacheType: 'token', source: requestOf(fields, 'json') };
    case 'bearer': {
      const data = { access_token: textAt(fields, 'token'), token_type: 'Bearer' };
      return { ...common, credentialType: kind, cacheType: 'token', source: { from: 'value', data } };
    }
    case 'static':
      return {
        ...common,
        credentialType: kind,
        cacheType: 'secret',
        source: { from: 'value', data: mapAt(fields, 'map') },
      };
    case 'credential':
      return {
        ...common,
        credentialType: kind,
        cacheType: 'secret',
        source: { from: 'credential', name: textAt(fields, 'credential') },
      };
    default: {
      const reason = `kind '${kind}' is not available in this build`;
      return { ...common, credentialType: kind, cacheType: 'token', source: { from: 'nowhere', reason } };
    }
  }
}

function secretsOf(fields: JsonMap): EntrySource {
  const written = textAt(fields, 'provider').trim().toLowerCase();
  const provider = PROVIDERS.find((known) => known === written);
  const paths = Object.entries(mapAt(fields, 'map')).map(([field, path]) => [field, String(path)] as const);
  if (provider !== undefined) return { from: 'secrets', provider, auth: fields['auth'] ?? null, paths };
  return { from: 'nowhere', reason: `secret provider '${written}' is not available in this build` };
}

function requestOf(fields: JsonMap, encoding: Encoding): EntrySource {
  const data = fields['data'] ?? {};
  if (!isMap(data)) return { from: 'nowhere', reason: "'data' must be a map" };
  const headers = mapAt(fields, 'headers');
  const hasType = Object.keys(headers).some((name) => name.toLowerCase() === 'content-type');
  // Said aloud, so that a renewal is encoded like the first request.
  const type = encoding === 'form' ? 'application/x-www-form-urlencoded' : 'application/json';
  const config: RenewConfig = {
    endpoint: textAt(fields, 'endpoint'),
    method: textAt(fields, 'method') || RENEW_DEFAULTS.method,
    headers: hasType ? headers : { ...headers, 'Content-Type': type },
    data,
    tokenField: textAt(fields, 'token_field') || RENEW_DEFAULTS.tokenField,
    ttlField: textAt(fields, 'ttl_field') || RENEW_DEFAULTS.ttlField,
  };
  return { from: 'request', config, encoding };
}

/** The variable that provider `env` reads: `db/password` is `SVC_SECRET_DB_PASSWORD`. */
export function secretVariable(path: string): string {
  const name = path.toUpperCase().replace(/[^A-Z0-9]/g, '_');
  return name.startsWith('SVC_SECRET_') ? name : `SVC_SECRET_${name}`;
}

/** A secret that is a JSON map or list is that value; any other text stays as it is. */
export function decodeSecret(text: string): Json {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    // JSON.parse yields JSON.
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

function secondsOf(value: Json | undefined): number | null {
  const seconds = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof seconds !== 'number' || !Number.isFinite(seconds)) return null;
  return Math.max(-TTL_MAX_SECONDS, Math.min(TTL_MAX_SECONDS, Math.trunc(seconds)));
}

function textAt(fields: JsonMap, key: string): string {
  const value = fields[key];
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

function mapAt(fields: JsonMap, key: string): JsonMap {
  const value = fields[key];
  return isMap(value) ? value : {};
}
