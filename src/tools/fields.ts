/**
 * Reading the rendered fields of a tool: aliases, and the spellings a template may leave behind ("false", "30").
 * A field that cannot be used is thrown as FieldProblem; the guard of the registry turns it into kind `config`.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';

/** The tool's configuration cannot be used: the try fails with kind `config`, code `TOOL_FIELD`. */
export class FieldProblem extends Error {
  override readonly name = 'FieldProblem';
}

/** The first of the named fields that is present and not null. */
export function fieldOf(fields: JsonMap, ...names: readonly string[]): Json | undefined {
  for (const name of names) {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

/** A text field or undefined; scalars are spelled out, maps and lists are a problem. */
export function textOf(fields: JsonMap, ...names: readonly string[]): string | undefined {
  const value = fieldOf(fields, ...names);
  if (value === undefined) return undefined;
  if (typeof value === 'object') throw new FieldProblem(`field '${names[0]}' must be text`);
  return scalarText(value);
}

/** A text field that must be there and not be empty. */
export function requiredText(fields: JsonMap, ...names: readonly string[]): string {
  const text = textOf(fields, ...names);
  if (text === undefined || text.trim() === '') throw new FieldProblem(`field '${names[0]}' is missing or empty`);
  return text;
}

/** A boolean field; text such as `false`, `no`, `off` and `0` is read as a boolean. */
export function flagOf(fields: JsonMap, fallback: boolean, ...names: readonly string[]): boolean {
  const value = fieldOf(fields, ...names);
  if (value === undefined) return fallback;
  if (typeof value === 'boolean') return value;
  if (typeof value === 'number') return value !== 0;
  const text = typeof value === 'string' ? value.trim().toLowerCase() : undefined;
  if (text === 'true' || text === 'yes' || text === 'on' || text === '1') return true;
  if (text === 'false' || text === 'no' || text === 'off' || text === '0') return false;
  if (text === '') return fallback;
  throw new FieldProblem(`field '${names[0]}' must be true or false`);
}

/** A map field or undefined. */
export function mapOf(fields: JsonMap, ...names: readonly string[]): JsonMap | undefined {
  const value = fieldOf(fields, ...names);
  if (value === undefined || value === '') return undefined;
  if (!isMap(value)) throw new FieldProblem(`field '${names[0]}' must be a map`);
  return value;
}

/** The `env` field as texts; null removes an entry, a NUL character is a problem. */
export function environmentOf(fields: JsonMap): Record<string, string> {
  const entries: [string, string][] = [];
  for (const [name, value] of Object.entries(mapOf(fields, 'env') ?? {})) {
    if (value === null) continue;
    if (name === '' || /[=\0]/.test(name)) throw new FieldProblem(`field 'env' has an unusable name`);
    const text = jsonOrText(value);
    if (text.includes('\0')) throw new FieldProblem(`env '${name}' has a NUL character`);
    entries.push([name, text]);
  }
  return Object.fromEntries(entries);
}

/** A scalar as text: booleans as `true` and `false`, null as nothing. */
export function scalarText(value: null | boolean | number | string): string {
  return value === null ? '' : String(value);
}

/** Text for places that hold only text: scalars as themselves, maps and lists as compact JSON. */
export function jsonOrText(value: Json): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : scalarText(value);
}
