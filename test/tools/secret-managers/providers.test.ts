/**
 * Google Secret Manager and Azure Key Vault against a local server that checks what it is sent (assertions, tokens, names,
 * versions), and what holds for every manager: few tries, an end in time, and no value, header or body in a failure.
 */
import { generateKeyPairSync, verify } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { isMap, type JsonMap } from '../../../machines/json.ts';
import { failed, openTools, succeeded } from '../harness.ts';
import { base64, cloud, json, KEYS, last, NOW, type Reply, stored } from './cloud.ts';

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });

describe('provider gcp', () => {
  const account = {
    type: 'service_account',
    project_id: 'shop-prod',
    client_email: 'reader@shop-prod.iam.gserviceaccount.com',
    private_key_id: 'kid-1',
    private_key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
  };
  const payload = (text: string | Buffer) => ({ name: 'n', payload: { data: base64(text), dataCrc32c: '1' } });

  it('exchanges a signed assertion for a token and reads the newest version', async () => {
    await using sut = await cloud((seen, response) =>
      seen.path === '/token'
        ? json(response, 200, { access_token: 'canary-gcp', expires_in: 3600 })
        : json(response, 200, payload('s3crét')),
    );
    const auth = stored('service_account', { ...account, token_uri: `${sut.server.url}/token` });
    expect(succeeded(await sut.run({ provider: 'gcp', name: 'db-password' }, auth)).data).toEqual({ value: 's3crét' });
    const [exchange, access] = sut.server.seen;
    const form = new URLSearchParams(exchange?.body);
    expect(form.get('grant_type')).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer');
    const [head = '', claims = '', signature = ''] = (form.get('assertion') ?? '').split('.');
    expect(verify('RSA-SHA256', Buffer.from(`${head}.${claims}`), publicKey, Buffer.from(signature, 'base64url'))).toBe(
      true,
    );
    expect(JSON.parse(Buffer.from(head, 'base64url').toString())).toEqual({ alg: 'RS256', typ: 'JWT', kid: 'kid-1' });
    expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toEqual({
      iss: account.client_email,
      scope: 'https://www.googleapis.com/auth/cloud-platform',
      aud: `${sut.server.url}/token`,
      iat: NOW / 1000,
      exp: NOW / 1000 + 3600,
    });
    expect(access).toMatchObject({
      method: 'GET',
      path: '/v1/projects/shop-prod/secrets/db-password/versions/latest:access',
      headers: { authorization: 'Bearer canary-gcp' },
    });
  });

  it.each<[string, string | null, string]>([
    ['projects/p-1/secrets/s', null, '/v1/projects/p-1/secrets/s/versions/latest:access'],
    ['projects/p-1/secrets/s/versions/7', null, '/v1/projects/p-1/secrets/s/versions/7:access'],
    ['projects/p-1/secrets/s/versions/7', '8', '/v1/projects/p-1/secrets/s/versions/8:access'],
    [
      'projects/p-1/locations/europe-west3/secrets/s',
      null,
      '/v1/projects/p-1/locations/europe-west3/secrets/s/versions/latest:access',
    ],
  ])('reads %s, version %s', async (name, version, path) => {
    await using sut = await cloud((_seen, response) => json(response, 200, payload('v')));
    const fields = { provider: 'gcp', name, ...(version === null ? {} : { version }) };
    succeeded(await sut.run(fields, { name: null, type: 'bearer', data: { token: 'canary-t' } }));
    expect(last(sut.server.seen)).toMatchObject({ path, headers: { authorization: 'Bearer canary-t' } });
  });

  it('without a credential uses the identity of the platform, and the token of the inputs before it', async () => {
    await using sut = await cloud((seen, response) => {
      if (!seen.path.startsWith('/computeMetadata/')) return json(response, 200, payload('v'));
      expect(seen.headers['metadata-flavor']).toBe('Google');
      return json(response, 200, { access_token: 'canary-platform', expires_in: 300 });
    });
    const fields = { provider: 'gcp', name: 'projects/p/secrets/s' };
    succeeded(await sut.run(fields, null));
    expect(sut.server.seen[0]?.path).toBe('/computeMetadata/v1/instance/service-accounts/default/token');
    expect(last(sut.server.seen).headers.authorization).toBe('Bearer canary-platform');
    succeeded(await sut.run(fields, { name: null, type: 'gcp_adc', data: {} }, { workload: { access_token: 'mine' } }));
    expect(last(sut.server.seen).headers.authorization).toBe('Bearer mine');
  });

  it.each([
    ['../../evil', null],
    ['projects/p/secrets/s/versions/1:destroy', null],
    ['https://evil.test/x', null],
    ['s', stored('bearer', { token: 't' })],
  ] as const)('does not ask for %s', async (name, auth) => {
    await using sut = await cloud((_seen, response) => json(response, 200, payload('v')));
    const { error } = failed(await sut.run({ provider: 'gcp', name }, auth));
    expect(error.kind).toBe('config');
    expect(sut.server.seen).toEqual([]);
  });

  it('says that a secret is not there, and takes an empty one', async () => {
    await using sut = await cloud((seen, response) =>
      seen.path.includes('/empty/')
        ? json(response, 200, { name: 'n', payload: {} })
        : json(response, 404, { error: { code: 404, message: 'canary-echo', status: 'NOT_FOUND' } }),
    );
    const auth = stored('bearer', { token: 't' });
    const { error } = failed(await sut.run({ provider: 'gcp', name: 'projects/p/secrets/none' }, auth));
    expect(error).toMatchObject({
      kind: 'missing_reference',
      message: "secret provider 'gcp' has no secret 'projects/p/secrets/none'",
    });
    expect(succeeded(await sut.run({ provider: 'gcp', name: 'projects/p/secrets/empty' }, auth)).data).toEqual({
      value: '',
    });
  });
});

