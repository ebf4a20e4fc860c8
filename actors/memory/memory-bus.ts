/**
 * A bus inside one process: every bus of one exchange hears every other, and itself. Delivery is immediate and in
 * order unless `carry` says otherwise; the simulator delays, drops and repeats there.
 */
import type { JsonMap } from '../../machines/json.ts';
import type { Bus, BusTopic } from '../ports.ts';

export interface MemoryExchange {
  connect(): Bus;
}

/** Calls `deliver` when the hints shall arrive: at once, later, twice or never. */
export type Carry = (deliver: () => void, topic: BusTopic, hints: readonly JsonMap[]) => void;

type Listener = (topic: BusTopic, hints: readonly JsonMap[]) => void;

export function createMemoryExchange(carry: Carry = (deliver) => queueMicrotask(deliver)): MemoryExchange {
  const listeners = new Set<Listener>();
  return {
    connect() {
      const own = new Set<Listener>();
      let open = true;
      return {
        publish(topic, hints) {
          if (!open || hints.length === 0) return;
          // What arrives is a copy, as over a wire. Hints are JSON.
          const copy = JSON.parse(JSON.stringify(hints)) as readonly JsonMap[];
          carry(
            () => {
              for (const listener of [...listeners]) {
                try {
                  listener(topic, copy);
                } catch {
                  // A listener that fails must not keep others from hearing; hints carry no promise.
                }
              }
            },
            topic,
            copy,
          );
        },
        subscribe(listener) {
          // A function of its own, so that the same listener can subscribe twice and leave once.
          const entry: Listener = (topic, hints) => listener(topic, hints);
          listeners.add(entry);
          own.add(entry);
          return () => {
            listeners.delete(entry);
            own.delete(entry);
          };
        },
        state: () => (open ? 'ok' : 'down'),
        async close() {
          open = false;
          for (const entry of own) listeners.delete(entry);
          own.clear();
        },
      };
    },
  };
}
