/** `meta.hosts` of a credential: the hosts its owner lets it be sent to (api 8.4). */
import type { JsonMap } from '../json.ts';

/** Null: any host. What cannot be read must not mean any. */
export function hostsIn(meta: JsonMap | null | undefined): readonly string[] | null | 'unreadable' {
  const hosts = meta?.['hosts'] ?? null;
  if (hosts === null) return null;
  if (typeof hosts === 'string') return [hosts];
  if (!Array.isArray(hosts)) return 'unreadable';
  const names = hosts.filter((host) => typeof host === 'string');
  return names.length === hosts.length ? names : 'unreadable';
}

/** The sentence for hosts that cannot be read. */
export function unreadableHosts(name: string): string {
  return `'meta.hosts' of credential '${name}' must be a list of host names`;
}
