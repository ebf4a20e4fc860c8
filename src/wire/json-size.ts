/** Is a value larger than it may be? Looked at only as far as it takes to know, so that a huge one costs no more. */
import type { Json, JsonMap } from '../../machines/json.ts';

/** Bytes of the compact JSON text in UTF-8; some number above `max` once it is larger than that. */
export function jsonBytes(value: Json | undefined, max: number): number {
  if (typeof value === 'string') return textBytes(value, max);
  if (typeof value !== 'object' || value === null) return String(value).length;
  // Brackets, and a comma less than there are members.
  let bytes = 1;
  if (Array.isArray(value)) {
    for (const member of value) {
      bytes += jsonBytes(member, max - bytes) + 1;
      if (bytes > max) return bytes;
    }
  } else {
    for (const key of Object.keys(value)) {
      bytes += textBytes(key, max - bytes) + 1;
      if (bytes > max) return bytes;
      bytes += jsonBytes((value as JsonMap)[key], max - bytes) + 1;
      if (bytes > max) return bytes;
    }
  }
  return Math.max(bytes, 2);
}

function textBytes(text: string, max: number): number {
  return text.length > max ? text.length + 2 : Buffer.byteLength(JSON.stringify(text));
}
