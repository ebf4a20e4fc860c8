/**
 * Keys whose values are secrets by their name (api 8.2). Where nobody resolved a secret there is no value to look for,
 * so events of types this service does not know are masked by their keys instead.
 */
import { isMap, type Json, type JsonMap } from './json.ts';

const SECRET_KEYS: ReadonlySet<string> = new Set([
  'password',
  'passwd',
  'secret',
  'token',
  'access_token',
  'refresh_token',
  'client_secret',
  'api_key',
  'apikey',
  'authorization',
  'private_key',
  'cookie',
]);

/** The map with `***` for what stands under such a key, at any depth and in letters of any case; null stays null. */
export function maskSecretKeys(map: JsonMap): JsonMap {
  const entries = Object.entries(map).map(([key, value]): [string, Json] => {
    const isSecret = value !== null && SECRET_KEYS.has(key.toLowerCase());
    return [key, isSecret ? '***' : masked(value)];
  });
  return Object.fromEntries(entries);
}

function masked(value: Json): Json {
  if (Array.isArray(value)) return value.map(masked);
  return isMap(value) ? maskSecretKeys(value) : value;
}
