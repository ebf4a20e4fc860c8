/**
 * What may leave a template for the log. An escape or a filter can make text that no database stores; data cannot have
 * such text, because it is refused where it comes in.
 */
import type { Json } from '../../json.ts';
import { excerptOf, TemplateError } from './errors.ts';

/** The value as it is. Throws TemplateError where text in it cannot be stored; `source` is what it was made from. */
export function storable<T>(value: T, source: Json): T {
  const problem = problemIn(value);
  if (problem === null) return value;
  const text = typeof source === 'string' ? source : JSON.stringify(source);
  throw new TemplateError('TEMPLATE_ERROR', `text with ${problem} cannot be stored`, excerptOf(text));
}

function problemIn(value: unknown): string | null {
  if (typeof value === 'string') return problemOf(value);
  if (typeof value !== 'object' || value === null) return null;
  return firstProblem(Array.isArray(value) ? value : Object.entries(value).flat());
}

function firstProblem(values: readonly unknown[]): string | null {
  for (const value of values) {
    const problem = problemIn(value);
    if (problem !== null) return problem;
  }
  return null;
}

function problemOf(text: string): string | null {
  if (text.includes('\0')) return 'a NUL character';
  return text.isWellFormed() ? null : 'half a surrogate pair';
}
