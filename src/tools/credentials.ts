/**
 * Where a resolved credential goes, for the kinds that do not speak HTTP (language 12.2): child processes get it as
 * `AUTH_<FIELD>`, everything else is told that it cannot be used. HTTP headers are in http/authorization.ts, database
 * connections in postgres/connection.ts.
 */
import { FieldProblem, jsonOrText } from './fields.ts';
import { plainHost } from './http/egress.ts';
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

/** True for a host the owner of the credential listed (names, `*.suffix`, `host:port`), and for any where there is no list. */
export function isMeantFor(auth: ResolvedAuth, host: string, port: number | string): boolean {
  const name = plainHost(host);
  return (
    auth.hosts === undefined ||
    auth.hosts.some((listed) => {
      const plain = plainHost(listed.trim());
      return plain.startsWith('*.') ? name.endsWith(plain.slice(1)) : plain === name || plain === `${name}:${port}`;
    })
  );
}

/** For kinds that cannot go on without it: throws FieldProblem where the credential must not be sent to the host. */
export function checkMeantFor(auth: ResolvedAuth | null, host: string, port: number | string): void {
  if (auth === null || isMeantFor(auth, host, port)) return;
  throw new FieldProblem(`credential '${auth.name ?? 'inline'}' is not meant for host ${plainHost(host)}`);
}
