/**
 * What a tool's result must be before it may travel to the server: plain JSON that PostgreSQL can store. A NUL
 * character, a lone surrogate or a deep nest would be refused there again and again, so it fails the try here.
 */
import type { Json } from '../../machines/json.ts';

/** The deepest nest of maps and lists a result may have. */
export const maxResultDepth = 64;

/** Null when the value may be reported, else a sentence naming the first problem and where it is. */
export function checkResult(value: unknown): string | null {
  return inspect(value, 0, []);
}

function inspect(value: unknown, depth: number, path: (string | number)[]): string | null {
  if (value === null || typeof value === 'boolean') return null;
  if (typeof value === 'string') return inspectText(value, path, 'a text');
  if (typeof value === 'number')
    return Number.isFinite(value) ? null : `the result has a number that is not finite at ${spell(path)}`;
  if (typeof value !== 'object') return `the result has a value of type ${typeof value} at ${spell(path)}`;
  if (depth >= maxResultDepth) return `the result is nested deeper than ${maxResultDepth} levels`;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      path.push(index);
      const problem = inspect(value[index], depth + 1, path);
      if (problem !== null) return problem;
      path.pop();
    }
    return null;
  }
  for (const [key, member] of Object.entries(value)) {
    const problem = inspectKey(key, member, path);
    if (problem !== null) return problem;
    path.push(key);
    const inner = inspect(member, depth + 1, path);
    if (inner !== null) return inner;
    path.pop();
  }
  return null;
}

/** Keys that poison prototypes are refused because the server's JSON parser refuses the whole report for them. */
function inspectKey(key: string, member: unknown, path: readonly (string | number)[]): string | null {
  if (key === '__proto__') return `the result has a key named __proto__ at ${spell(path)}`;
  if (key === 'constructor' && typeof member === 'object' && member !== null && Object.hasOwn(member, 'prototype'))
    return `the result has a key named constructor.prototype at ${spell(path)}`;
  return inspectText(key, path, 'a key');
}

function inspectText(text: string, path: readonly (string | number)[], what: string): string | null {
  if (text.includes('\0')) return `the result has ${what} with a NUL character at ${spell(path)}`;
  if (!text.isWellFormed()) return `the result has ${what} with half a surrogate pair at ${spell(path)}`;
  return null;
}

function spell(path: readonly (string | number)[]): string {
  const text = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${cleanText(part)}`)).join('');
  return text === '' ? 'its root' : text.slice(0, 200);
}

/** Text that may be stored anywhere: NUL and half surrogates become U+FFFD. For logs and messages, not for results. */
export function cleanText(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed();
}

/** A copy of a small diagnostic map with every text cleaned. */
export function cleanJson(value: Json): Json {
  if (typeof value === 'string') return cleanText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(cleanJson);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [cleanText(key), cleanJson(member)]));
}
