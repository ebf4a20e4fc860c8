/** The trail over the store in memory, for tests and the simulator. */
import type { LogEvent } from '../../machines/events.ts';
import { foldOrder } from '../../machines/replay.ts';
import type { Trail } from '../trail.ts';
import type { MemoryStore } from './memory-store.ts';

export function createMemoryTrail(store: MemoryStore): Trail {
  return {
    async head(executionId) {
      const stored = (await store.load([executionId])).get(executionId);
      return stored === undefined ? null : { row: stored.row, snapshot: stored.snapshot };
    },
    async locate(executionId, eventId) {
      const event = store.log(executionId).find((each) => each.eventId === eventId);
      return event === undefined ? null : { causeId: event.causeId, eventId };
    },
    async rows(executionId, after, handledThrough, limit) {
      return foldOrder(store.log(executionId))
        .filter((event) => isAfter(event, after) && event.causeId <= handledThrough)
        .slice(0, limit);
    },
  };
}

function isAfter(event: LogEvent, place: { readonly causeId: number; readonly eventId: number }): boolean {
  return event.causeId > place.causeId || (event.causeId === place.causeId && event.eventId > place.eventId);
}
