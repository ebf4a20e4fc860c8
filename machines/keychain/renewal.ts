/**
 * Token requests, the first one and every renewal (language 12.3, 12.4): what is sent, and how an answer is read. What
 * is kept for a renewal is the rendered request, so renewing needs neither the playbook nor its inputs.
 */
import { isMap, type Json, type JsonMap } from '../json.ts';
import { readLifetime } from './expiry.ts';

export interface RenewConfig {
  readonly endpoint: string;
  readonly method: string;
  readonly headers: JsonMap;
  readonly data: JsonMap;
  readonly tokenField: string;
  readonly ttlField: string;
}

export const RENEW_DEFAULTS = { method: 'POST', tokenField: 'access_token', ttlField: 'expires_in' } as const;

/** Seconds, where the answer to a renewal names no lifetime. */
export const RENEWED_TTL_SECONDS = 3600;
/** How long one reader alone may renew. */
export const RENEWAL_GRANT_SECONDS = 30;

export type Encoding = 'form' | 'json';

export interface TokenRequest {
  readonly url: string;
  readonly method: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

export interface TokenAnswer {
  readonly status: number;
  /** The parsed body; undefined where it is not JSON. */
  readonly body: Json | undefined;
}

export type Renewal =
  | { readonly ok: true; readonly tokenData: JsonMap; readonly ttlSeconds: number }
  | { readonly ok: false; readonly reason: string };

/** OAuth endpoints take forms unless the request says otherwise; anything else takes JSON. */
export function encodingOf(credentialType: string): Encoding {
  return credentialType.startsWith('oauth') ? 'form' : 'json';
}

/** The request as it is sent. A content type among the headers decides about the body; `encoding` where there is none. */
export function tokenRequest(
  config: Pick<RenewConfig, 'endpoint' | 'method' | 'headers' | 'data'>,
  encoding: Encoding,
): TokenRequest {
  const method = config.method.trim().toUpperCase() || RENEW_DEFAULTS.method;
  const headers = Object.fromEntries(
    Object.entries(config.headers).flatMap(([name, value]): [string, string][] =>
      value === null ? [] : [[name.toLowerCase(), textOf(value)]],
    ),
  );
  headers['accept'] ??= 'application/json';
  const isEmpty = Object.keys(config.data).length === 0;
  if (method === 'GET' || method === 'HEAD') {
    const join = config.endpoint.includes('?') ? '&' : '?';
    return {
      url: isEmpty ? config.endpoint : `${config.endpoint}${join}${formOf(config.data)}`,
      method,
      headers,
      body: null,
    };
  }
  if (isEmpty) return { url: config.endpoint, method, headers, body: null };
  const form = isForm(headers['content-type'], encoding);
  headers['content-type'] ??= form ? 'application/x-www-form-urlencoded' : 'application/json';
  return { url: config.endpoint, method, headers, body: form ? formOf(config.data) : JSON.stringify(config.data) };
}

/** The answer to a renewal: HTTP 200 with a token, and nothing else, counts. Reasons hold no value of the answer. */
export function readRenewal(config: Pick<RenewConfig, 'tokenField' | 'ttlField'>, answer: TokenAnswer): Renewal {
  if (answer.status !== 200) return { ok: false, reason: `the token endpoint answered HTTP ${answer.status}` };
  if (!isMap(answer.body)) return { ok: false, reason: 'the token endpoint answered with something that is not a map' };
  const token = answer.body[config.tokenField];
  if (token === undefined || token === null || token === '') {
    return { ok: false, reason: `the answer of the token endpoint has no field '${config.tokenField}'` };
  }
  const ttlSeconds = readLifetime(answer.body[config.ttlField]) ?? RENEWED_TTL_SECONDS;
  return { ok: true, tokenData: answer.body, ttlSeconds };
}

/** The first answer becomes the entry as it is; its lifetime is null where it names none. */
export function readFirstAnswer(
  config: Pick<RenewConfig, 'ttlField'>,
  answer: TokenAnswer,
): { readonly ok: true; readonly tokenData: JsonMap; readonly ttlSeconds: number | null } | (Renewal & { ok: false }) {
  if (answer.status < 200 || answer.status > 299) {
    return { ok: false, reason: `the endpoint answered HTTP ${answer.status}` };
  }
  if (!isMap(answer.body)) return { ok: false, reason: 'the endpoint answered with something that is not a map' };
  return { ok: true, tokenData: answer.body, ttlSeconds: readLifetime(answer.body[config.ttlField]) };
}

function isForm(contentType: string | undefined, encoding: Encoding): boolean {
  if (contentType === undefined) return encoding === 'form';
  return contentType.toLowerCase().startsWith('application/x-www-form-urlencoded');
}

/** Null leaves a field out, a list repeats it, a map becomes JSON. */
function formOf(data: JsonMap): string {
  return Object.entries(data)
    .flatMap(([name, value]): [string, Json][] =>
      Array.isArray(value) ? value.map((item): [string, Json] => [name, item]) : [[name, value]],
    )
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${encoded(name)}=${encoded(textOf(value))}`)
    .join('&');
}

function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll('%20', '+');
}

function textOf(value: Json): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
