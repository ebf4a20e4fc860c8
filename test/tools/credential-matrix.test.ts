/** Which type of credential each kind of tool has a use for (language 12.2), and what it says of the others. */
import { afterAll, describe, expect, it, test } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import type { ResolvedAuth } from '../../src/tools/tool.ts';
import { failed, noHost, openTools, succeeded } from './harness.ts';
import { startServer } from './http-server.ts';

const tools = openTools({ environment: { PATH: process.env['PATH'] ?? '' } });
afterAll(() => tools[Symbol.asyncDispose]());

/** Nobody listens there: a kind that accepts the credential fails to connect. */
const NOWHERE = '127.0.0.1:1';
const KINDS: Readonly<Record<string, JsonMap>> = {
  http: { url: `http://${NOWHERE}/` },
  mcp: { endpoint: `http://${NOWHERE}/`, method: 'tools/list' },
  postgres: { command: 'select 1', host: '127.0.0.1', port: 1 },
  duckdb: { command: 'select 1 as one' },
  nats: { url: `nats://${NOWHERE}`, operation: 'kv_keys', bucket: 'b', timeout_ms: 500 },
};

const DATA: Readonly<Record<string, JsonMap>> = {
  postgres: { host: '127.0.0.1', port: 1, user: 'u', password: 'canary', database: 'd' },
  bearer: { token: 'canary' },
  basic: { username: 'u', password: 'canary' },
  api_key: { api_key: 'canary' },
  oauth2: { client_id: 'i', client_secret: 'canary', token_url: `http://${NOWHERE}/` },
  service_account: { client_email: 'a@b.test', private_key: 'canary', token_uri: `http://${NOWHERE}/` },
  nats: { nats_url: `nats://${NOWHERE}`, nats_user: 'u', nats_password: 'canary' },
  clickhouse: { username: 'u', password: 'canary' },
  snowflake: { user: 'u', password: 'canary' },
  custom: { headers: { 'X-A': 'canary' } },
  generic: { headers: { 'X-A': 'canary' } },
};

/** Cells of the table that say "error". */
const REFUSED: Readonly<Record<string, readonly string[]>> = {
  http: ['postgres', 'nats'],
  mcp: ['postgres', 'nats'],
  postgres: ['bearer', 'api_key', 'oauth2', 'service_account', 'nats', 'clickhouse', 'snowflake'],
  duckdb: ['bearer', 'api_key', 'oauth2', 'service_account', 'nats', 'clickhouse', 'snowflake'],
  nats: ['postgres', 'api_key', 'oauth2', 'service_account', 'clickhouse', 'snowflake'],
};

const stored = (type: string): ResolvedAuth => ({ name: 'shop', type, data: DATA[type] ?? {} });

describe.each(Object.keys(KINDS))('kind %s', (kind) => {
  it.each(Object.keys(DATA))('and a credential of type %s', async (type) => {
    const outcome = await tools.run(kind, KINDS[kind] ?? {}, { auth: stored(type), host: noHost, timeoutMs: 3_000 });
    const sentence = `credential 'shop' of type '${type}' cannot be used with tool kind '${kind}'`;
    if (REFUSED[kind]?.includes(type) === true) {
      expect(failed(outcome).error).toMatchObject({ kind: 'config', message: sentence, retryable: false });
    } else if (!outcome.ok) {
      expect(outcome.error.message).not.toContain('cannot be used with tool kind');
      expect(JSON.stringify(outcome)).not.toContain('canary');
    }
  });
});

it.each(Object.keys(DATA))('a child process gets every field of a credential of type %s', async (type) => {
  const auth = stored(type);
  const { data } = succeeded(await tools.run('shell', { command: 'env' }, { auth }));
  const lines = String((data as JsonMap)['stdout']).split('\n');
  for (const [field, value] of Object.entries(auth.data)) {
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
    expect(lines).toContain(`AUTH_${field.toUpperCase()}=${text}`);
  }
});

test('{type: gcp_adc} takes the token of the inputs, then the variable, then the metadata service', async () => {
  await using server = await startServer((seen, response) => {
    if (seen.path.startsWith('/computeMetadata/'))
      return response.end('{"access_token": "of-metadata", "expires_in": 300}');
    return response.end('{}');
  });
  const used = async (environment: Record<string, string>, workload: JsonMap) => {
    await using own = openTools({ environment, metadataUrl: server.url });
    const auth = { name: null, type: 'gcp_adc', data: {} };
    const host = { ...noHost, conceal: () => {} };
    await own.run('http', { url: server.url }, { auth, host, context: async () => ({ workload }) });
    return server.seen.at(-1)?.headers.authorization;
  };
  const variable = { GOOGLE_OAUTH_ACCESS_TOKEN: 'of-variable' };
  expect(await used(variable, { access_token: 'of-inputs' })).toBe('Bearer of-inputs');
  expect(await used(variable, {})).toBe('Bearer of-variable');
  expect(await used({}, {})).toBe('Bearer of-metadata');
});

describe('a script from a server', () => {
  it('is fetched with the credential of its source, which is not that of the task', async () => {
    await using server = await startServer((seen, response) =>
      seen.headers.authorization === 'Bearer canary' ? response.end('return 7;') : response.writeHead(401).end(),
    );
    const script = { uri: `${server.url}/a.js`, source: { type: 'http', auth: 'scripts_auth' } };
    const host = { ...noHost, credential: async () => ({ ...stored('bearer'), name: 'scripts_auth' }) };
    expect(succeeded(await tools.run('javascript', { script }, { auth: stored('basic'), host })).data).toBe(7);
    const without = failed(await tools.run('javascript', { script: { ...script, source: { type: 'http' } } }));
    expect(without.error).toMatchObject({ kind: 'auth', code: 'HTTP_401' });
  });

  it('that does not come within its own time fails the try', async () => {
    await using server = await startServer(() => {});
    const script = { uri: `${server.url}/a.js`, source: { type: 'http', timeout: 0.2 } };
    const { error } = failed(await tools.run('javascript', { script }));
    expect(error).toMatchObject({ kind: 'timeout', message: 'the script source did not answer in time' });
  });
});
