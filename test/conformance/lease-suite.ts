/** What a table of leases must do, whoever keeps it. `wait` lets time pass by the clock the table goes by. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LeaseStore } from '../../actors/lease.ts';

export interface LeaseTable {
  readonly store: LeaseStore;
  wait(ms: number): Promise<void>;
  close(): Promise<void>;
}

const SECONDS = 0.3;
const CARD = { uri: null, version: '1', pid: 1, hostname: 'here' };

export function describeLeases(name: string, open: () => Promise<LeaseTable>): void {
  describe(name, () => {
    let table: LeaseTable;
    beforeAll(async () => {
      table = await open();
    });
    afterAll(() => table.close());

    test('a free lease goes to who asks, with the first token', async () => {
      const row = await table.store.take('one', 'a', 60);
      expect(row).toMatchObject({ name: 'one', holder: 'a', token: 1 });
      expect(Date.parse(row.expiresAt) - Date.parse(row.renewedAt)).toBe(60_000);
    });

    test('a held lease stays with its holder, and the asker learns who that is', async () => {
      await table.store.take('held', 'a', 60);
      expect(await table.store.take('held', 'b', 60)).toMatchObject({ holder: 'a', token: 1 });
    });

    test('a lease that has ended goes to the next with a larger token', async () => {
      await table.store.take('ended', 'a', SECONDS);
      await table.wait(SECONDS * 1000 + 50);
      expect(await table.store.take('ended', 'b', 60)).toMatchObject({ holder: 'b', token: 2 });
    });

    test('taking it again raises the token, so that older writes of the same holder fail', async () => {
      await table.store.take('again', 'a', 60);
      expect(await table.store.take('again', 'a', 60)).toMatchObject({ holder: 'a', token: 2 });
    });

    test('renewing prolongs what stands and only that', async () => {
      const kept = await table.store.take('kept', 'c', 60);
      const gone = await table.store.take('gone', 'c', SECONDS);
      await table.wait(SECONDS * 1000 + 50);
      expect(await table.store.renew('c', [kept, gone], 60)).toEqual(['kept']);
      expect(await table.store.renew('c', [{ ...kept, token: kept.token - 1 }], 60)).toEqual([]);
      expect(await table.store.renew('d', [kept], 60)).toEqual([]);
    });

    test('giving it back frees it at once, but not with an old token', async () => {
      const row = await table.store.take('back', 'a', 60);
      await table.store.release({ ...row, token: row.token - 1 });
      expect((await table.store.take('back', 'b', 60)).holder).toBe('a');
      await table.store.release(row);
      expect(await table.store.take('back', 'b', 60)).toMatchObject({ holder: 'b', token: 2 });
    });

    test('many askers at once: one gets it', async () => {
      const rows = await Promise.all(['p', 'q', 'r', 's', 't'].map((who) => table.store.take('race', who, 60)));
      expect(new Set(rows.map((row) => row.holder)).size).toBe(1);
      expect(rows.every((row) => row.token === 1)).toBe(true);
    });

    test('a server is there from its start to its end, or until it is silent for too long', async () => {
      await table.store.enrol('srv-a', CARD, 60);
      await table.store.enrol('srv-b', CARD, 60);
      await table.store.enrol('srv-c', CARD, 1);
      expect((await table.store.others('srv-a')).map((each) => each.name).sort()).toEqual(['srv-b', 'srv-c']);
      await table.store.leave('srv-b');
      await table.wait(1_100);
      expect(await table.store.others('srv-a')).toEqual([]);
      // A server that slept speaks again.
      await table.store.renew('srv-c', [], 1);
      const [back] = await table.store.others('srv-a');
      expect(back?.name).toBe('srv-c');
      expect((back?.goneAt ?? 0) - (back?.heartbeatAt ?? 0)).toBeCloseTo(1000, -1);
    });
  });
}
