/** Options for a bus under test, and what it counted. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Bus } from '../../actors/ports.ts';
import type { NatsBusOptions } from '../../src/bus/nats-bus.ts';
import type { PostgresBusOptions } from '../../src/bus/postgres-bus.ts';
import { quiet } from './postgres.ts';

export function busOptions(
  url: string,
  more: Partial<PostgresBusOptions> = {},
): { options: PostgresBusOptions; counted: Map<string, number> } {
  const { shared, counted } = sharedOptions();
  return { options: { url, listenUrl: url, ...shared, ...more }, counted };
}

/** Comes back quickly; `server` is `host:port`. */
export function natsBusOptions(
  server: string,
  more: Partial<NatsBusOptions> = {},
): { options: NatsBusOptions; counted: Map<string, number> } {
  const { shared, counted } = sharedOptions();
  const servers = { urls: [`nats://${server}`], user: null, password: null, token: null };
  return { options: { servers, stream: 'SVC_COMMANDS', retryMs: [20, 200], ...shared, ...more }, counted };
}

function sharedOptions() {
  const counted = new Map<string, number>();
  const meter = {
    count(name: string, labels: Readonly<Record<string, string>> = {}, by = 1) {
      const key = [name, ...Object.values(labels)].join(' ');
      counted.set(key, (counted.get(key) ?? 0) + by);
    },
    observe() {},
    gauge() {},
  };
  return { shared: { serverUrl: () => 'http://callboard:8082', coalesceMs: 5, log: quiet, meter }, counted };
}

/** A state has no signal of its own; it is looked at until it is reached or the test's time is over. */
export async function untilState(bus: Bus, state: ReturnType<Bus['state']>): Promise<void> {
  while (bus.state() !== state) await delay(5);
}
