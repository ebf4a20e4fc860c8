/**
 * A credential as HTTP headers (language 12.2). Tokens that have to be fetched (client credentials, signed service
 * account exchange, the platform's own identity) come from the token source, which keeps them.
 */

import type { JsonMap } from '../../../machines/json.ts';
import { unusableCredential } from '../credentials.ts';
import { FieldProblem, fieldOf, jsonOrText, mapOf, scalarText, textOf } from '../fields.ts';
import type { ResolvedAuth } from '../tool.ts';

/** Fetches and keeps access tokens. */
export interface TokenSource {
  clientCredentials(data: JsonMap, signal: AbortSignal): Promise<string>;
  serviceAccount(data: JsonMap, signal: AbortSignal): Promise<string>;
  platform(workload: () => Promise<JsonMap>, signal: AbortSignal): Promise<string>;
}

const basicTypes = new Set([
  'basic',
  'clickhouse',
  'snowflake',
  'bigquery',
  'redshift',
  'databricks',
  'trino',
  'warehouse',
]);

/** The headers of a credential, with lower-case names. Throws FieldProblem when its type has no use here. */
export async function authHeaders(
  auth: ResolvedAuth,
  kind: string,
  tokens: TokenSource,
  workload: () => Promise<JsonMap>,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const type = auth.type.toLowerCase();
  if (type === 'none') return {};
  if (type === 'bearer') return bearer(secretOf(auth, 'token', 'access_token', 'bearer_token'));
  if (type === 'oauth2') return bearer(await tokens.clientCredentials(auth.data, signal));
  if (type === 'service_account' || type === 'google_service_account')
    return bearer(await tokens.serviceAccount(auth.data, signal));
  if (type === 'gcp_adc') return bearer(await tokens.platform(workload, signal));
  if (type === 'api_key') {
    const header = textOf(auth.data, 'header') ?? 'X-API-Key';
    return { [header.toLowerCase()]: secretOf(auth, 'api_key', 'key', 'token') };
  }
  if (basicTypes.has(type)) {
    const user = textOf(auth.data, 'username', 'user') ?? '';
    const password = textOf(auth.data, 'password') ?? '';
    if (user === '' && password === '') throw new FieldProblem(`credential '${auth.name ?? 'inline'}' has no username`);
    return { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` };
  }
  if (type === 'custom' || type === 'generic') return customHeaders(auth.data);
  throw unusableCredential(auth, kind);
}

function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

function secretOf(auth: ResolvedAuth, ...names: readonly string[]): string {
  const value = fieldOf(auth.data, ...names);
  if (value === undefined || typeof value === 'object' || value === '')
    throw new FieldProblem(`credential '${auth.name ?? 'inline'}' of type '${auth.type}' has no ${names[0]}`);
  return scalarText(value);
}

function customHeaders(data: JsonMap): Record<string, string> {
  const headers = Object.entries(mapOf(data, 'headers') ?? {}).filter(([, value]) => value !== null);
  return Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), jsonOrText(value)]));
}
