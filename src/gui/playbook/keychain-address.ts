/** Where a keychain entry of a list lives. Pure. */
import type { KeychainItem } from '../core/wire.ts';

export function addressOf(catalogId: number, item: KeychainItem): string {
  return `/api/keychain/${catalogId}/${encodeURIComponent(item.keychain_name)}`;
}

/** A cache key ends in `global`, or in the execution it belongs to. */
export function scopeOf(item: KeychainItem): Record<string, string | null> {
  const last = item.cache_key.split(':').at(-1) ?? '';
  return { scope_type: item.scope_type, execution_id: /^\d+$/.test(last) ? last : null };
}
