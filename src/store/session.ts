/**
 * What every session with the database has in common: time limits, so that nothing waits or holds a lock for ever,
 * and how values are read: ids are numbers (all are below 2^53), instants are ISO 8601 UTC with milliseconds.
 */
import pg from 'pg';

const SETTINGS = {
  idle_in_transaction_session_timeout: '10s',
  statement_timeout: '30s',
  lock_timeout: '5s',
  synchronous_commit: 'on',
  TimeZone: 'UTC',
  DateStyle: 'ISO',
  tcp_keepalives_idle: '30',
  tcp_keepalives_interval: '10',
  tcp_keepalives_count: '3',
};

/** Plans of the hot path are pinned: planned on an empty table they would be kept as sequential scans and hash joins. */
export const PINNED_PLANS = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  plan_cache_mode: 'force_generic_plan',
};

/** `part` names the use in `pg_stat_activity`. */
export function sessionConfig(
  url: string,
  part: string,
  settings: Readonly<Record<string, string>> = {},
): pg.ClientConfig {
  const options = Object.entries({ ...SETTINGS, ...settings }).map(([name, value]) => `-c ${name}=${value}`);
  return {
    connectionString: url,
    application_name: `callboard:${part}`,
    options: options.join(' '),
    keepAlive: true,
    types: { getTypeParser: parserOf },
  };
}

const parsers: ReadonlyMap<number, (text: string) => unknown> = new Map<number, (text: string) => unknown>([
  [20, Number],
  [1016, idsOf],
  [1184, instantOf],
]);

function parserOf(oid: number, format?: 'text' | 'binary'): (value: string) => unknown {
  return (
    (format !== 'binary' && parsers.get(oid)) || pg.types.getTypeParser(oid, format === 'binary' ? 'binary' : 'text')
  );
}

/** `2026-11-20 10:15:02.113456+00` → `2026-11-20T10:15:02.113Z`. What has no such form (infinity) is left alone. */
export function instantOf(text: string): string {
  if (text.charCodeAt(10) !== 32 || !text.endsWith('+00')) return text;
  const fraction = text.slice(20, -3);
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${fraction.slice(0, 3).padEnd(3, '0')}Z`;
}

/** `{1,2}` → `[1, 2]`. */
function idsOf(text: string): number[] {
  return text === '{}' ? [] : text.slice(1, -1).split(',').map(Number);
}
