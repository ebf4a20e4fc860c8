/** What `auth` of a task becomes before its tool sees it (language 12.1, api 8.4). */
import { describe, expect, it, test } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import { ApiError } from '../../src/client/errors.ts';
import { type CredentialReader, resolveAuth } from '../../src/worker/credentials.ts';
import { never } from './commands.ts';

const stored = (meta: JsonMap | null): CredentialReader => ({
  credential: async (name) => ({ name, type: 'bearer', data: { token: 't' }, meta }),
});
const resolve = (auth: Json, meta: JsonMap | null = null) =>
  resolveAuth(stored(meta), { auth, executionId: 1, workerId: 'w', signal: never });

test('a credential that cannot be read because of the server is asked for once and five times more', async () => {
  let tries = 0;
  const busy: CredentialReader = {
    async credential(_name, _withData, options) {
      tries = options.tries;
      throw new ApiError(503, { code: 'db_unavailable' }, null);
    },
  };
  expect(await resolveAuth(busy, { auth: 'c', executionId: 1, workerId: 'w', signal: never })).toMatchObject({
    failure: { error: { kind: 'connection' } },
  });
  expect(tries).toBe(6);
});

describe('the hosts of a credential', () => {
  it.each<[string, JsonMap | null, readonly string[] | undefined]>([
    ['are any without meta', null, undefined],
    ['are any without meta.hosts', { owner: 'ops' }, undefined],
    ['are those of its list', { hosts: ['a.test', '*.b.test'] }, ['a.test', '*.b.test']],
    ['may be one', { hosts: 'a.test' }, ['a.test']],
    ['may be none', { hosts: [] }, []],
  ])('%s', async (_how, meta, hosts) => {
    for (const auth of ['c', { credential: 'c' }]) {
      expect(await resolve(auth, meta)).toEqual({
        auth: { name: 'c', type: 'bearer', data: { token: 't' }, ...(hosts === undefined ? {} : { hosts }) },
      });
    }
  });

  test.each<[string, Json]>([
    ['a map', { a: 1 }],
    ['a list with a number', ['a.test', 7]],
    ['a number', 7],
  ])('that are %s keep it from being used at all', async (_what, hosts) => {
    expect(await resolve('c', { hosts })).toMatchObject({
      failure: { error: { kind: 'config', message: "'meta.hosts' of credential 'c' must be a list of host names" } },
    });
  });
});
