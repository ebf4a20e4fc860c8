/** The role of someone the provider vouches for (api 8.8.5): the highest that a claim gives, else the default. */
import { ROLES, type Role } from '../access.ts';
import { highestRole } from '../session.ts';
import { fieldsOf } from '../session-store.ts';

export interface RoleRules {
  readonly claim: string;
  readonly map: ReadonlyMap<string, Role>;
  readonly defaultRole: Role | 'none';
}

/** Throws RangeError with a sentence. Without rows the three roles mean themselves. */
export function readRoleMap(rows: readonly string[]): ReadonlyMap<string, Role> {
  if (rows.length === 0) return new Map(ROLES.map((role) => [role, role]));
  return new Map(
    rows.map((row): [string, Role] => {
      const end = row.lastIndexOf('=');
      const role = ROLES.find((each) => each === row.slice(end + 1).trim());
      if (end < 1 || role === undefined) {
        throw new RangeError(`SVC_OIDC_ROLE_MAP must hold value=viewer, value=operator or value=admin, not '${row}'`);
      }
      return [row.slice(0, end).trim(), role];
    }),
  );
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
