/** An identity provider that signs what it is told to, and redeems each code once, for the right verifier only. */
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { type FakeServer, startFakeServer } from './upstream-server.ts';

export interface FakeProvider extends FakeServer {
  readonly issuer: string;
  /** Agrees to a login and says where the browser goes; `claims` change those of the ID token. */
  agree(loginUrl: string, claims?: object, signing?: Signing): URL;
  token(claims: object, signing?: Signing): string;
}

export interface Signing {
  readonly alg?: string;
  readonly key?: KeyObject | Buffer | null;
  readonly kid?: string;
}

export const RSA = generateKeyPairSync('rsa', { modulusLength: 2048 });
export const EC = generateKeyPairSync('ec', { namedCurve: 'P-256' });

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

export async function startFakeProvider(clientId: string): Promise<FakeProvider> {
  const codes = new Map<string, { readonly challenge: string; readonly idToken: string }>();
  let issuer = '';
  const server = await startFakeServer(({ url, body, headers }, _request, response) => {
    const send = (status: number, answer: object): true => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer));
      return true;
    };
    if (url === '/.well-known/openid-configuration') {
      return send(200, {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/keys`,
        authorization_response_iss_parameter_supported: true,
      });
    }
    if (url === '/keys') {
      const keys = [
        { ...RSA.publicKey.export({ format: 'jwk' }), kid: 'rsa', use: 'sig', alg: 'RS256' },
        { ...EC.publicKey.export({ format: 'jwk' }), kid: 'ec' },
      ];
      return send(200, { keys });
    }
    const form = new URLSearchParams(body);
    const code = form.get('code') ?? '';
    const known = codes.get(code);
    codes.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const basic = `Basic ${Buffer.from(`${clientId}:hush`).toString('base64')}`;
    const isGood = known?.challenge === challenge && headers.authorization === basic;
    return isGood ? send(200, { id_token: known.idToken }) : send(400, { error: 'invalid_grant' });
  });
  issuer = server.url;

  function token(claims: object, { alg = 'RS256', key = RSA.privateKey, kid = 'rsa' }: Signing = {}): string {
    const now = Math.floor(Date.now() / 1000);
    const all = {
      iss: issuer,
      aud: clientId,
      sub: 'user-7',
      exp: now + 300,
      iat: now,
      email: 'u7@example.com',
      name: 'Seven',
      ...claims,
    };
    const signed = `${part({ alg, kid, typ: 'JWT' })}.${part(all)}`;
    if (key === null) return `${signed}.`;
    if (Buffer.isBuffer(key)) return `${signed}.${createHash('sha256').update(key).update(signed).digest('base64url')}`;
    const options = alg === 'ES256' ? { key, dsaEncoding: 'ieee-p1363' as const } : key;
    return `${signed}.${sign('sha256', Buffer.from(signed), options).toString('base64url')}`;
  }

  return {
    ...server,
    issuer,
    token,
    agree(loginUrl, claims = {}, signing = {}) {
      const asked = new URL(loginUrl).searchParams;
      const code = `code-${codes.size}-${asked.get('state')?.slice(0, 8)}`;
      const idToken = token({ nonce: asked.get('nonce'), ...claims }, signing);
      codes.set(code, { challenge: asked.get('code_challenge') ?? '', idToken });
      const back = new URL(asked.get('redirect_uri') ?? '');
      back.search = String(new URLSearchParams({ code, state: asked.get('state') ?? '', iss: issuer }));
      return back;
    },
  };
}
