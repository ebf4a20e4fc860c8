/**
 * Who may do what (api 1.13, 8.6, 8.8.5): roles of people include each other, workers stand apart, and a playbook may
 * narrow what a role allows by rules of its own (`meta.access`).
 */
import { isMap, type Json } from './json.ts';

/** Each includes those before it. */
export const PEOPLE_ROLES = ['viewer', 'operator', 'admin'] as const;
export type PeopleRole = (typeof PEOPLE_ROLES)[number];

export const TOKEN_ROLES = [...PEOPLE_ROLES, 'worker'] as const;
export type TokenRole = (typeof TOKEN_ROLES)[number];

/** (P) public, (V) viewer, (O) operator, (A) admin, (W) worker. */
export type RoleMark = 'P' | 'V' | 'O' | 'A' | 'W';

export const ROLE_OF_MARK = { V: 'viewer', O: 'operator', A: 'admin', W: 'worker' } as const satisfies Record<
  Exclude<RoleMark, 'P'>,
  TokenRole
>;

/** Whether someone of `role` may do what needs `needed`. */
export function includesRole(role: TokenRole, needed: TokenRole): boolean {
  if (role === 'worker' || needed === 'worker') return role === needed;
  return PEOPLE_ROLES.indexOf(role) >= PEOPLE_ROLES.indexOf(needed);
}

/** Whether a row with these marks is open to a role; no mark opens it to nobody. */
export function admits(marks: readonly RoleMark[], role: TokenRole): boolean {
  return marks.some((mark) => mark === 'P' || includesRole(role, ROLE_OF_MARK[mark]));
}

/** The highest of some roles; null when none is a role of people. */
export function highestRole(roles: readonly string[]): PeopleRole | null {
  return PEOPLE_ROLES.findLast((role) => roles.includes(role)) ?? null;
}

export const PERMISSIONS = ['view', 'execute', 'modify'] as const;
export type Permission = (typeof PERMISSIONS)[number];

const ROLE_FOR: Readonly<Record<Permission, PeopleRole>> = { view: 'viewer', execute: 'operator', modify: 'operator' };

/** Roles or subjects by permission; a permission without a rule is what the role allows. */
export type AccessRules = Readonly<Partial<Record<Permission, readonly string[]>>>;

/** The rules of a catalog entry's `meta.access`. A rule that is no list of texts names nobody: broken rules lock, they do not open. */
export function accessRulesOf(meta: Json | undefined): AccessRules {
  const access = isMap(meta) ? meta['access'] : undefined;
  if (access === undefined || access === null) return {};
  if (!isMap(access)) return Object.fromEntries(PERMISSIONS.map((each) => [each, []]));
  return Object.fromEntries(
    PERMISSIONS.filter((each) => access[each] !== undefined && access[each] !== null).map((each) => [
      each,
      namesIn(access[each]),
    ]),
  );
}

function namesIn(rule: Json | undefined): readonly string[] {
  if (typeof rule === 'string') return [rule];
  return Array.isArray(rule) ? rule.filter((each) => typeof each === 'string') : [];
}

/** What is wrong with a `meta.access` that someone wants to store; empty: nothing. */
export function accessRuleProblems(access: Json | undefined): readonly string[] {
  if (access === undefined || access === null) return [];
  if (!isMap(access)) return ['meta.access: must be an object with view, execute and modify'];
  return Object.entries(access).flatMap(([name, rule]) => {
    if (!PERMISSIONS.some((each) => each === name)) return [`meta.access.${name}: must be view, execute or modify`];
    const isList = Array.isArray(rule) && rule.every((each) => typeof each === 'string' && each !== '');
    return rule === null || isList ? [] : [`meta.access.${name}: must be a list of roles or subjects`];
  });
}

/**
 * Whether someone may do this with a playbook. A rule narrows what the role allows and never widens it. An admin is held
 * by no rule, so that a rule can be put right; neither is a worker, which runs what others were allowed to start and changes
 * nothing.
 */
export function mayAccess(
  rules: AccessRules,
  who: { readonly role: TokenRole; readonly subject: string },
  permission: Permission,
): boolean {
  if (who.role === 'worker') return permission !== 'modify';
  if (who.role === 'admin') return true;
  if (!includesRole(who.role, ROLE_FOR[permission])) return false;
  const rule = rules[permission];
  if (rule === undefined) return true;
  return rule.some((name) => name === who.subject || (isPeopleRole(name) && includesRole(who.role, name)));
}

/** What a refused caller is told. */
export function accessRefusal(role: TokenRole, permission: Permission): string {
  const needed = ROLE_FOR[permission];
  return includesRole(role, needed)
    ? `The playbook's rules do not allow you to ${permission} it`
    : `This needs the role ${needed}`;
}

function isPeopleRole(name: string): name is PeopleRole {
  return PEOPLE_ROLES.some((role) => role === name);
}
