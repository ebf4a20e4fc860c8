/**
 * When a schedule is due (api 2.17). Cron is about the clock on the wall: a time that the wall skips happens at the end of the
 * gap, and one that it shows twice happens once, the first time. How far the wall is ahead of UTC is told by the host.
 */
import { dateOf } from '../command/instant.ts';
import type { Cron } from './cron.ts';

/** Milliseconds that the wall is ahead of UTC at an instant. */
export type Offset = (instant: number) => number;

export type Rhythm =
  | { readonly kind: 'cron'; readonly cron: Cron; readonly offset: Offset }
  /** Every so many milliseconds, counted from an instant that was planned. */
  | { readonly kind: 'interval'; readonly everyMs: number; readonly anchor: number }
  | { readonly kind: 'once'; readonly at: number };

const DAY_MS = 86_400_000;
/** From one 29 February to the next it may be eight years, and to one on a given weekday forty. */
const DAYS_AHEAD_MAX = 41 * 366;

/** The first planned instant after this one; null when there is none. */
export function nextAfter(rhythm: Rhythm, instant: number): number | null {
  switch (rhythm.kind) {
    case 'once':
      return rhythm.at > instant ? rhythm.at : null;
    case 'interval': {
      const { everyMs, anchor } = rhythm;
      return anchor > instant ? anchor : anchor + (Math.floor((instant - anchor) / everyMs) + 1) * everyMs;
    }
    case 'cron':
      return nextOfCron(rhythm.cron, rhythm.offset, instant);
  }
}

/** The planned instants that come next. */
export function upcoming(rhythm: Rhythm, instant: number, count: number): readonly number[] {
  const found: number[] = [];
  for (let at = nextAfter(rhythm, instant); at !== null && found.length < count; at = nextAfter(rhythm, at))
    found.push(at);
  return found;
}

/** The newest planned instants up to `until`, oldest first, none before `from`. */
export function newestUpTo(rhythm: Rhythm, from: number, until: number, count: number): readonly number[] {
  // Looked for in ever longer windows: a schedule of every second that slept for a month is not walked through.
  for (let windowMs = count * 1000; ; windowMs *= 4) {
    const start = Math.max(from, until - windowMs);
    const found: number[] = [];
    for (let at = nextAfter(rhythm, start - 1); at !== null && at <= until; at = nextAfter(rhythm, at)) {
      found.push(at);
      if (found.length > count) found.shift();
    }
    if (found.length === count || start === from) return found;
  }
}

function nextOfCron(cron: Cron, offset: Offset, instant: number): number | null {
  let wall = Math.floor((instant + offset(instant)) / 1000) * 1000;
  // Wall times that the clock shows again lie behind us, as do those that share the end of a gap.
  for (;;) {
    const next = nextWall(cron, wall);
    if (next === null) return null;
    const at = instantOfWall(next, offset);
    if (at > instant) return at;
    wall = next;
  }
}

/** The first wall time after this one that fits, in milliseconds as if the wall were UTC. */
function nextWall(cron: Cron, wall: number): number | null {
  const today = Math.floor(wall / DAY_MS);
  for (let day = today; day < today + DAYS_AHEAD_MAX; day += 1) {
    if (!fitsDay(cron, day)) continue;
    const time = nextTime(cron, day === today ? wall - day * DAY_MS : -1);
    if (time !== null) return day * DAY_MS + time;
  }
  return null;
}

/** The first time of day after this one that fits. */
function nextTime({ hours, minutes, seconds }: Cron, after: number): number | null {
  for (const hour of hours) {
    if ((hour + 1) * 3_600_000 <= after) continue;
    for (const minute of minutes) {
      const start = hour * 3_600_000 + minute * 60_000;
      if (start + 60_000 <= after) continue;
      for (const second of seconds) if (start + second * 1000 > after) return start + second * 1000;
    }
  }
  return null;
}

function fitsDay({ days, months, weekdays, eitherDay }: Cron, day: number): boolean {
  const { month, day: dayOfMonth } = dateOf(day);
  if (!months.has(month)) return false;
  const byMonth = days.has(dayOfMonth);
  // 1 January 1970 was a Thursday.
  const byWeek = weekdays.has((((day + 4) % 7) + 7) % 7);
  return eitherDay ? byMonth || byWeek : byMonth && byWeek;
}

/** When the wall shows this time: the first of two moments, or the end of the gap that swallows it. */
function instantOfWall(wall: number, offset: Offset): number {
  const before = offset(wall - DAY_MS);
  const after = offset(wall + DAY_MS);
  const moments = [wall - before, wall - after].filter((at) => at + offset(at) === wall);
  if (moments.length > 0) return Math.min(...moments);
  return endOfGap(wall - Math.max(before, after), wall - Math.min(before, after), offset);
}

/** The first moment in (low, high] at which the wall is no longer where it was at `low`. */
function endOfGap(low: number, high: number, offset: Offset): number {
  const old = offset(low);
  let [from, to] = [low, high];
  while (to - from > 1) {
    const middle = Math.floor((from + to) / 2);
    if (offset(middle) === old) from = middle;
    else to = middle;
  }
  return to;
}
