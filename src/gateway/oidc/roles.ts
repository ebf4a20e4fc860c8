/** The role of someone the provider vouches for (api 8.8.5): the highest that a claim gives, else the default. */
import { ROLES, type Role } from '../access.ts';
import { highestRole } from '../session.ts';
import { fieldsOf } from '../session-store.ts';

export interface RoleRules {
  readonly claim: string;
  readonly map: ReadonlyMap<string, Role>;
  readonly defaultRole: Role | 'none';
}

/**
 * `value=role` or `value:role` each, or one JSON object `{"value": "role"}`; values may hold either sign. Without rows the
 * three roles mean themselves. Throws RangeError with a sentence.
 */
export function readRoleMap(text: string): ReadonlyMap<string, Role> {
  if (text.trim() === '') return new Map(ROLES.map((role) => [role, role]));
  const rows = text.trim().startsWith('{') ? rowsOfJson(text) : rowsOfList(text);
  return new Map(
    rows.map(([value, word]): [string, Role] => {
      const role = ROLES.find((each) => each === String(word).trim());
      if (value === '' || role === undefined) {
        throw new RangeError(
          `SVC_OIDC_ROLE_MAP must hold value=viewer, value=operator or value=admin, not '${value}=${String(word)}'`,
        );
      }
      return [value, role];
    }),
  );
}

function rowsOfList(text: string): readonly (readonly [string, unknown])[] {
  const rows = text.split(',').map((row) => row.trim());
  return rows
    .filter((row) => row !== '')
    .map((row) => {
      const end = Math.max(row.lastIndexOf('='), row.lastIndexOf(':'));
      return [row.slice(0, Math.max(0, end)).trim(), row.slice(end + 1)] as const;
    });
}

function rowsOfJson(text: string): readonly (readonly [string, unknown])[] {
  try {
    return Object.entries(fieldsOf(JSON.parse(text)));
  } catch {
    throw new RangeError('SVC_OIDC_ROLE_MAP must be a comma list of value=role, or a JSON object');
  }
}

/** Null: nobody the gateway lets in. */
export function roleOf(claims: Readonly<Record<string, unknown>>, { claim, map, defaultRole }: RoleRules): Role | null {
  const value = claimAt(claims, claim);
  const given = typeof value === 'string' ? [value] : Array.isArray(value) ? value : [];
  const roles = given.flatMap((each) => map.get(String(each)) ?? []);
  return highestRole(roles) ?? (defaultRole === 'none' ? null : defaultRole);
}

/** A claim whose whole name it is (such names hold dots, too), else one inside of objects. */
function claimAt(claims: Readonly<Record<string, unknown>>, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  return name.split('.').reduce<unknown>((value, part) => {
    const fields = fieldsOf(value);
    return Object.hasOwn(fields, part) ? fields[part] : undefined;
  }, claims);
}
