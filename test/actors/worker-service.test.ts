import { beforeEach, describe, expect, it } from 'vitest';
import { createMemoryExchange, type MemoryExchange } from '../../actors/memory/memory-bus.ts';
import { createStepClock, type StepClock } from '../../actors/memory/step-clock.ts';
import type { Hold, Registration, StopOrder, WorkerRow } from '../../actors/services.ts';
import { type RuntimeStore, Workers } from '../../actors/worker-service.ts';
import { instantOf, isoOf } from '../../machines/command/instant.ts';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const noMeter = { count() {}, observe() {}, gauge() {} };

function registration(change: Partial<Registration> = {}): Registration {
  return {
    name: 'alice',
    kind: 'worker_pool',
    runtime: { kind: 'node' },
    uri: null,
    status: 'ready',
    capacity: 8,
    pools: ['shared'],
    toolKinds: [],
    labels: {},
    instance: 'one',
    heartbeatSeconds: 3,
    offlineAfterSeconds: 6,
    pid: null,
    hostname: null,
    meta: {},
    version: null,
    ...change,
  };
}

/** Rows in a map, with the rules the statements of the real one have. */
function memoryRuntimeStore(clock: StepClock) {
  const rows = new Map<string, WorkerRow>();
  const beats: { name: string; at: string }[][] = [];
  const store: RuntimeStore = {
    async save(given, runtimeId) {
      const now = isoOf(clock.now());
      const before = rows.get(given.name);
      const restarted = before !== undefined && given.instance !== null && before.instance !== given.instance;
      const row: WorkerRow = {
        ...given,
        instance: given.instance ?? before?.instance ?? null,
        runtimeId: before?.runtimeId ?? runtimeId,
        registeredAt: before === undefined || restarted ? now : before.registeredAt,
        heartbeatAt: now,
        openCommands: before?.openCommands ?? 0,
        createdAt: before?.createdAt ?? now,
        updatedAt: now,
      };
      rows.set(row.name, row);
      return { row, restarted };
    },
    find: async (name) => rows.get(name) ?? null,
    list: async () => [...rows.values()],
    async setStatus(name, _kind, status) {
      const row = rows.get(name);
      if (row !== undefined) rows.set(name, { ...row, status });
      return row !== undefined;
    },
    async beat(batch) {
      beats.push([...batch]);
      for (const { name, at } of batch) {
        const row = rows.get(name);
        if (row !== undefined && row.status !== 'offline') rows.set(name, { ...row, heartbeatAt: at });
      }
    },
    async expire(except) {
      const silent = [...rows.values()].filter(
        (row) =>
          row.status !== 'offline' &&
          !except.includes(row.name) &&
          instantOf(row.heartbeatAt) < clock.now() - row.offlineAfterSeconds * 1000,
      );
      for (const row of silent) rows.set(row.name, { ...row, status: 'offline' });
      return silent.map((row) => row.name);
    },
    async nextOverdueAt() {
      const busy = [...rows.values()].filter((row) => row.openCommands > 0 && row.status !== 'offline');
      const moments = busy.map((row) => instantOf(row.heartbeatAt) + row.offlineAfterSeconds * 1000);
      return moments.length === 0 ? null : isoOf(Math.min(...moments));
    },
  };
  return { store, rows, beats };
}

let clock: StepClock;
let exchange: MemoryExchange;
let memory: ReturnType<typeof memoryRuntimeStore>;
let heard: string[];
let orders: StopOrder[];
let nextId = 900;

function serverProcess(change: { readonly staleSeconds?: number } = {}): Workers {
  const workers = new Workers({
    store: memory.store,
    bus: exchange.connect(),
    clock,
    ids: { next: () => ++nextId, reserve: async () => {} },
    log: quiet,
    meter: noMeter,
    staleSeconds: 30,
    sweepIntervalSeconds: 15,
    ...change,
  });
  workers.connect({
    onOffline: (name) => heard.push(`offline ${name}`),
    onRestart: (name) => heard.push(`restart ${name}`),
    stopOrders: async (_name: string, _holds: readonly Hold[]) => orders,
  });
  return workers;
}

beforeEach(() => {
  clock = createStepClock();
  exchange = createMemoryExchange();
  memory = memoryRuntimeStore(clock);
  heard = [];
  orders = [];
});

