/**
 * The sealed text `cb1.<kid>.<wrapped>.<sealed>` of api 8.1: a value under a data key of its own, that data key under
 * the key `kid`. Both layers authenticate the row the value belongs to and the key id, so a change of key seals anew.
 * A text must have its one canonical spelling, because a decoder that forgives stray bits accepts texts nobody wrote.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Binding } from '../../actors/vault.ts';

const FORMAT = 'cb1';
const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
export const KID = /^[A-Za-z0-9_-]{1,32}$/;

export interface Envelope {
  readonly kid: string;
  /** nonce ‖ ciphertext ‖ tag of the data key. */
  readonly wrapped: Buffer;
  /** nonce ‖ ciphertext ‖ tag of the text. */
  readonly sealed: Buffer;
}

/** Seals a text with a fresh data key and fresh nonces. */
export function sealText(kid: string, key: Uint8Array, binding: Binding, text: string): string {
  const aad = authenticated(kid, binding);
  const dataKey = randomBytes(KEY_BYTES);
  const wrapped = encrypt(key, aad, dataKey);
  const sealed = encrypt(dataKey, aad, Buffer.from(text, 'utf8'));
  dataKey.fill(0);
  return `${FORMAT}.${kid}.${wrapped.toString('base64url')}.${sealed.toString('base64url')}`;
}

/** Null when the key, the row or any bit is not the one the text was sealed with. */
export function openText(key: Uint8Array, binding: Binding, envelope: Envelope): string | null {
  const aad = authenticated(envelope.kid, binding);
  const dataKey = decrypt(key, aad, envelope.wrapped);
  if (dataKey === null || dataKey.length !== KEY_BYTES) return null;
  const text = decrypt(dataKey, aad, envelope.sealed)?.toString('utf8') ?? null;
  dataKey.fill(0);
  return text;
}

/** Null for anything that is not spelled as `sealText` spells it. */
export function readEnvelope(text: string): Envelope | null {
  const [format, kid = '', wrapped = '', sealed = '', ...more] = text.split('.');
  if (format !== FORMAT || !KID.test(kid) || more.length > 0) return null;
  const wrappedBytes = canonicalBytes(wrapped);
  const sealedBytes = canonicalBytes(sealed);
  if (wrappedBytes === null || sealedBytes === null) return null;
  return { kid, wrapped: wrappedBytes, sealed: sealedBytes };
}

function canonicalBytes(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : null;
}

/** Each string with its length in front, so that no two rows share one byte sequence. */
function authenticated(kid: string, binding: Binding): Buffer {
  const strings = [FORMAT, binding.table, binding.row, binding.name, binding.scope, kid];
  return Buffer.concat(
    strings.flatMap((each) => {
      const bytes = Buffer.from(each, 'utf8');
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
}

function encrypt(key: Uint8Array, aad: Buffer, plain: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(aad);
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: Uint8Array, aad: Buffer, box: Buffer): Buffer | null {
  if (box.length < NONCE_BYTES + TAG_BYTES) return null;
  const nonce = box.subarray(0, NONCE_BYTES);
  const tag = box.subarray(-TAG_BYTES);
  // Without the explicit length Node accepts a tag cut down to four bytes.
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(aad).setAuthTag(tag);
  const plain = decipher.update(box.subarray(NONCE_BYTES, -TAG_BYTES));
  try {
    return Buffer.concat([plain, decipher.final()]);
  } catch {
    // `final` throws for one reason only: the tag does not fit.
    return null;
  }
}
