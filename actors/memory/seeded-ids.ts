/** Ids without a database: counted up from a start, so that a seed gives the same ids each time. */
import type { Ids } from '../ports.ts';

export function createSeededIds(first = 1_001): Ids {
  let next = first;
  return {
    next() {
      const id = next;
      next += 1;
      return id;
    },
    async reserve() {},
  };
}
