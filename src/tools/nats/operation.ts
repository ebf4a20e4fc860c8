/** What every operation of the nats tool gets and what they all answer alike: a thing that is not there is no failure. */
import { JetStreamApiError } from '@nats-io/jetstream';
import type { NatsConnection } from '@nats-io/transport-node';
import type { JsonMap } from '../../../machines/json.ts';
import { FieldProblem, fieldOf, textOf } from '../fields.ts';

export interface NatsCall {
  readonly connection: NatsConnection;
  readonly fields: JsonMap;
  /** Milliseconds for the whole try. */
  readonly limitMs: number;
  /** Cap of what is read, in bytes. */
  readonly maxBytes: number;
}

export type Operation = (call: NatsCall) => Promise<JsonMap>;

export function notFound(place: JsonMap): JsonMap {
  return { status: 'not_found', ...place };
}

/** Stream, consumer, message, bucket or object: the server has no such thing. */
export function isNotFound(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return error.status === 404;
  return error instanceof Error && /not found/i.test(error.message);
}

/** A whole number; throws FieldProblem for anything else or less than `min`. */
export function numberOf(fields: JsonMap, name: string, fallback: number | null, min: number): number | null {
  const value = fieldOf(fields, name);
  if (value === undefined || value === '') return fallback;
  const number = typeof value === 'string' ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < min) {
    throw new FieldProblem(`field '${name}' must be a whole number from ${min}`);
  }
  return number;
}

const units: Readonly<Record<string, number>> = { '': 1000, ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `ttl` in milliseconds: seconds, or text such as `30s` or `2h`; null where none is given. */
export function ttlMs(fields: JsonMap): number | null {
  const text = textOf(fields, 'ttl')?.trim() ?? '';
  if (text === '') return null;
  const parts = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)$/.exec(text);
  const ms = parts === null ? Number.NaN : Number(parts[1]) * (units[parts[2] ?? ''] ?? Number.NaN);
  if (!Number.isFinite(ms) || ms < 0) throw new FieldProblem(`field 'ttl' must be seconds or text such as 30s`);
  return ms;
}
