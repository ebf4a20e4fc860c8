/** A clock that moves only when told; time in tests and in the simulator. */
import type { Clock } from '../ports.ts';

export interface StepClock extends Clock {
  /** Moves by milliseconds (never back) and answers the new time. */
  advance(ms: number): number;
}

/** `start` in milliseconds since the epoch. */
export function createStepClock(start = Date.UTC(2026, 10, 20, 10, 15)): StepClock {
  let now = start;
  return {
    now: () => now,
    advance(ms) {
      if (ms < 0) throw new RangeError('time does not run backwards');
      now += ms;
      return now;
    },
  };
}