describe('provider azure', () => {
  const PRINCIPAL = { tenant_id: 'contoso.test', client_id: 'app-1', client_secret: 'canary-azure' };

  const azure = (value = 'v') =>
    cloud((seen, response) =>
      seen.path.endsWith('/token')
        ? json(response, 200, { token_type: 'Bearer', expires_in: 3599, access_token: 'canary-az-token' })
        : json(response, 200, { value, id: 'https://shop.vault.azure.net/secrets/s/1' }),
    );

  it('asks for a token with client credentials and reads the secret', async () => {
    await using sut = await azure('canary-value');
    const auth = stored('custom', PRINCIPAL);
    const outcome = succeeded(await sut.run({ provider: 'azure', name: 'shop/db-password' }, auth));
    expect(outcome.data).toEqual({ value: 'canary-value' });
    const [token, secret] = sut.server.seen;
    expect(token).toMatchObject({ method: 'POST', path: '/contoso.test/oauth2/v2.0/token' });
    expect(Object.fromEntries(new URLSearchParams(token?.body))).toEqual({
      grant_type: 'client_credentials',
      client_id: 'app-1',
      client_secret: 'canary-azure',
      scope: 'https://vault.azure.net/.default',
    });
    expect(secret).toMatchObject({
      method: 'GET',
      path: '/secrets/db-password?api-version=7.4',
      headers: { authorization: 'Bearer canary-az-token' },
    });
  });

  it.each<[string, string | null, JsonMap, string]>([
    ['https://shop.vault.azure.net/secrets/s', null, PRINCIPAL, '/secrets/s'],
    ['https://shop.vault.azure.net/secrets/s/abc1', null, PRINCIPAL, '/secrets/s/abc1'],
    ['shop/s/abc1', null, PRINCIPAL, '/secrets/s/abc1'],
    ['shop/s', 'abc2', PRINCIPAL, '/secrets/s/abc2'],
    ['s', null, { ...PRINCIPAL, vault: 'shop' }, '/secrets/s'],
    ['s/abc1', null, { ...PRINCIPAL, vault_url: 'https://shop.vault.azure.net/' }, '/secrets/s/abc1'],
  ])('reads %s, version %s', async (name, version, data, path) => {
    await using sut = await azure();
    const fields = { provider: 'azure', name, ...(version === null ? {} : { version }) };
    succeeded(await sut.run(fields, stored('custom', data)));
    expect(last(sut.server.seen).path).toBe(`${path}?api-version=7.4`);
  });

  it.each([
    'https://evil.test/secrets/s',
    'https://shop.vault.azure.net.evil.test/secrets/s',
    'https://shop.vault.azure.net:8443/secrets/s',
    'http://shop.vault.azure.net/secrets/s',
    'evil.test/s',
    'shop/../s',
    'shop',
  ])('sends no token for %s', async (name) => {
    await using sut = await azure();
    const { error } = failed(await sut.run({ provider: 'azure', name }, stored('custom', PRINCIPAL)));
    expect(error.kind).toBe('config');
    expect(sut.server.seen).toEqual([]);
  });

  it('says that a secret is not there, and that a tenant refused', async () => {
    await using sut = await cloud((seen, response) => {
      if (!seen.path.endsWith('/token'))
        return json(response, 404, { error: { code: 'SecretNotFound', message: 'canary' } });
      const wrong = seen.body.includes('wrong');
      return wrong
        ? json(response, 401, { error: 'invalid_client', error_description: 'canary-echo' })
        : json(response, 200, { access_token: 't' });
    });
    const missing = failed(await sut.run({ provider: 'azure', name: 'shop/s' }, stored('custom', PRINCIPAL)));
    expect(missing.error).toMatchObject({
      kind: 'missing_reference',
      message: "secret provider 'azure' has no secret 'shop/s'",
    });
    const auth = stored('custom', { ...PRINCIPAL, client_secret: 'wrong-canary' });
    const refused = failed(await sut.run({ provider: 'azure', name: 'shop/s' }, auth));
    expect(refused.error).toMatchObject({
      kind: 'auth',
      message: "secret provider 'azure': the token endpoint answered HTTP 401",
    });
    expect(JSON.stringify([missing, refused])).not.toContain('canary');
  });
});

