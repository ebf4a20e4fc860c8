/**
 * Where a resolved credential goes, for the kinds that do not speak HTTP (language 12.2): child processes get it as
 * `AUTH_<FIELD>`, everything else is told that it cannot be used. HTTP headers are in http/authorization.ts, database
 * connections in postgres/connection.ts.
 */
import { FieldProblem, jsonOrText } from './fields.ts';
import type { ResolvedAuth } from './tool.ts';

/** `AUTH_<FIELD>` variables for a child process; maps travel as JSON, null and text with NUL are left out. */
export function authEnvironment(auth: ResolvedAuth | null): Record<string, string> {
  if (auth === null) return {};
  const entries: [string, string][] = [];
  for (const [field, value] of Object.entries(auth.data)) {
    const text = value === null ? '\0' : jsonOrText(value);
    if (!text.includes('\0')) entries.push([`AUTH_${field.toUpperCase().replace(/[^A-Z0-9_]/g, '_')}`, text]);
  }
  return Object.fromEntries(entries);
}

/** The failure of 12.2 for a credential type a kind has no use for. */
export function unusableCredential(auth: ResolvedAuth, kind: string): FieldProblem {
  return new FieldProblem(
    `credential '${auth.name ?? 'inline'}' of type '${auth.type}' cannot be used with tool kind '${kind}'`,
  );
}
