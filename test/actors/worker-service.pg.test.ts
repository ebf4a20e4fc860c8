import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Registration } from '../../actors/services.ts';
import type { RuntimeStore } from '../../actors/worker-service.ts';
import { createRuntimeStore } from '../../src/store/runtime.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';

let opened: TestDatabase;
let store: RuntimeStore;

beforeAll(async () => {
  opened = await openTestDatabase();
  store = createRuntimeStore(opened.database.reads);
});
afterAll(() => opened.close());

function registration(name: string, change: Partial<Registration> = {}): Registration {
  return {
    name,
    kind: 'worker_pool',
    runtime: { kind: 'node' },
    uri: null,
    status: 'ready',
    capacity: 3,
    pools: ['shared', 'blue'],
    toolKinds: ['noop'],
    labels: { zone: 'a' },
    instance: 'one',
    heartbeatSeconds: 2,
    offlineAfterSeconds: 6,
    pid: 7,
    hostname: 'h1',
    meta: {},
    version: '1',
    ...change,
  };
}

const ageRow = (name: string, seconds: number) =>
  opened.database.reads.run(
    'update core.runtime set heartbeat = heartbeat - make_interval(secs => $2) where name = $1',
    [name, seconds],
  );

describe('the rows of workers', () => {
  it('come back as they were registered', async () => {
    const { row, restarted } = await store.save(registration('saved'), 901);
    expect(restarted).toBe(false);
    expect(row).toMatchObject({ ...registration('saved'), runtimeId: 901, openCommands: 0 });
    expect(await store.find('saved')).toEqual(row);
    expect(await store.find('nobody')).toBeNull();
  });

  it('tell a restart from a renewal', async () => {
    const first = await store.save(registration('twice'), 902);
    const renewed = await store.save(registration('twice', { instance: null }), 903);
    expect(renewed.restarted).toBe(false);
    expect(renewed.row).toMatchObject({ runtimeId: 902, instance: 'one', registeredAt: first.row.registeredAt });
    const restarted = await store.save(registration('twice', { instance: 'two' }), 904);
    expect(restarted.restarted).toBe(true);
    expect(restarted.row.registeredAt > first.row.registeredAt).toBe(true);
  });

  it('are found by runtime, status, kind and pool', async () => {
    await store.save(registration('python-one', { runtime: 'python', pools: ['green'] }), 905);
    await store.setStatus('python-one', null, 'draining');
    const names = async (filter: Parameters<RuntimeStore['list']>[0]) =>
      (await store.list(filter)).map((row) => row.name);
    expect(await names({ runtime: 'python' })).toEqual(['python-one']);
    expect(await names({ runtime: 'node', pool: 'green' })).toEqual([]);
    expect(await names({ status: 'draining', kind: 'worker_pool', pool: 'green' })).toEqual(['python-one']);
  });

  it('move heartbeats forward only, and never revive who is offline', async () => {
    const { row } = await store.save(registration('beating'), 906);
    await store.beat([{ name: 'beating', at: '2000-01-01T00:00:00.000Z' }]);
    expect((await store.find('beating'))?.heartbeatAt).toBe(row.heartbeatAt);
    const later = '2999-01-01T00:00:00.000Z';
    await store.setStatus('beating', null, 'offline');
    await store.beat([{ name: 'beating', at: later }]);
    expect((await store.find('beating'))?.heartbeatAt).toBe(row.heartbeatAt);
    await store.setStatus('beating', null, 'ready');
    await store.beat([{ name: 'beating', at: later }]);
    expect((await store.find('beating'))?.heartbeatAt).toBe(later);
  });

  it('fall offline after their own time of silence, but for those that are heard', async () => {
    await store.save(registration('silent'), 907);
    await store.save(registration('heard'), 908);
    await ageRow('silent', 10);
    await ageRow('heard', 10);
    expect(await store.expire(['heard'])).toEqual(['silent']);
    expect((await store.find('silent'))?.status).toBe('offline');
    expect((await store.find('heard'))?.status).toBe('ready');
    expect(await store.expire(['heard'])).toEqual([]);
  });

  it('without claims are never urgent', async () => {
    expect(await store.nextOverdueAt()).toBeNull();
  });
});
