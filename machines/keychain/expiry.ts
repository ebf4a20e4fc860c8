/** How long an entry lives (api 2.9.2, 4.4, language 12.4): an instant wins over a lifetime, a lifetime over the default. */
import { instantOf, isoOf } from '../command/instant.ts';
import type { EntryScope } from './scope.ts';

/** Seconds, for entries that name no lifetime. */
export const DEFAULT_TTL_SECONDS: Readonly<Record<EntryScope, number>> = {
  local: 3600,
  global: 86_400,
  shared: 86_400,
};
/** About ten years; longer lifetimes are a mistake and would leave the calendar. Seconds. */
export const TTL_MAX_SECONDS = 320_000_000;

export interface Lifetime {
  /** ISO 8601 UTC. */
  readonly expiresAt: string;
  /** As applied, whole seconds; zero or less stores an entry that is already expired. */
  readonly ttlSeconds: number;
}

/** `now` in milliseconds since the epoch, by the database's clock; `expiresAt` ISO 8601 UTC. */
export function lifetimeOf(
  given: { readonly scope: EntryScope; readonly ttlSeconds: number | null; readonly expiresAt: string | null },
  now: number,
): Lifetime {
  if (given.expiresAt !== null) {
    return { expiresAt: given.expiresAt, ttlSeconds: Math.trunc((instantOf(given.expiresAt) - now) / 1000) };
  }
  const ttlSeconds = given.ttlSeconds ?? DEFAULT_TTL_SECONDS[given.scope];
  return { expiresAt: isoOf(now + ttlSeconds * 1000), ttlSeconds };
}

/** A lifetime as a token endpoint says it: a number of seconds or its digits. Null for anything that is none. */
export function readLifetime(value: unknown): number | null {
  const seconds = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof seconds !== 'number' || !Number.isFinite(seconds) || seconds <= 0) return null;
  return Math.min(Math.max(Math.floor(seconds), 1), TTL_MAX_SECONDS);
}
