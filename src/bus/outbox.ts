/**
 * Hints of one process wait a few milliseconds and leave as one message per topic. What waits is bounded: a bus that
 * cannot keep up loses hints, never memory.
 */
import type { BusTopic } from '../../actors/ports.ts';
import type { JsonMap } from '../../machines/json.ts';

export interface Outbox {
  add(topic: BusTopic, hints: readonly JsonMap[]): void;
  /** Sends what waits, now. */
  flush(): void;
}

const WAITING_MAX = 5_000;

/** `send` gets everything that waited, by topic; `onDropped` the number of hints there was no room for. */
export function createOutbox(
  coalesceMs: number,
  send: (waiting: ReadonlyMap<BusTopic, readonly JsonMap[]>) => void,
  onDropped: (count: number) => void,
): Outbox {
  let waiting = new Map<BusTopic, JsonMap[]>();
  let timer: NodeJS.Timeout | null = null;

  function flush(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    if (waiting.size === 0) return;
    const leaving = waiting;
    waiting = new Map();
    send(leaving);
  }

  return {
    flush,
    add(topic, hints) {
      if (hints.length === 0) return;
      const list = waiting.get(topic) ?? [];
      waiting.set(topic, list);
      const room = Math.max(0, WAITING_MAX - list.length);
      list.push(...hints.slice(0, room));
      if (hints.length > room) onDropped(hints.length - room);
      timer ??= setTimeout(flush, coalesceMs);
    },
  };
}
