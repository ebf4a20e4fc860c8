/** Instants and durations as people read them. Pure: the present is an argument. */

const UNITS: readonly (readonly [number, string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1_000, 's'],
];

/** `850 ms`, `1.3 s`, `2 m 5 s`, `3 h 12 m`, `2 d 4 h`. */
export function durationText(ms: number | null): string {
  if (ms === null || !Number.isFinite(ms)) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 9_950 ? 1 : 0)} s`;
  const at = UNITS.findIndex(([size]) => ms >= size);
  const [size, unit] = UNITS[at] ?? [1000, 's'];
  const [smaller, smallerUnit] = UNITS[at + 1] ?? [1000, 's'];
  const rest = Math.floor((ms % size) / smaller);
  return `${Math.floor(ms / size)} ${unit}${rest === 0 ? '' : ` ${rest} ${smallerUnit}`}`;
}

/** `just now`, `12 s ago`, `in 3 m`, `4 d ago`. */
export function relativeText(at: string, nowMs: number): string {
  const ms = nowMs - Date.parse(at);
  if (Number.isNaN(ms)) return '–';
  const distance = Math.abs(ms);
  if (distance < 2_000) return 'just now';
  const [size, unit] = UNITS.find(([each]) => distance >= each) ?? [1000, 's'];
  const amount = `${Math.floor(distance / size)} ${unit}`;
  return ms >= 0 ? `${amount} ago` : `in ${amount}`;
}

/** `2026-11-20 10:15:02.113 UTC`. */
export function utcText(at: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return '–';
  return `${date.toISOString().slice(0, 23).replace('T', ' ')} UTC`;
}

/** The same in the time zone of the reader. */
export function localText(at: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return '–';
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
