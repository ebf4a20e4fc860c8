import { expect, test } from 'vitest';
import { readGauges } from '../../src/host/gauges.ts';
import { createMeter } from '../../src/metrics.ts';

test('workers are counted under few names, and one that changed its state is not counted twice', async () => {
  const metrics = createMeter();
  let workers = [
    { status: 'ready', count: 2 },
    { status: 'on strike', count: 1 },
    { status: 'at lunch', count: 1 },
  ];
  const read = readGauges({
    metrics,
    engine: { board: { waiters: 0 } as never, tell: () => {} },
    bus: { state: () => 'ok' },
    log: {},
    counts: {
      commands: async () => [],
      running: async () => 0,
      workers: async () => workers,
      sealed: async () => [],
    },
    pool: () => ({ size: 0, available: 0, waiting: 0 }),
    batchDepth: async () => 0,
  });
  const seen = async () => {
    await read();
    const lines = (await metrics.exposition()).split('\n').filter((line) => line.startsWith('svc_workers{'));
    return Object.fromEntries(lines.map((line) => /"(.*)"\} (\d+)/.exec(line)?.slice(1) ?? []));
  };
  expect(await seen()).toEqual({ ready: '2', draining: '0', offline: '0', other: '2' });
  workers = [{ status: 'ready', count: 4 }];
  expect(await seen()).toEqual({ ready: '4', draining: '0', offline: '0', other: '0' });
});
