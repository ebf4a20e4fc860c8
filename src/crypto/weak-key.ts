/**
 * Tells keys that anybody could guess from keys. It cannot prove a key random; it stops the ones people type, copy from
 * examples, or get from a generator that was never called.
 */

const EXAMPLES: readonly string[] = [
  '0123456789abcdefghijklmnopqrstuv',
  'abcdefghijklmnopqrstuvwxyz012345',
  'abcdefghijklmnopqrstuvwxyz123456',
  '01234567890123456789012345678901',
  '12345678901234567890123456789012',
  'this_is_a_32_byte_secret_key_!!!',
  'thisisa32bytesecretkeyforaes256!',
  'changemechangemechangemechangeme',
  'super-secret-encryption-key-32by',
];

/** Why a key must not be used, as the end of the sentence "The key … "; null when nothing speaks against it. */
export function weaknessOf(key: Uint8Array): string | null {
  if (key.length !== 32) return 'does not have 32 bytes';
  if (key.every((byte) => byte === key[0])) return 'repeats one byte';
  if ([2, 4, 8, 16].some((period) => key.every((byte, index) => byte === key[index % period]))) {
    return 'repeats itself';
  }
  const step = (key[1] ?? 0) - (key[0] ?? 0);
  if (key.every((byte, index) => index === 0 || byte === (((key[index - 1] ?? 0) + step) & 255))) {
    return 'is a plain sequence';
  }
  if (EXAMPLES.includes(Buffer.from(key).toString('latin1'))) return 'is a known example';
  return null;
}
