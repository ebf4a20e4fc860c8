/** JSON text with sorted keys, so that equal values have equal texts and hashes. */
import type { Json } from './json.ts';

export function canonicalJson(value: Json): string {
  return JSON.stringify(value, (_key, member: unknown) =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}