describe('registration', () => {
  it('is renewed by the same instance, and a new instance is a restart', async () => {
    const workers = serverProcess();
    const first = await workers.register(registration());
    clock.advance(1000);
    const again = await workers.register(registration());
    expect([again.runtimeId, again.registeredAt]).toEqual([first.runtimeId, first.registeredAt]);
    expect(heard).toEqual([]);
    const restarted = await workers.register(registration({ instance: 'two' }));
    expect(restarted.registeredAt).toBe(isoOf(clock.now()));
    expect(heard).toEqual(['restart alice']);
  });

  it('without an instance is a heartbeat', async () => {
    const workers = serverProcess();
    await workers.register(registration());
    await workers.register(registration({ instance: null }));
    expect(heard).toEqual([]);
  });
});

describe('a heartbeat', () => {
  it('of an unknown worker is refused, unless it brings a registration', async () => {
    const workers = serverProcess();
    const silent = { registration: null, status: null, commands: [] };
    await expect(workers.heartbeat('alice', silent)).rejects.toMatchObject({ code: 'unknown_worker' });
    const answer = await workers.heartbeat('alice', { ...silent, registration: registration() });
    expect(answer).toMatchObject({ recreated: true, stop: [] });
    expect(await workers.heartbeat('alice', silent)).toMatchObject({ recreated: false, runtimeId: answer.runtimeId });
  });

  it('brings the orders for the commands it names', async () => {
    const workers = serverProcess();
    await workers.register(registration());
    orders = [{ commandId: 7, attempt: 1, reason: 'execution_cancelled' }];
    const commands = [{ commandId: 7, attempt: 1 }];
    const answer = await workers.heartbeat('alice', { registration: null, status: null, commands });
    expect(answer.stop).toEqual(orders);
  });

  it('sets the status, and revives a worker that was offline', async () => {
    const workers = serverProcess();
    await workers.register(registration());
    await workers.heartbeat('alice', { registration: null, status: 'draining', commands: [] });
    expect((await workers.find('alice'))?.status).toBe('draining');
    await workers.deregister('alice', null);
    await workers.heartbeat('alice', { registration: null, status: null, commands: [] });
    expect((await workers.find('alice'))?.status).toBe('ready');
  });

  it('is written so often that two more fit before its silence counts, and no oftener', async () => {
    const workers = serverProcess();
    await workers.register(registration());
    for (let beat = 0; beat < 60; beat++) {
      clock.advance(100);
      workers.seen('alice');
      await workers.writeHeartbeats();
    }
    expect(memory.beats.length).toBe(3);
  });

  it('is written before another process could call a patient worker stale', async () => {
    const [here, there] = [serverProcess({ staleSeconds: 3 }), serverProcess({ staleSeconds: 3 })];
    await here.register(registration({ heartbeatSeconds: 1, offlineAfterSeconds: 90 }));
    for (let beat = 0; beat < 60; beat++) {
      clock.advance(100);
      here.seen('alice');
      await here.writeHeartbeats();
      const holder = await there.holder('alice');
      expect(clock.now() - (holder?.heartbeatAt ?? 0)).toBeLessThan(3_000);
    }
    expect(memory.beats.length).toBe(6);
  });
});

describe('silence', () => {
  it('of offline_after sets a worker offline and gives its commands away', async () => {
    const workers = serverProcess();
    await workers.register(registration());
    clock.advance(6000);
    await workers.sweep();
    expect(heard).toEqual([]);
    clock.advance(1);
    await workers.sweep();
    expect(heard).toEqual(['offline alice']);
    expect((await workers.holder('alice'))?.status).toBe('offline');
  });

  it('does not begin while a long poll is open', async () => {
    const workers = serverProcess();
    await workers.register(registration());
    const poll = workers.polling('alice');
    clock.advance(60_000);
    await workers.sweep();
    expect(heard).toEqual([]);
    expect((await workers.holder('alice'))?.heartbeatAt).toBe(clock.now());
    poll.close();
    poll.close();
    clock.advance(6001);
    await workers.sweep();
    expect(heard).toEqual(['offline alice']);
  });

  it('towards one process is no silence while the worker talks to another', async () => {
    const [here, there] = [serverProcess(), serverProcess()];
    await here.register(registration());
    await there.find('alice');
    for (let second = 0; second < 20; second++) {
      clock.advance(1000);
      here.seen('alice');
      await here.writeHeartbeats();
      await there.sweep();
    }
    expect(heard).toEqual([]);
    const holder = await there.holder('alice');
    expect(clock.now() - (holder?.heartbeatAt ?? 0)).toBeLessThan(2000);
  });

  it('is looked for when the next busy worker can be overdue', async () => {
    const workers = serverProcess();
    await workers.register(registration());
    expect(await workers.sweep()).toBe(60_000);
    const row = memory.rows.get('alice');
    if (row !== undefined) memory.rows.set('alice', { ...row, openCommands: 2 });
    expect(await workers.sweep()).toBe(6000);
    clock.advance(5900);
    expect(await workers.sweep()).toBe(1000);
  });
});