describe('any provider', () => {
  const asked = { provider: 'aws', name: 'shop/db' };
  const auth = stored('custom', KEYS);

  it('is asked again while it is in trouble, with a new signature, and three times at most', async () => {
    await using sut = await cloud((_seen, response, tries) =>
      tries < 3 ? json(response, 503, {}) : json(response, 200, { SecretString: 's' }),
    );
    succeeded(await sut.run(asked, auth));
    expect(sut.server.seen).toHaveLength(3);
    await using never = await cloud((_seen, response) => json(response, 400, { __type: 'ThrottlingException' }));
    const { error } = failed(await never.run(asked, auth));
    expect(error.message).toBe("secret provider 'aws' answered HTTP 400 (ThrottlingException)");
    expect(never.server.seen).toHaveLength(3);
  });

  it('that does not answer costs no more than the time-out of the task', async () => {
    await using sut = await cloud(() => {});
    const startedAt = performance.now();
    const { error } = failed(await sut.run(asked, auth, { timeoutMs: 300 }));
    expect(error).toMatchObject({ kind: 'timeout', message: "secret provider 'aws' did not answer in time" });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });

  it('that sends something else than JSON, too much, or another address is not understood', async () => {
    const replies: Reply[] = [
      (_seen, response) => response.end('<canary/>'),
      (_seen, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
    ];
    for (const reply of replies) {
      await using sut = await cloud(reply);
      const { error } = failed(await sut.run(asked, auth));
      expect(error.message).not.toContain('canary');
      expect(sut.server.seen).toHaveLength(1);
    }
  });

  it('gets no credential that is meant for other hosts', async () => {
    await using sut = await cloud((_seen, response) => json(response, 200, { SecretString: 's' }));
    const { error } = failed(await sut.run(asked, stored('custom', KEYS, ['*.amazonaws.com'])));
    expect(error).toMatchObject({
      kind: 'config',
      message: "credential 'manager_auth' is not meant for host 127.0.0.1",
    });
    expect(sut.server.seen).toEqual([]);
  });

  it('that the egress policy blocks is not asked', async () => {
    await using harness = openTools({
      egress: { policy: 'public-only', allow: [], deny: [] },
      secretEndpoints: { aws: 'http://127.0.0.1:9', gcp: null, azureVault: null, azureLogin: null },
      environment: {},
    });
    const { error } = failed(await harness.run('secrets', asked, { auth }));
    expect(error).toMatchObject({
      kind: 'connection',
      code: 'EGRESS_DENIED',
      message: "the egress policy does not allow the address of secret provider 'aws'",
    });
  });

  it('shows no key, token or answer in a failure', async () => {
    await using sut = await cloud((seen, response) =>
      json(response, 418, { message: `canary ${seen.body}`, echo: seen.headers }),
    );
    for (const [provider, data] of [
      ['aws', KEYS],
      ['gcp', { token: 'canary-bearer' }],
      ['azure', { token: 'canary-bearer' }],
    ] as const) {
      const type = provider === 'aws' ? 'custom' : 'bearer';
      const name = provider === 'gcp' ? 'projects/p/secrets/s' : 'shop/s';
      const outcome = failed(await sut.run({ provider, name }, stored(type, data)));
      expect(isMap(outcome.data)).toBe(false);
      expect(JSON.stringify(outcome)).not.toContain('canary');
    }
  });
});
