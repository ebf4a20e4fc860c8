/**
 * Whether an ID token is what it says (OpenID Connect Core 3.1.3.7): signed by a key of the provider, for this client,
 * now. The algorithm is chosen here and must fit the key; what the token claims about it only has to agree.
 */
import { createPublicKey, type JsonWebKey, type KeyObject, verify } from 'node:crypto';
import { fieldsOf, textOf } from '../session-store.ts';

/** The message says what is wrong, for the log; callers are not told. */
export class BadToken extends Error {
  override readonly name = 'BadToken';
}

export type Claims = Readonly<Record<string, unknown>> & { readonly sub: string };

export interface Expectations {
  readonly issuer: string;
  /** Must be among the token's audiences. */
  readonly audience: string;
  readonly clientId: string;
  /** Null where the token belongs to no login of this gateway. */
  readonly nonce: string | null;
  /** Milliseconds. */
  readonly now: number;
}

/** The provider's keys by id; asked again where none fits. */
export type KeySource = (kid: string | null) => Promise<readonly JsonWebKey[]>;

const SKEW_SECONDS = 60;
const TOKEN_MAX = 16_384;
const SUBJECT_MAX = 255;
const RSA_BITS_MIN = 2048;
const PART = /^[A-Za-z0-9_-]+$/;

/** Throws BadToken, or what the key source throws. */
export async function verifyIdToken(token: string, keys: KeySource, expected: Expectations): Promise<Claims> {
  const [head = '', body = '', signature = '', ...rest] = token.split('.');
  if (token.length > TOKEN_MAX || rest.length > 0 || ![head, body, signature].every((part) => PART.test(part))) {
    throw new BadToken('it is not a signed token');
  }
  const header = jsonOf(head);
  const { alg, kid, crit } = header;
  if (alg !== 'RS256' && alg !== 'ES256') throw new BadToken('its algorithm is not RS256 or ES256');
  if (crit !== undefined) throw new BadToken('it has critical headers');
  const id = textOf(kid);
  const fitting = (await keys(id)).filter((jwk) => isFor(jwk, alg, id));
  const signed = Buffer.from(`${head}.${body}`, 'ascii');
  const bytes = Buffer.from(signature, 'base64url');
  if (!fitting.some((jwk) => isSignedBy(jwk, alg, signed, bytes)))
    throw new BadToken('no key of the provider signed it');
  return checked(jsonOf(body), expected);
}

function isFor(jwk: JsonWebKey, alg: 'RS256' | 'ES256', kid: string | null): boolean {
  if (kid !== null && jwk['kid'] !== kid) return false;
  if (jwk['use'] !== undefined && jwk['use'] !== 'sig') return false;
  if (jwk['alg'] !== undefined && jwk['alg'] !== alg) return false;
  return alg === 'RS256' ? jwk.kty === 'RSA' : jwk.kty === 'EC' && jwk.crv === 'P-256';
}

function isSignedBy(jwk: JsonWebKey, alg: 'RS256' | 'ES256', signed: Buffer, signature: Buffer): boolean {
  const key = publicKey(jwk);
  if (key === null) return false;
  if (alg === 'ES256') return verify('sha256', signed, { key, dsaEncoding: 'ieee-p1363' }, signature);
  return (key.asymmetricKeyDetails?.modulusLength ?? 0) >= RSA_BITS_MIN && verify('sha256', signed, key, signature);
}

function publicKey(jwk: JsonWebKey): KeyObject | null {
  try {
    return createPublicKey({ key: jwk, format: 'jwk' });
  } catch {
    return null;
  }
}

function checked(claims: Readonly<Record<string, unknown>>, expected: Expectations): Claims {
  const { iss, aud, azp, exp, iat, nbf, nonce, sub } = claims;
  const seconds = expected.now / 1000;
  const audiences = Array.isArray(aud) ? aud : [aud];
  if (iss !== expected.issuer) throw new BadToken('another issuer made it');
  if (!audiences.includes(expected.audience)) throw new BadToken('it is for someone else');
  if (azp !== undefined ? azp !== expected.clientId : audiences.length > 1) {
    throw new BadToken('another client asked for it');
  }
  if (typeof exp !== 'number' || exp <= seconds - SKEW_SECONDS) throw new BadToken('it has expired');
  if (typeof iat !== 'number' || iat > seconds + SKEW_SECONDS) throw new BadToken('it comes from the future');
  if (nbf !== undefined && (typeof nbf !== 'number' || nbf > seconds + SKEW_SECONDS)) {
    throw new BadToken('it is not valid yet');
  }
  if (expected.nonce !== null && nonce !== expected.nonce) throw new BadToken('it belongs to another login');
  if (typeof sub !== 'string' || sub === '' || sub.length > SUBJECT_MAX) throw new BadToken('it names nobody');
  return { ...claims, sub };
}

function jsonOf(part: string): Readonly<Record<string, unknown>> {
  try {
    return fieldsOf(JSON.parse(Buffer.from(part, 'base64url').toString('utf8')));
  } catch {
    throw new BadToken('it is not a signed token');
  }
}
