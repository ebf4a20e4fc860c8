/**
 * Time on a line with the idle stretches folded: work that took seconds stays visible beside a wait of hours. Given the
 * stretches in which something happened, every gap longer than a tenth of all work (and a second) becomes a short mark.
 */

export interface Stretch {
  /** Milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
}

export interface Fold {
  /** Share of the line, 0 to 1. */
  readonly at: number;
  readonly width: number;
  readonly ms: number;
}

export interface TimeScale {
  /** Where an instant lies, 0 to 1. */
  place(ms: number): number;
  readonly folds: readonly Fold[];
}

const FOLD_SHARE = 0.06;
const IDLE_SHARE = 0.1;
const IDLE_MS_MIN = 1000;
const BISECTIONS = 50;

/** The instant that lies at a share of the line: `place` backwards, to a fraction of a millisecond. */
export function instantAt(scale: TimeScale, whole: Stretch, share: number): number {
  let { from, to } = whole;
  for (let round = 0; round < BISECTIONS; round++) {
    const middle = (from + to) / 2;
    if (scale.place(middle) < share) from = middle;
    else to = middle;
  }
  return (from + to) / 2;
}

/** The parts of stretches that lie in a window. */
export function within(window: Stretch, stretches: readonly Stretch[]): readonly Stretch[] {
  return stretches
    .filter((each) => each.to >= window.from && each.from <= window.to)
    .map((each) => ({ from: Math.max(window.from, each.from), to: Math.min(window.to, each.to) }));
}

export function timeScale(whole: Stretch, busy: readonly Stretch[], folding: boolean): TimeScale {
  const all = Math.max(1, whole.to - whole.from);
  if (!folding) return { place: (ms) => clamp((ms - whole.from) / all), folds: [] };
  const merged = merge(busy);
  const work = Math.max(
    1,
    merged.reduce((sum, each) => sum + each.to - each.from, 0),
  );
  const idleMin = Math.max(IDLE_MS_MIN, work * IDLE_SHARE);
  const gaps: Stretch[] = [];
  let at = whole.from;
  for (const each of [...merged, { from: whole.to, to: whole.to }]) {
    if (each.from - at > idleMin) gaps.push({ from: at, to: each.from });
    at = Math.max(at, each.to);
  }
  if (gaps.length === 0) return timeScale(whole, busy, false);

  const foldShare = Math.min(FOLD_SHARE, 0.4 / gaps.length);
  const kept = Math.max(1, all - gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0));
  const perMs = (1 - foldShare * gaps.length) / kept;
  const place = (ms: number): number => {
    let share = 0;
    let from = whole.from;
    for (const gap of gaps) {
      if (ms <= gap.from) break;
      share += (gap.from - from) * perMs;
      if (ms < gap.to) return clamp(share + foldShare * ((ms - gap.from) / (gap.to - gap.from)));
      share += foldShare;
      from = gap.to;
    }
    return clamp(share + Math.max(0, ms - from) * perMs);
  };
  return {
    place,
    folds: gaps.map((gap) => ({ at: place(gap.from), width: foldShare, ms: gap.to - gap.from })),
  };
}

function merge(stretches: readonly Stretch[]): Stretch[] {
  const merged: { from: number; to: number }[] = [];
  for (const each of [...stretches].sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last !== undefined && each.from <= last.to) last.to = Math.max(last.to, each.to);
    else merged.push({ ...each });
  }
  return merged;
}

function clamp(share: number): number {
  return Math.min(1, Math.max(0, share));
}
