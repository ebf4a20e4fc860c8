import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ConfigError, isAuditRequired, readConfig, sqlModeOf } from '../src/config.ts';
import { ALL_SETTINGS } from '../src/config-table.ts';

const KEY = Buffer.alloc(32, 7).toString('base64');

test('nothing set gives the defaults of the documentation', () => {
  const config = readConfig({});
  expect(config).toMatchObject({
    host: '127.0.0.1',
    port: 8082,
    dataDir: './.callboard',
    databaseUrl: null,
    bus: null,
  });
  expect(config.worker).toMatchObject({ serverUrl: 'http://127.0.0.1:8082', pools: ['shared'], concurrency: 8 });
  expect(config.warnings).toEqual([]);
});

test('values become their types', () => {
  const config = readConfig({
    SVC_PORT: '0',
    SVC_WORKER_HEARTBEAT_SECONDS: '0.25',
    SVC_DOCS_ENABLED: 'off',
    SVC_WORKER_POOLS: 'shared, gpu ,',
    SVC_PUBLIC_URL: 'https://calls.example/',
    SVC_ENCRYPTION_KEYS: `new:${KEY},old:${KEY}`,
  });
  expect(config).toMatchObject({ port: 0, docsEnabled: false, publicUrl: 'https://calls.example' });
  expect(config.worker).toMatchObject({ heartbeatSeconds: 0.25, pools: ['shared', 'gpu'] });
  expect(config.encryptionKeys.map((each) => [each.kid, each.key.length])).toEqual([
    ['new', 32],
    ['old', 32],
  ]);
});

test('servers of the bus are a list of addresses', () => {
  const one = readConfig({ SVC_NATS_URL: 'nats://a:4222, tls://b', SVC_NATS_STREAM: 'OURS' });
  expect(one).toMatchObject({ natsUrl: ['nats://a:4222', 'tls://b'], natsStream: 'OURS' });
  const error = refusal({ SVC_NATS_URL: 'nats://a,http://u:pass-word@b', SVC_NATS_STREAM: 'a.b' });
  expect(error.problems).toEqual([
    'SVC_NATS_URL must be an address starting with nats:// or tls://',
    'SVC_NATS_STREAM must be a name of letters, digits, _ and -',
  ]);
});

test('an empty value counts as not set', () => {
  expect(readConfig({ SVC_PORT: '', SVC_WORKER_NAME: ' ' })).toMatchObject({ port: 8082, worker: { name: null } });
});

test('OP-02 all problems are reported at once, with exit code 78', () => {
  const error = refusal({
    SVC_PORT: '1e3',
    SVC_BUS: 'pigeon',
    SVC_RATE_LIMIT_PER_SECOND: '1000000.5',
    SVC_WORKER_CONCURRENCY: '0',
    SVC_COMMAND_CLAIM_LEASE_SECONDS: '-1',
    SVC_DATABASE_URL: 'mysql://db',
    SVC_ENCRYPTION_KEY: 'short',
  });
  expect(error.exitCode).toBe(78);
  expect(error.problems).toEqual([
    'SVC_PORT must be a whole number from 0 to 65535',
    'SVC_RATE_LIMIT_PER_SECOND must be a number from 0 to 1000000',
    'SVC_DATABASE_URL must be an address starting with postgres:// or postgresql://',
    'SVC_ENCRYPTION_KEY must hold 32 bytes in base64 (openssl rand -base64 32)',
    'SVC_BUS must be one of postgres, nats, none',
    'SVC_COMMAND_CLAIM_LEASE_SECONDS must be a number of seconds of at least 0.1',
    'SVC_WORKER_CONCURRENCY must be a whole number from 1 to 1024',
  ]);
  for (const problem of error.problems) expect(error.message).toContain(problem);
});

test.each([
  ['false', []],
  ['127.0.0.1, 10.0.0.0/8,loopback', ['127.0.0.1', '10.0.0.0/8', 'loopback']],
  ['::1,fd00::/8', ['::1', 'fd00::/8']],
])('SVC_TRUST_PROXY=%s names whom to believe', (text, proxies) => {
  expect(readConfig({ SVC_TRUST_PROXY: text }).trustProxy).toEqual(proxies);
});

test.each(['true', '*', '10.0.0.0/33', '10.0.0.0/0', 'proxy.example', '1.2.3'])(
  'SVC_TRUST_PROXY=%s is refused',
  (text) => {
    expect(refusal({ SVC_TRUST_PROXY: text }).message).toContain(`not '${text}'`);
  },
);

