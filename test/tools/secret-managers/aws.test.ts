/** AWS Secrets Manager: signatures against the vectors AWS publishes, requests against a server that signs them again. */
import { describe, expect, it } from 'vitest';
import type { JsonMap } from '../../../machines/json.ts';
import { signed } from '../../../src/tools/secret-managers/sigv4.ts';
import { failed, succeeded } from '../harness.ts';
import type { Seen } from '../http-server.ts';
import { base64, cloud, json, KEYS, last, NOW, stored } from './cloud.ts';

describe('a signature of AWS', () => {
  const keys = {
    accessKeyId: 'AKIDEXAMPLE',
    secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
    sessionToken: null,
  };
  const now = Date.UTC(2015, 7, 30, 12, 36, 0);

  // The test suite of AWS (get-vanilla, post-vanilla, get-vanilla-query-order-key-case) and its example for IAM.
  it.each([
    ['GET', 'https://example.amazonaws.com/', '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'],
    ['POST', 'https://example.amazonaws.com/', '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b'],
    [
      'GET',
      'https://example.amazonaws.com/?Param2=value2&Param1=value1',
      'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
    ],
  ])('of %s %s is the published one', (method, url, signature) => {
    const headers = signed({ method, url: new URL(url), headers: {}, body: '' }, keys, {
      region: 'us-east-1',
      service: 'service',
      now,
    });
    expect(headers).toEqual({
      'x-amz-date': '20150830T123600Z',
      authorization: `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=${signature}`,
    });
  });

  it('covers the headers of the request', () => {
    const { authorization } = signed(
      {
        method: 'GET',
        url: new URL('https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08'),
        headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
        body: '',
      },
      keys,
      { region: 'us-east-1', service: 'iam', now },
    );
    expect(authorization).toContain('SignedHeaders=content-type;host;x-amz-date');
    expect(authorization).toContain('Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7');
  });
});

describe('provider aws', () => {
  /** What the real service does: signs the request again with the key it knows, and compares. */
  const check = (seen: Seen, host: string, sessionToken: string | null = null) => {
    const { 'content-type': type = '', 'x-amz-target': target = '' } = seen.headers;
    const again = signed(
      {
        method: 'POST',
        url: new URL(`http://${host}${seen.path}`),
        headers: { 'content-type': type, 'x-amz-target': String(target) },
        body: seen.body,
      },
      { accessKeyId: KEYS.access_key_id, secretAccessKey: KEYS.secret_access_key, sessionToken },
      { region: 'eu-central-1', service: 'secretsmanager', now: NOW },
    );
    expect(seen.headers.host).toBe(host);
    expect(seen.headers).toMatchObject(again);
    expect(target).toBe('secretsmanager.GetSecretValue');
    expect(type).toBe('application/x-amz-json-1.1');
  };

  it('reads text, signed with the keys of the credential, and has it hidden', async () => {
    await using sut = await cloud((_seen, response) => json(response, 200, { Name: 'x', SecretString: 'canary-text' }));
    const outcome = succeeded(await sut.run({ provider: 'aws', name: 'shop/db' }, stored('custom', KEYS)));
    expect(outcome.data).toEqual({ value: 'canary-text' });
    expect(sut.concealed).toEqual(['canary-text']);
    check(last(sut.server.seen), new URL(sut.server.url).host);
    expect(JSON.parse(last(sut.server.seen).body)).toEqual({ SecretId: 'shop/db' });
  });

  it('signs with temporary keys and asks for a version', async () => {
    await using sut = await cloud((_seen, response) =>
      json(response, 200, { SecretBinary: base64(Buffer.from([0xff, 0xfe])) }),
    );
    const auth = stored('aws', { ...KEYS, aws_session_token: 'canary-session' });
    const read = (version: string) => sut.run({ provider: 'aws', name: 'shop/db', version }, auth);
    expect(succeeded(await read('AWSPREVIOUS')).data).toEqual({ value: base64(Buffer.from([0xff, 0xfe])) });
    check(last(sut.server.seen), new URL(sut.server.url).host, 'canary-session');
    expect(JSON.parse(last(sut.server.seen).body)).toEqual({ SecretId: 'shop/db', VersionStage: 'AWSPREVIOUS' });
    await read('a1b2c3d4-5678-90ab-cdef-EXAMPLE11111');
    expect(JSON.parse(last(sut.server.seen).body)).toMatchObject({ VersionId: 'a1b2c3d4-5678-90ab-cdef-EXAMPLE11111' });
  });

  it('takes the region of an ARN before that of the credential', async () => {
    await using sut = await cloud((_seen, response) => json(response, 200, { SecretString: 's' }));
    const name = 'arn:aws:secretsmanager:us-west-2:123456789012:secret:shop-AbCdEf';
    succeeded(await sut.run({ provider: 'aws', name }, stored('custom', KEYS)));
    expect(last(sut.server.seen).headers.authorization).toContain('/us-west-2/secretsmanager/aws4_request');
  });

  it.each<[string, number, JsonMap, string, string]>([
    [
      'no such secret',
      400,
      { __type: 'ResourceNotFoundException', message: 'canary-echo' },
      'missing_reference',
      "secret provider 'aws' has no secret 'shop/db'",
    ],
    [
      'a denied key',
      400,
      { __type: 'com.amazonaws#AccessDeniedException', Message: 'canary-echo' },
      'auth',
      "secret provider 'aws' answered HTTP 400 (AccessDeniedException)",
    ],
    ['a bare 403', 403, {}, 'auth', "secret provider 'aws' answered HTTP 403"],
    [
      'an error whose name is none',
      400,
      { __type: 'canary echo' },
      'client_error',
      "secret provider 'aws' answered HTTP 400",
    ],
    ['an answer without a secret', 200, { Name: 'x' }, 'parse', "the answer of secret provider 'aws' cannot be read"],
  ])('of %s fails once', async (_what, status, body, kind, message) => {
    await using sut = await cloud((_seen, response) => json(response, status, body));
    const { error } = failed(await sut.run({ provider: 'aws', name: 'shop/db' }, stored('custom', KEYS)));
    expect(error).toMatchObject({ kind, message });
    expect(sut.server.seen).toHaveLength(1);
  });

  it.each<[string, JsonMap, string]>([
    ['no keys', { region: 'eu-central-1' }, "needs a credential with access_key_id and secret_access_key as 'auth'"],
    ['no region', { access_key_id: 'a', secret_access_key: 'b' }, 'needs a region'],
    ['a region that is a host', { ...KEYS, region: 'evil.test/x' }, 'is not a region'],
  ])('with %s asks nobody', async (_what, data, sentence) => {
    await using sut = await cloud((_seen, response) => json(response, 200, {}));
    const { error } = failed(await sut.run({ provider: 'aws', name: 'x' }, stored('custom', data)));
    expect(error).toMatchObject({ kind: 'config', message: expect.stringContaining(sentence) });
    expect(sut.server.seen).toEqual([]);
  });
});
