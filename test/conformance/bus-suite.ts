/**
 * What every bus must do: deliver to everybody, survive bad listeners and an exchange that goes away, and fall silent when
 * closed.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Bus, BusTopic } from '../../actors/ports.ts';
import type { JsonMap } from '../../machines/json.ts';
import { untilState } from '../support/bus.ts';

export interface BusHarness {
  /** A bus on the exchange that all buses of the harness share, ready to hear. */
  connect(): Promise<Bus>;
  /** Does the work while nobody can reach the exchange, and resolves once it is there again. */
  away(work: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

export interface Heard {
  readonly topic: BusTopic;
  readonly hints: readonly JsonMap[];
}

/** Collects what a bus hears; `until` resolves once a message of the topic satisfies the test. */
export function listen(bus: Bus): {
  readonly heard: readonly Heard[];
  until(topic: BusTopic, test?: (hints: readonly JsonMap[]) => boolean): Promise<readonly JsonMap[]>;
  leave(): void;
} {
  const heard: Heard[] = [];
  const waiting = new Set<() => void>();
  const leave = bus.subscribe((topic, hints) => {
    heard.push({ topic, hints });
    for (const look of [...waiting]) look();
  });
  return {
    heard,
    leave,
    until: (topic, test = () => true) =>
      new Promise((resolve) => {
        const look = () => {
          const found = heard.find((one) => one.topic === topic && test(one.hints));
          if (found === undefined) return;
          waiting.delete(look);
          resolve(found.hints);
        };
        waiting.add(look);
        look();
      }),
  };
}

/** `isSkipped`: what the bus stands on is not on this machine. */
export function describeBus(name: string, open: () => Promise<BusHarness>, isSkipped = false): void {
  describe.skipIf(isSkipped)(name, () => {
    let harness: BusHarness;
    beforeAll(async () => {
      harness = await open();
    });
    afterAll(() => harness.close());

    test('delivers hints to every listener of every process, its own included', async () => {
      const [one, other] = [await harness.connect(), await harness.connect()];
      const ears = [listen(one), listen(one), listen(other)];
      const hint = { execution_id: 41007, step: 'ünï', trace: null };
      one.publish('commands.shared', [hint]);
      const heard = await Promise.all(ears.map((ear) => ear.until('commands.shared')));
      // An announcement of a command may say more than was given: where to send calls, and when it was made.
      expect(heard).toEqual(ears.map(() => [expect.objectContaining(hint)]));
      await Promise.all([one.close(), other.close()]);
    });

    test('keeps the order of one topic', async () => {
      const bus = await harness.connect();
      const ear = listen(bus);
      for (let n = 0; n < 20; n += 1) bus.publish('executions', [{ n }]);
      await ear.until('executions', (hints) => hints.some((hint) => hint['n'] === 19));
      const order = ear.heard.flatMap((one) => one.hints.map((hint) => hint['n']));
      expect(order).toEqual(Array.from({ length: 20 }, (_, n) => n));
      await bus.close();
    });

    test('tells of many commands at once one by one, or how many there are', async () => {
      const bus = await harness.connect();
      const ear = listen(bus);
      for (let n = 1; n <= 60; n += 1) bus.publish('commands.a.b', [{ execution_id: 1, command_id: n }]);
      const told = () =>
        ear.heard.flatMap((one) => one.hints).reduce((sum, hint) => sum + (Number(hint['count']) || 1), 0);
      await ear.until('commands.a.b', () => told() >= 60);
      expect(told()).toBe(60);
      await bus.close();
    });

    test('loses what is said while the exchange is away, never throws, and hears again after it', async () => {
      const [one, other] = [await harness.connect(), await harness.connect()];
      const ear = listen(other);
      await harness.away(async () => {
        for (let n = 0; n < 3; n += 1) one.publish('executions', [{ lost: n }]);
        one.publish('commands.shared', [{ command_id: 7 }]);
        await new Promise((resolve) => setTimeout(resolve, 50));
      });
      await Promise.all([untilState(one, 'ok'), untilState(other, 'ok')]);
      one.publish('executions', [{ after: true }]);
      expect(await ear.until('executions')).toEqual([{ after: true }]);
      await Promise.all([one.close(), other.close()]);
    });

    test('goes on when a listener throws, and stops telling one that left', async () => {
      const bus = await harness.connect();
      bus.subscribe(() => {
        throw new Error('bad listener');
      });
      const [leaving, staying] = [listen(bus), listen(bus)];
      leaving.leave();
      bus.publish('control', [{ sweep: true }]);
      await staying.until('control');
      expect(leaving.heard).toEqual([]);
      await bus.close();
    });

    test('is silent after its end, which may come twice', async () => {
      const [bus, other] = [await harness.connect(), await harness.connect()];
      const [closed, open] = [listen(bus), listen(other)];
      await bus.close();
      await bus.close();
      expect(bus.state()).toBe('down');
      bus.publish('workers', [{ from: 'closed' }]);
      other.publish('workers', [{ from: 'open' }]);
      await open.until('workers', (hints) => hints.some((hint) => hint['from'] === 'open'));
      expect(closed.heard).toEqual([]);
      expect(open.heard.flatMap((one) => one.hints)).toEqual([{ from: 'open' }]);
      await other.close();
    });
  });
}
