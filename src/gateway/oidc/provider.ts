/**
 * The identity provider over HTTP: what it says about itself, its keys, and the exchange of a code for tokens. It is asked
 * when somebody logs in, so that the gateway starts without it, and its answers are kept for ten minutes. Where it may lie is
 * bound by the same rules as all that is asked in the name of others (api 8.4): it names its addresses itself.
 */
import type { JsonWebKey } from 'node:crypto';
import { BodyTooLarge, type Outbound } from '../../tools/http/outbound.ts';
import { fieldsOf, textOf } from '../session-store.ts';

export interface Metadata {
  readonly authorizationEndpoint: string;
  readonly tokenEndpoint: string;
  readonly jwksUri: string;
  /** It promises to name itself in each callback. */
  readonly namesIssuer: boolean;
  readonly postsSecret: boolean;
}

export interface Provider {
  metadata(): Promise<Metadata>;
  keys(kid: string | null): Promise<readonly JsonWebKey[]>;
  /** The ID token. */
  redeem(code: string, verifier: string): Promise<string>;
}

export interface ProviderOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | null;
  readonly redirectUrl: string;
  readonly now: () => number;
  /** Reads at most `ANSWER_MAX` bytes. */
  readonly outbound: Pick<Outbound, 'send'>;
}

/** It did not answer, or not as it must. The message is for the log. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';
}

const KEPT_MS = 600_000;
/** Someone who invents key ids must not make the gateway ask without end. */
const ASK_AGAIN_MS = 30_000;
const TIMEOUT_MS = 10_000;
export const ANSWER_MAX = 1_048_576;

type Fields = Readonly<Record<string, unknown>>;

export function createProvider(options: ProviderOptions): Provider {
  const { issuer, clientId, clientSecret, redirectUrl, now } = options;
  const ask = askThrough(options.outbound);
  let described: { readonly at: number; readonly value: Metadata } | null = null;
  let keyring: { readonly at: number; readonly value: readonly JsonWebKey[] } | null = null;

  async function metadata(): Promise<Metadata> {
    if (described !== null && now() - described.at < KEPT_MS) return described.value;
    const found = await ask(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
    if (found['issuer'] !== issuer) throw new ProviderError('it calls itself by another name than SVC_OIDC_ISSUER');
    const methods = found['token_endpoint_auth_methods_supported'];
    const value = {
      authorizationEndpoint: endpoint(found, 'authorization_endpoint'),
      tokenEndpoint: endpoint(found, 'token_endpoint'),
      jwksUri: endpoint(found, 'jwks_uri'),
      namesIssuer: found['authorization_response_iss_parameter_supported'] === true,
      postsSecret: Array.isArray(methods) && !methods.includes('client_secret_basic'),
    };
    described = { at: now(), value };
    return value;
  }

  /** Plain HTTP only where the issuer itself has no more. */
  function endpoint(found: Fields, name: string): string {
    const url = textOf(found[name]) ?? '';
    const isFit = URL.canParse(url) && (url.startsWith('https:') || issuer.startsWith('http:'));
    if (!isFit) throw new ProviderError(`its ${name} cannot be used`);
    return url;
  }

  return {
    metadata,
    async keys(kid) {
      const age = keyring === null ? Number.POSITIVE_INFINITY : now() - keyring.at;
      const knows = kid === null || keyring?.value.some((jwk) => jwk['kid'] === kid) === true;
      if (keyring !== null && age < KEPT_MS && (knows || age < ASK_AGAIN_MS)) return keyring.value;
      const { keys } = await ask((await metadata()).jwksUri);
      if (!Array.isArray(keys)) throw new ProviderError('it has no keys');
      // The parts of a key are judged where it is used.
      const value = keys.map((each): JsonWebKey => ({ ...fieldsOf(each) }));
      keyring = { at: now(), value };
      return value;
    },
    async redeem(code, verifier) {
      const { tokenEndpoint, postsSecret } = await metadata();
      const form = new URLSearchParams({
        grant_type: 'authorization_code',
        code,
        redirect_uri: redirectUrl,
        code_verifier: verifier,
      });
      const headers: Record<string, string> = { 'content-type': 'application/x-www-form-urlencoded' };
      if (clientSecret === null || postsSecret) form.set('client_id', clientId);
      if (clientSecret !== null && postsSecret) form.set('client_secret', clientSecret);
      if (clientSecret !== null && !postsSecret) {
        const pair = `${formEncoded(clientId)}:${formEncoded(clientSecret)}`;
        headers['authorization'] = `Basic ${Buffer.from(pair).toString('base64')}`;
      }
      const idToken = textOf((await ask(tokenEndpoint, { headers, body: form.toString() }))['id_token']);
      if (idToken === null) throw new ProviderError('it gave no ID token');
      return idToken;
    },
  };
}

function formEncoded(text: string): string {
  return new URLSearchParams({ x: text }).toString().slice(2);
}

type Ask = (url: string, post?: { headers: Record<string, string>; body: string }) => Promise<Fields>;

/** No redirects: an address of the provider is one it named itself. */
function askThrough(outbound: Pick<Outbound, 'send'>): Ask {
  return async (address, post) => {
    const url = new URL(address);
    try {
      const answer = await outbound.send({
        url,
        method: post === undefined ? 'GET' : 'POST',
        headers: { accept: 'application/json', ...post?.headers },
        secretHeaders: [],
        body: post?.body ?? null,
        followRedirects: false,
        verifySsl: true,
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      if (answer.status !== 200) throw new ProviderError(`${url.pathname} answered ${answer.status}`);
      return fieldsOf(JSON.parse(answer.body.toString('utf8')));
    } catch (error) {
      if (error instanceof ProviderError) throw error;
      const how = error instanceof BodyTooLarge ? 'answered too much' : 'did not answer as it must';
      throw new ProviderError(`${url.pathname} ${how}`, { cause: error });
    }
  };
}
