/**
 * What a caller must be for a proxied call (api 2.19, 8.6). A server in open mode takes everyone for an admin, so this
 * table is what keeps viewers from changing anything: reading needs a viewer, everything else an operator, and the rows
 * below say what differs. The test compares it with the roles of every operation of the API.
 */
import type { Target } from './target.ts';

export const ROLES = ['viewer', 'operator', 'admin'] as const;
/** Each includes those before it. */
export type Role = (typeof ROLES)[number];

/** `never`: not through a gateway. `sensitive`: by SVC_GATEWAY_SENSITIVE. */
export type Access = Role | 'sensitive' | 'never';

export function includes(role: Role, needed: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(needed);
}

type Row = readonly [methods: string, path: RegExp, access: Access];

const ROWS: readonly Row[] = [
  ['*', /^\/api\/internal(\/|$)/, 'never'],
  ['*', /^\/api\/auth(\/|$)/, 'never'],
  ['POST', /^\/api\/commands\/(.*\/)?claim$/, 'never'],
  ['*', /^\/api\/worker\/exchange(\/|$)/, 'never'],
  ['*', /^\/api\/worker\/pool(\/|$)/, 'never'],
  ['PUT PATCH', /^\/api\/result(\/|$)/, 'never'],
  ['*', /^\/api\/admin(\/|$)/, 'sensitive'],
  ['*', /^\/api\/postgres(\/|$)/, 'sensitive'],
  ['GET HEAD', /^\/api\/keychain\/catalog\/[^/]+(\/log)?$/, 'admin'],
  ['GET HEAD', /^\/api\/keychain\/[^/]+\/[^/]+\/machine$/, 'viewer'],
  ['DELETE', /^\/api\/keychain(\/|$)/, 'admin'],
  ['*', /^\/api\/keychain(\/|$)/, 'sensitive'],
  ['POST', /^\/api\/db(\/|$)/, 'admin'],
  ['POST', /^\/api\/catalog\/(list|agents\/list|resource|playbooks\/(validate|graph|simulate))$/, 'viewer'],
  ['POST', /^\/api\/context\/render$/, 'viewer'],
  ['POST', /^\/api\/executions\/[^/]+\/analyze$/, 'viewer'],
  ['POST', /^\/api\/machines\/[^/]+\/transition$/, 'viewer'],
  ['GET HEAD', /^\/api(\/|$)/, 'viewer'],
  ['POST PUT PATCH DELETE', /^\/api(\/|$)/, 'operator'],
];

/** What the call needs. */
export function accessTo(method: string, { path, query }: Pick<Target, 'path' | 'query'>): Access {
  const low = path.toLowerCase();
  const found = ROWS.find(
    ([methods, pattern]) => (methods === '*' || methods.split(' ').includes(method)) && pattern.test(low),
  );
  const access = found?.[2] ?? 'never';
  return access !== 'never' && reveals(query) ? 'sensitive' : access;
}

/** Any spelling of the name: the server may be laxer than this file thinks. */
function reveals(query: URLSearchParams): boolean {
  return [...query.keys()].some((name) => name.toLowerCase().replaceAll('-', '_').includes('include_data'));
}
