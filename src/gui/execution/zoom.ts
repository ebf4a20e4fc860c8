/** Which stretch of a whole is shown after a step of zooming or moving. Pure. */
import type { Stretch } from './time-scale.ts';

const ZOOM = 2;
const MOVE_SHARE = 0.25;
/** Closer than this there is nothing to see: events are stamped to the millisecond. */
export const SHORTEST_MS = 5;

/** Nearer or farther around the middle, never past the ends. */
export function zoomed(whole: Stretch, shown: Stretch, factor: number): Stretch {
  const all = whole.to - whole.from;
  const length = Math.min(all, Math.max(Math.min(SHORTEST_MS, all), (shown.to - shown.from) / factor));
  return placed(whole, (shown.from + shown.to - length) / 2, length);
}

/** To the side by a share of what is shown. */
export function moved(whole: Stretch, shown: Stretch, share: number): Stretch {
  const length = shown.to - shown.from;
  return placed(whole, shown.from + length * share, length);
}

function placed(whole: Stretch, from: number, length: number): Stretch {
  const start = Math.min(Math.max(whole.from, from), whole.to - length);
  return { from: start, to: start + length };
}

export function stretchForKey(key: string, whole: Stretch, shown: Stretch): Stretch | null {
  switch (key) {
    case '+':
    case '=':
      return zoomed(whole, shown, ZOOM);
    case '-':
      return zoomed(whole, shown, 1 / ZOOM);
    case 'ArrowLeft':
      return moved(whole, shown, -MOVE_SHARE);
    case 'ArrowRight':
      return moved(whole, shown, MOVE_SHARE);
    case '0':
      return whole;
    default:
      return null;
  }
}