test.each([
  ['SVC_ALLOWED_HOSTS', 'callboard.internal, 10.0.0.7'],
  ['SVC_CORS_ALLOWED_ORIGINS', 'loopback'],
  ['SVC_CORS_ALLOWED_ORIGINS', '*'],
  ['SVC_CORS_ALLOWED_ORIGINS', 'https://gui.example.com, http://10.0.0.7:3000, app://gui'],
  ['SVC_EGRESS_ALLOW', 'db.internal, *.example.com, db:5432, *.test:80, 10.0.0.7, 10.0.0.0/8, fd00::/8, [fd00::1]:80'],
  ['SVC_EGRESS_DENY', '0.0.0.0/0'],
  ['SVC_WORKER_POOLS', 'shared, gpu.large@site-1'],
  ['SVC_OTLP_HEADERS', 'a=b'],
  ['SVC_OTLP_HEADERS', 'authorization=Basic dXNlcg==, x-empty=,'],
])('%s may be %s', (name, value) => {
  expect(readConfig({ [name]: value }).warnings).toEqual([]);
});

test.each([
  ['SVC_ALLOWED_HOSTS', 'a.test, https://b.test', 'host names', "'https://b.test'"],
  ['SVC_CORS_ALLOWED_ORIGINS', 'loopback,https://gui.example.com/', 'origins', "'https://gui.example.com/'"],
  ['SVC_CORS_ALLOWED_ORIGINS', 'https://GUI.example.com', 'origins', "'https://GUI.example.com'"],
  ['SVC_CORS_ALLOWED_ORIGINS', 'gui.example.com', 'origins', "'gui.example.com'"],
  ['SVC_CORS_ALLOWED_ORIGINS', 'null', 'origins', "'null'"],
  ['SVC_EGRESS_ALLOW', '10.0.0.0/33', 'ranges', "'10.0.0.0/33'"],
  ['SVC_EGRESS_ALLOW', 'http://a.test', 'hosts', "'http://a.test'"],
  ['SVC_EGRESS_DENY', '*', 'hosts', "'*'"],
  ['SVC_EGRESS_DENY', 'a.test:65536', 'hosts', "'a.test:65536'"],
  ['SVC_WORKER_POOLS', 'shared,a b', 'names', "'a b'"],
  ['SVC_OTLP_HEADERS', 'token-of-somebody', 'name=value', 'SVC_OTLP_HEADERS'],
])('%s may not be %s, and what is wrong is named', (name, value, expected, named) => {
  const { problems } = refusal({ [name]: value });
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(expected);
  expect(problems[0]).toContain(named);
});

test.each(['65536', '-1', '8082.5', ' 80 82', '0x10', 'abc', '99999999999999999999'])(
  'OP-02 port %s is refused',
  (SVC_PORT) => {
    expect(refusal({ SVC_PORT }).problems).toHaveLength(1);
  },
);

test('a mistyped name is a warning with the nearest one, and other names are none of our business', () => {
  const { warnings } = readConfig({ SVC_PROT: '1', HOME: '/root', SVC_DATABASE_URL_FILE: '' });
  expect(warnings).toEqual(['SVC_PROT is not a setting of this version; the nearest name is SVC_PORT']);
});

test('a secret may come from a file, but not from both places', () => {
  const file = join(mkdtempSync(join(tmpdir(), 'callboard-config-')), 'token');
  writeFileSync(file, 'from-a-file\n');
  expect(readConfig({ SVC_WORKER_TOKEN_FILE: file }).worker.token).toBe('from-a-file');
  expect(refusal({ SVC_WORKER_TOKEN_FILE: file, SVC_WORKER_TOKEN: 'x' }).problems[0]).toContain('is set twice');
  expect(refusal({ SVC_WORKER_TOKEN_FILE: `${file}.missing` }).problems[0]).toContain('ENOENT');
});

test('a problem with a secret does not print it', () => {
  expect(refusal({ SVC_ENCRYPTION_KEY: 'c2VjcmV0' }).message).not.toContain('c2VjcmV0');
  expect(refusal({ SVC_OTLP_HEADERS: 'c2VjcmV0' }).message).not.toContain('c2VjcmV0');
});

test('every setting has its own name and a sentence', () => {
  const names = ALL_SETTINGS.map((row) => row.env);
  expect(new Set(names).size).toBe(names.length);
  for (const row of ALL_SETTINGS) expect(row.sentence, row.env).toMatch(/\.$/);
});

test('every printed default is what its parser reads', () => {
  for (const row of ALL_SETTINGS.filter((each) => each.fallback !== null && each.shown !== '')) {
    expect(row.parse(row.shown), row.env).toEqual(row.fallback);
  }
});

function refusal(env: Record<string, string>): ConfigError {
  try {
    readConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('the configuration was accepted');
}

test.each([
  [{}, 'read', false],
  [{ SVC_AUTH_MODE: 'enforce' }, 'off', true],
  [{ SVC_AUTH_MODE: 'enforce', SVC_POSTGRES_EXECUTE: 'read', SVC_AUDIT_REQUIRED: 'false' }, 'read', false],
  [{ SVC_POSTGRES_EXECUTE: 'write', SVC_AUDIT_REQUIRED: 'true' }, 'write', true],
])('with %j the SQL endpoint is %s, and whether reveals need their audit row: %s', (env, mode, required) => {
  const config = readConfig(env);
  expect([sqlModeOf(config), isAuditRequired(config)]).toEqual([mode, required]);
});
