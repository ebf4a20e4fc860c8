/**
 * JSON text to values without silent damage: whole numbers outside ±(2^53−1) become their decimal text (language 1.2, as
 * they do from Python), numbers beyond a double's range become null. The slow path runs only when the text holds a
 * candidate.
 */
import type { Json } from '../../machines/json.ts';

const suspicious = /\d{16}|\d[eE]\+?\d{3}/;

/** Parses JSON text; throws SyntaxError like JSON.parse. */
export function parseJson(text: string): Json {
  return suspicious.test(text) ? JSON.parse(text, keepExact) : JSON.parse(text);
}

function keepExact(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== 'number') return value;
  if (!Number.isFinite(value)) return null;
  const source = context?.source;
  if (Number.isSafeInteger(value) || source === undefined || !/^-?\d+$/.test(source)) return value;
  return source;
}
