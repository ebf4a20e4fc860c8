import { expect, test } from 'vitest';
import { hostsIn, unreadableHosts } from '../../../machines/schema/credential-hosts.ts';

test('a credential without hosts may go anywhere, with hosts only there', () => {
  expect([hostsIn(null), hostsIn(undefined), hostsIn({}), hostsIn({ hosts: null })]).toEqual([null, null, null, null]);
  expect([hostsIn({ hosts: 'a.test' }), hostsIn({ hosts: ['a.test', 'b.test'] }), hostsIn({ hosts: [] })]).toEqual([
    ['a.test'],
    ['a.test', 'b.test'],
    [],
  ]);
});

test('hosts that cannot be read never mean any host', () => {
  expect([hostsIn({ hosts: ['a.test', 7] }), hostsIn({ hosts: { a: 1 } })]).toEqual(['unreadable', 'unreadable']);
  expect(unreadableHosts('db')).toBe("'meta.hosts' of credential 'db' must be a list of host names");
});
