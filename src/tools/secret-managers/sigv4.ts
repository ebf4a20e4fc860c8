/**
 * Signature Version 4 of AWS, for requests whose body is at hand: every header that is given is signed, together with
 * the host and the time. Pure; checked against the vectors AWS publishes (test/tools/secret-managers/aws.test.ts).
 */
import { createHash, createHmac } from 'node:crypto';

export interface AwsKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Of temporary keys. */
  readonly sessionToken: string | null;
}

export interface Signable {
  readonly method: string;
  readonly url: URL;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface SigningScope {
  readonly region: string;
  readonly service: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The headers of the request with `x-amz-date`, the session's token and `authorization`; `host` is left to the client. */
export function signed(request: Signable, keys: AwsKeys, scope: SigningScope): Record<string, string> {
  const time = new Date(scope.now).toISOString().replace(/\.\d{3}|[-:]/g, '');
  const headers = {
    ...request.headers,
    'x-amz-date': time,
    ...(keys.sessionToken === null ? {} : { 'x-amz-security-token': keys.sessionToken }),
  };
  const signedHeaders = Object.entries({ ...headers, host: request.url.host }).sort(byName);
  const names = signedHeaders.map(([name]) => name).join(';');
  const canonical = [
    request.method,
    request.url.pathname.split('/').map(encoded).join('/'),
    canonicalQuery(request.url.searchParams),
    ...signedHeaders.map(([name, value]) => `${name}:${value.trim().replace(/ +/g, ' ')}`),
    '',
    names,
    sha256(request.body),
  ].join('\n');
  const day = time.slice(0, 8);
  const place = `${day}/${scope.region}/${scope.service}/aws4_request`;
  const key = [day, scope.region, scope.service, 'aws4_request'].reduce<string | Buffer>(
    (secret, part) => hmac(secret, part),
    `AWS4${keys.secretAccessKey}`,
  );
  const signature = hmac(key, ['AWS4-HMAC-SHA256', time, place, sha256(canonical)].join('\n')).toString('hex');
  const credential = `Credential=${keys.accessKeyId}/${place}`;
  return {
    ...headers,
    authorization: `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${names}, Signature=${signature}`,
  };
}

function canonicalQuery(query: URLSearchParams): string {
  return [...query]
    .map(([name, value]): [string, string] => [encoded(name), encoded(value)])
    .sort((a, b) => byName(a, b) || (a[1] < b[1] ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
}

function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Everything but the unreserved characters of RFC 3986. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

function sha256(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex');
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text, 'utf8').digest();
}
