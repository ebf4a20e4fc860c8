/** Options for a PostgreSQL bus under test, and what it counted. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Bus } from '../../actors/ports.ts';
import type { PostgresBusOptions } from '../../src/bus/postgres-bus.ts';
import { quiet } from './postgres.ts';

export function busOptions(
  url: string,
  more: Partial<PostgresBusOptions> = {},
): { options: PostgresBusOptions; counted: Map<string, number> } {
  const counted = new Map<string, number>();
  const meter = {
    count(name: string, labels: Readonly<Record<string, string>> = {}, by = 1) {
      const key = [name, ...Object.values(labels)].join(' ');
      counted.set(key, (counted.get(key) ?? 0) + by);
    },
    observe() {},
    gauge() {},
  };
  return { options: { url, listenUrl: url, coalesceMs: 5, log: quiet, meter, ...more }, counted };
}

/** A state has no signal of its own; it is looked at until it is reached or the test's time is over. */
export async function untilState(bus: Bus, state: ReturnType<Bus['state']>): Promise<void> {
  while (bus.state() !== state) await delay(5);
}
