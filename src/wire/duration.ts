/** How long something took, for people: `850ms`, `1.1s`, `2m 5s`, `3h 12m`, `2d 4h` (api 3.1). */
export function durationHuman(seconds: number): string {
  const ms = Math.round(seconds * 1000);
  if (ms < 1000) return `${ms}ms`;
  const tenths = Math.round(ms / 100);
  if (tenths < 600) return `${(tenths / 10).toFixed(1)}s`;
  const whole = Math.round(ms / 1000);
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)}h ${minutes % 60}m`;
  const hours = Math.floor(minutes / 60);
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

/** Seconds from `start` to `end`, or to now while it runs; to the millisecond, never negative. */
export function durationSeconds(start: string, end: string | null, nowMs: number): number {
  return Math.max(0, Math.round((end === null ? nowMs : Date.parse(end)) - Date.parse(start))) / 1000;
}
