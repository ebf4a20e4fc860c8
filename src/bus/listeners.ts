/** Who listens on a bus of this process. A listener that throws is reported and does not keep others from hearing. */
import type { BusTopic, Log } from '../../actors/ports.ts';
import type { JsonMap } from '../../machines/json.ts';

export type BusListener = (topic: BusTopic, hints: readonly JsonMap[]) => void;

export interface Listeners {
  add(listener: BusListener): () => void;
  deliver(topic: BusTopic, hints: readonly JsonMap[]): void;
  clear(): void;
}

export function createListeners(log: Log): Listeners {
  const entries = new Set<{ readonly hear: BusListener }>();
  return {
    add(listener) {
      const entry = { hear: listener };
      entries.add(entry);
      return () => entries.delete(entry);
    },
    deliver(topic, hints) {
      for (const { hear } of [...entries]) {
        try {
          hear(topic, hints);
        } catch (error) {
          log.error('A listener of the bus failed', { topic, error });
        }
      }
    },
    clear: () => entries.clear(),
  };
}
