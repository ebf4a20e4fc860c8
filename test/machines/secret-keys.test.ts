import { expect, test } from 'vitest';
import { maskSecretKeys } from '../../machines/secret-keys.ts';

test('what stands under the name of a secret is masked at any depth and in any letters, and null stays null', () => {
  const event = {
    Token: 'abc',
    rows: [{ user: 'ann', PASSWORD: { a: 1 } }, 'token'],
    deep: { api_key: 7, cookie: null },
  };
  expect(maskSecretKeys(event)).toEqual({
    Token: '***',
    rows: [{ user: 'ann', PASSWORD: '***' }, 'token'],
    deep: { api_key: '***', cookie: null },
  });
});
