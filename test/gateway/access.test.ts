import { expect, test } from 'vitest';
import { accessTo } from '../../src/gateway/access.ts';
import { readTarget } from '../../src/gateway/target.ts';
import { routesOf } from '../../src/host/host.ts';
import { fakeServices } from '../api/fake-services.ts';
import { hostOptions } from '../api/test-host.ts';

const LETTER = { viewer: 'V', operator: 'O', admin: 'A', sensitive: 'A' } as const;
const STRENGTH = ['V', 'O', 'A'];

test.each(
  routesOf(fakeServices(), hostOptions())
    .filter((row) => row.path.startsWith('/api/'))
    .map((row) => [`${row.method} ${row.path}`, row] as const),
)('%s needs no less through the gateway than at the API', (_name, row) => {
  const path = row.path.replaceAll(/\{[^}]+\}/g, 'x1');
  const access = accessTo(row.method, { path, query: new URLSearchParams() });
  const people = row.role.filter((role) => STRENGTH.includes(role));
  if (row.role.includes('P')) return;
  if (people.length === 0) {
    expect(access).toBe('never');
    return;
  }
  if (access === 'never') return;
  const least = Math.min(...people.map((role) => STRENGTH.indexOf(role)));
  expect(STRENGTH.indexOf(LETTER[access])).toBeGreaterThanOrEqual(least);
});

test.each([
  ['GET', '/api/credentials/pg?include_data=true', 'sensitive'],
  ['GET', '/api/credentials/pg?include%5Fdata=1', 'sensitive'],
  ['GET', '/api/credentials/pg?a=1&INCLUDE_DATA=true', 'sensitive'],
  ['GET', '/api/credentials/pg', 'viewer'],
  ['POST', '/api/%70ostgres/execute', 'sensitive'],
  ['POST', '/API/postgres/execute', 'sensitive'],
  ['POST', '/svc/postgres/execute', 'sensitive'],
  ['POST', '/api/postgres/execute/', 'sensitive'],
  ['POST', '/api%2Fpostgres/execute', 'sensitive'],
  ['GET', '/api/keychain/5/billing', 'sensitive'],
  ['GET', '/api/keychain/catalog/5', 'admin'],
  ['DELETE', '/api/keychain/5/billing', 'admin'],
  ['POST', '/api/internal/sessions', 'never'],
  ['POST', '/svc/internal/sessions', 'never'],
  ['POST', '/api/auth/session/validate', 'never'],
  ['POST', '/api/commands/41012/claim', 'never'],
  ['POST', '/api/worker/exchange', 'never'],
  ['TRACE', '/api/executions', 'never'],
  ['GET', '/metrics', 'never'],
])('%s %s: %s', (method, url, access) => {
  const target = readTarget(url, ['/svc']);
  expect(target).not.toBeNull();
  if (target !== null) expect(accessTo(method, target)).toBe(access);
});

test.each([
  '/api/../api/admin/keys',
  '/api/%2e%2e/api/admin/keys',
  '/api/x%2f..%2fadmin',
  '/api//admin/keys',
  '//evil.example/api',
  '/api/admin;x/keys',
  '/api/a%3Bb',
  '/api/%00',
  '/api/%zz',
  '/api\\admin',
  '/api/%5cadmin',
  'http://other.example/api/executions',
  '*',
])('the address %s has no single meaning', (url) => {
  expect(readTarget(url, ['/svc'])).toBeNull();
});

test('what the rules saw is what is sent on, in one spelling', () => {
  expect(readTarget('/svc/catalog/playbook/d%C3%A9mo/%67reet/?b=%41&c', ['/svc'])).toMatchObject({
    path: '/api/catalog/playbook/démo/greet',
    forward: '/api/catalog/playbook/d%C3%A9mo/greet?b=A&c=',
  });
  expect(readTarget('/api/x%252e', [])?.forward).toBe('/api/x%252e');
});
