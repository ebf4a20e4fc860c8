/**
 * Access tokens for outgoing requests: asked for once, kept until 60 s before they expire, and asked for only once
 * when many tries want the same one at the same time. Keys are digests, so no secret is kept beyond its token.
 */
import { createHash, sign } from 'node:crypto';
import { isMap, type JsonMap } from '../../../machines/json.ts';
import { FieldProblem, fieldOf, jsonOrText, requiredText, textOf } from '../fields.ts';
import { parseJson } from '../json-text.ts';
import type { TokenSource } from './authorization.ts';
import type { Outbound } from './outbound.ts';

/** A token endpoint answered with something that is not a token. `status` is its HTTP status. */
export class TokenRefused extends Error {
  override readonly name = 'TokenRefused';
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface TokenOptions {
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** `GOOGLE_OAUTH_ACCESS_TOKEN` of the worker, if set. */
  readonly platformToken: string | undefined;
  /** Of the platform's metadata service; the well-known address when absent. */
  readonly metadataUrl?: string | null;
}

interface Kept {
  readonly token: string;
  readonly until: number;
}

const marginMs = 60_000;
const maxKept = 1_000;
const fetchLimitMs = 30_000;
const metadataBase = 'http://169.254.169.254';
const metadataPath = '/computeMetadata/v1/instance/service-accounts/default/token';

/** Token requests leave through `outbound`, except the one to the platform's metadata service (api 8.4). */
export function createTokens(outbound: Outbound, options: TokenOptions): TokenSource {
  const kept = new Map<string, { readonly token: Promise<Kept>; until: number }>();

  /** A fetch is shared by every try that waits for it, so it runs on its own clock, not on that of the first. */
  const keep = async (
    key: string,
    signal: AbortSignal,
    ask: (signal: AbortSignal) => Promise<Kept>,
  ): Promise<string> => {
    const known = kept.get(key);
    if (known !== undefined && known.until > options.now()) return (await orAborted(known.token, signal)).token;
    const entry = { token: ask(AbortSignal.timeout(fetchLimitMs)), until: Number.POSITIVE_INFINITY };
    kept.delete(key);
    kept.set(key, entry);
    const [oldest] = kept.keys();
    if (kept.size > maxKept && oldest !== undefined) kept.delete(oldest);
    entry.token.then(
      ({ until }) => {
        entry.until = until;
      },
      () => {
        if (kept.get(key) === entry) kept.delete(key);
      },
    );
    return (await orAborted(entry.token, signal)).token;
  };

  const post = async (url: string, form: Record<string, string>, signal: AbortSignal): Promise<Kept> => {
    if (!URL.canParse(url)) throw new FieldProblem('the token_url of the credential is not a URL');
    const answer = await outbound.send({
      url: new URL(url),
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      secretHeaders: [],
      body: new URLSearchParams(form).toString(),
      followRedirects: false,
      verifySsl: true,
      signal,
    });
    return readToken(answer.status, answer.body.toString('utf8'), options.now());
  };

  return {
    async clientCredentials(data, signal) {
      const url = requiredText(data, 'token_url', 'token_uri');
      const scope = textOf(data, 'scope', 'scopes');
      const form = {
        grant_type: 'client_credentials',
        client_id: requiredText(data, 'client_id'),
        client_secret: requiredText(data, 'client_secret'),
        ...(scope === undefined ? {} : { scope }),
      };
      return keep(digest(url, form), signal, (clock) => post(url, form, clock));
    },
    async serviceAccount(data, signal) {
      const account = accountOf(data);
      const url = textOf(account, 'token_uri', 'token_url') ?? 'https://oauth2.googleapis.com/token';
      const form = () => ({
        grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
        assertion: signedAssertion(account, data, url, options.now()),
      });
      return keep(digest(url, data), signal, (clock) => post(url, form(), clock));
    },
    async platform(workload, signal) {
      const given = textOf(await workload(), 'access_token') ?? options.platformToken;
      if (given !== undefined && given !== '') return given;
      return keep('platform', signal, async (clock) => {
        const answer = await fetch(`${(options.metadataUrl ?? metadataBase).replace(/\/+$/, '')}${metadataPath}`, {
          headers: { 'metadata-flavor': 'Google' },
          redirect: 'error',
          signal: clock,
        });
        return readToken(answer.status, await answer.text(), options.now());
      });
    },
  };
}

/** The value of a shared promise, or the reason of this caller's signal when that comes first. */
async function orAborted<T>(shared: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const stop = Promise.withResolvers<never>();
  const abort = () => stop.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([shared, stop.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function readToken(status: number, text: string, now: number): Kept {
  if (status < 200 || status > 299) throw new TokenRefused(status, `the token endpoint answered HTTP ${status}`);
  const reply = readMap(text);
  const token = reply['access_token'];
  if (typeof token !== 'string' || token === '')
    throw new TokenRefused(status, 'the token endpoint answered without an access_token');
  const seconds = Number(reply['expires_in'] ?? 300);
  return { token, until: now + (Number.isFinite(seconds) ? seconds * 1000 : 300_000) - marginMs };
}

function readMap(text: string): JsonMap {
  try {
    const value = parseJson(text);
    return isMap(value) ? value : {};
  } catch {
    return {};
  }
}

/** The account's JSON: the credential itself, or its `service_account` / `json` member as a map or text. */
export function accountOf(data: JsonMap): JsonMap {
  const inner = fieldOf(data, 'service_account', 'service_account_json', 'json', 'key_json');
  if (isMap(inner)) return inner;
  return typeof inner === 'string' ? readMap(inner) : data;
}

function signedAssertion(account: JsonMap, data: JsonMap, audience: string, now: number): string {
  const scopes = fieldOf(data, 'scopes', 'scope') ?? 'https://www.googleapis.com/auth/cloud-platform';
  const claims = {
    iss: requiredText(account, 'client_email'),
    scope: Array.isArray(scopes) ? scopes.join(' ') : jsonOrText(scopes),
    aud: audience,
    iat: Math.floor(now / 1000),
    exp: Math.floor(now / 1000) + 3600,
  };
  const keyId = textOf(account, 'private_key_id');
  const header = { alg: 'RS256', typ: 'JWT', ...(keyId === undefined ? {} : { kid: keyId }) };
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const unsigned = `${part(header)}.${part(claims)}`;
  try {
    return `${unsigned}.${sign('RSA-SHA256', Buffer.from(unsigned), requiredText(account, 'private_key')).toString('base64url')}`;
  } catch (error) {
    if (error instanceof FieldProblem) throw error;
    throw new FieldProblem('the private_key of the service account cannot be used to sign');
  }
}

function digest(url: string, parts: object): string {
  return createHash('sha256')
    .update(JSON.stringify([url, parts]))
    .digest('base64');
}
