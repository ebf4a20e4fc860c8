import { afterAll, describe, expect, it } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { failed, noHost, openTools, succeeded } from './harness.ts';

const tools = openTools({ environment: { SVC_SECRET_DB_PASSWORD: 's3cret-value', SVC_PORT: '1', HOME: '/root' } });
afterAll(() => tools[Symbol.asyncDispose]());

function run(fields: JsonMap) {
  const concealed: string[] = [];
  const host = { ...noHost, conceal: (secret: string) => void concealed.push(secret) };
  return { outcome: tools.run('secrets', fields, { host }), concealed };
}

describe('a secrets task', () => {
  it.each(['DB_PASSWORD', 'db password', 'db-password', 'SVC_SECRET_DB_PASSWORD'])(
    'reads %s and has it hidden',
    async (name) => {
      const { outcome, concealed } = run({ provider: 'env', name });
      expect(succeeded(await outcome).data).toEqual({ value: 's3cret-value' });
      expect(concealed).toEqual(['s3cret-value']);
    },
  );

  it.each([
    [{ provider: 'env', name: 'HOME' }, 'missing_reference', 'SVC_SECRET_HOME'],
    [{ provider: 'env', name: '../SVC_PORT' }, 'missing_reference', 'SVC_SECRET____SVC_PORT'],
    [{ provider: 'env', name: '' }, 'config', 'name'],
    [{ provider: 'shelf', name: 'x' }, 'config', "'shelf' is unknown; known: env, aws, gcp, azure"],
  ] as [JsonMap, string, string][])('%j fails with kind %s', async (fields, kind, sentence) => {
    const { error } = failed(await run(fields).outcome);
    expect(error).toMatchObject({ kind, retryable: false, message: expect.stringContaining(sentence) });
  });
});