describe('deregistration', () => {
  it('releases the open commands of a known worker, and is no error for an unknown one', async () => {
    const workers = serverProcess();
    expect(await workers.deregister('nobody', null)).toEqual({ released: 0 });
    await workers.register(registration());
    const row = memory.rows.get('alice');
    if (row !== undefined) memory.rows.set('alice', { ...row, openCommands: 2 });
    expect(await workers.deregister('alice', null)).toEqual({ released: 2 });
    expect(heard).toEqual(['offline alice']);
    expect((await workers.list({}))[0]?.status).toBe('offline');
  });
});

describe('memory', () => {
  it('answers for a holder only while it is sure', async () => {
    const workers = serverProcess();
    expect(workers.holderInMemory('alice')).toBeUndefined();
    expect(await workers.holder('alice')).toBeNull();
    expect(workers.holderInMemory('alice')).toBeNull();
    await workers.register(registration());
    await workers.holder('alice');
    expect(workers.holderInMemory('alice')).toMatchObject({ name: 'alice', status: 'ready' });
    clock.advance(1000);
    expect(workers.holderInMemory('alice')).toBeUndefined();
    await workers.holder('alice');
    expect(workers.holderInMemory('alice')).toMatchObject({ name: 'alice' });
  });

  it('is doubted at once when another process says that a worker came, was started again, changed or went', async () => {
    const [here, there] = [serverProcess(), serverProcess()];
    const seenThere = async () => (await there.find('alice'))?.status ?? null;
    expect(await there.holder('alice')).toBeNull();
    await here.register(registration());
    expect(there.holderInMemory('alice')).toBeUndefined();
    expect(await seenThere()).toBe('ready');
    await here.register(registration({ instance: 'two' }));
    expect((await there.find('alice'))?.instance).toBe('two');
    await here.heartbeat('alice', { registration: null, status: 'draining', commands: [] });
    expect(await seenThere()).toBe('draining');
    await here.deregister('alice', null);
    expect(await seenThere()).toBe('offline');
    await here.register(registration());
    expect(await seenThere()).toBe('ready');
    clock.advance(6001);
    await there.holder('alice');
    await here.sweep();
    expect(await seenThere()).toBe('offline');
    await there.stop();
    await here.register(registration());
    expect(await seenThere()).toBe('offline');
    exchange.connect().publish('workers', [{ name: 7 }]);
  });

  it('is not asked where a heartbeat or a claim by id has to be right', async () => {
    const [here, there] = [serverProcess(), serverProcess()];
    await here.register(registration());
    expect((await there.find('alice'))?.status).toBe('ready');
    await there.stop();
    await here.deregister('alice', null);
    expect((await there.find('alice'))?.status).toBe('ready');
    expect((await there.look('alice'))?.status).toBe('offline');
    await there.heartbeat('alice', { registration: null, status: null, commands: [] });
    expect((await here.look('alice'))?.status).toBe('ready');
    expect(await there.look('bob')).toBeNull();
  });

  it('of names nobody registered has an end, because callers choose them', async () => {
    const workers = serverProcess();
    for (let each = 0; each <= 10_000; each += 1) await workers.find(`ghost-${each}`);
    expect(workers.holderInMemory('ghost-10000')).toBeNull();
    expect(workers.holderInMemory('ghost-0')).toBeUndefined();
  });

  it('of a worker ends an hour after its last word, also in a process that sweeps for nobody', async () => {
    const workers = serverProcess();
    const isMine = { isMine: false, againInMs: 5_000 } as const;
    workers.connect({ onOffline() {}, onRestart() {}, stopOrders: async () => [], sweeper: async () => isMine });
    await workers.register(registration());
    clock.advance(3_600_001);
    await workers.sweep();
    workers.seen('alice');
    await workers.writeHeartbeats(true);
    expect(memory.beats).toEqual([]);
  });

  it('keeps silence apart from polls of a worker nobody registered', () => {
    const workers = serverProcess();
    workers.seen('ghost');
    workers.polling('ghost').close();
    expect(workers.holderInMemory('ghost')).toBeUndefined();
  });
});
