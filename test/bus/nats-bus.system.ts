/** The bus on NATS against a real server: the stream, what it drops, and what it does when NATS is not as it must be. */
import { createServer, type Socket } from 'node:net';
import { inspect } from 'node:util';
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createNatsBus, type NatsBusOptions } from '../../src/bus/nats-bus.ts';
import { listen } from '../conformance/bus-suite.ts';
import { natsBusOptions, untilState } from '../support/bus.ts';
import { natsBinary, startTestNats, type TestNats, withoutNats } from '../support/nats.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const HINT = {
  execution_id: 41007,
  command_id: 41012,
  event_id: 41012,
  step: 'fetch',
  pool: 'shared',
  attempt: 0,
  republish_count: 0,
  tool_kind: 'http',
  trace: null,
};

describe.skipIf(natsBinary === null)(`the bus on NATS${withoutNats}`, () => {
  let nats: TestNats;
  let client: NatsConnection;
  let manager: JetStreamManager;

  beforeAll(async () => {
    nats = await startTestNats('-js');
    client = await connect({ servers: nats.server });
    manager = await jetstreamManager(client);
  });
  afterAll(async () => {
    await client?.close();
    await nats?.[Symbol.asyncDispose]();
  });

  async function opened(more: Partial<NatsBusOptions> = {}, server = nats.server) {
    const { options, counted } = natsBusOptions(server, more);
    const bus = createNatsBus(options);
    await untilState(bus, 'ok');
    return { bus, counted };
  }

  test('makes the stream as workers expect it, and no consumers', async () => {
    const { bus } = await opened();
    const { config, state } = await manager.streams.info('SVC_COMMANDS');
    expect(config).toMatchObject({
      subjects: ['svc.commands.>'],
      storage: 'memory',
      retention: 'limits',
      discard: 'old',
      max_age: 3_600e9,
      max_msgs: 1_000_000,
      duplicate_window: 30e9,
    });
    expect(state.consumer_count).toBe(0);
    await bus.close();
  });

  test('keeps an announcement once, with its payload, under its pool', async () => {
    const { bus } = await opened();
    const ear = listen(bus);
    bus.publish('commands.shared', [HINT, HINT]);
    bus.publish('commands.shared', [{ ...HINT, republish_count: 1 }]);
    await ear.until('commands.shared', () => ear.heard.length === 3);
    const { state } = await manager.streams.info('SVC_COMMANDS');
    expect(state.messages).toBe(2);
    const first = await manager.streams.getMessage('SVC_COMMANDS', { seq: state.first_seq });
    expect(first?.subject).toBe('svc.commands.shared');
    expect(first?.header.get('Nats-Msg-Id')).toBe('41012:0:0');
    expect(first?.json()).toEqual({
      ...HINT,
      server_url: 'http://callboard:8082',
      published_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    });
    const last = await manager.streams.getMessage('SVC_COMMANDS', { seq: state.last_seq });
    expect(last?.header.get('Nats-Msg-Id')).toBe('41012:0:1');
    await bus.close();
  });

  test('keeps nothing of what is no announcement of a command', async () => {
    const { bus } = await opened();
    const before = (await manager.streams.info('SVC_COMMANDS')).state.last_seq;
    const ear = listen(bus);
    bus.publish('executions', [{ execution_id: 1, last_event_id: 2, status: 'completed' }]);
    await ear.until('executions');
    expect((await manager.streams.info('SVC_COMMANDS')).state.last_seq).toBe(before);
    await bus.close();
  });

  test('BU-04 garbage, 1 MB, wrong types and foreign messages are dropped and counted; the bus stays up', async () => {
    const { bus, counted } = await opened();
    const ear = listen(bus);
    const large = 'x'.repeat(1_000_000);
    for (const text of ['', 'garbage', '[]', 'null', '7', '"text"', '[{"command_id":1}]']) {
      client.publish('svc.commands.shared', text);
    }
    for (const text of ['{}', '{"topic":"workers","hints":[]}', '{"topic":"executions","hints":[1]}', `"${large}"`]) {
      client.publish('svc.events.executions', text);
    }
    client.publish('svc.commands.shared', new Uint8Array([0xff, 0xfe, 0x00]));
    client.publish('svc.commands.shared', JSON.stringify({ ...HINT, step: large }));
    client.publish('svc.commands.shared', JSON.stringify({ ...HINT, pool: 'theirs' }));
    client.publish('svc.commands.a/b', JSON.stringify(HINT));
    client.publish('svc.events.theirs', JSON.stringify({ topic: 'theirs', hints: [] }));
    await client.flush();
    bus.publish('control', [{ after: true }]);
    await ear.until('control');
    expect(ear.heard).toHaveLength(1);
    expect(counted.get('svc_bus_dropped_total malformed')).toBe(7 + 3 + 1);
    expect(counted.get('svc_bus_dropped_total oversized')).toBe(2);
    expect(counted.get('svc_bus_dropped_total foreign')).toBe(3);
    expect(bus.state()).toBe('ok');
    await bus.close();
  });

  test('does not send what is too large to be read', async () => {
    const { bus, counted } = await opened();
    const ear = listen(bus);
    bus.publish('commands.shared', [{ ...HINT, step: 'x'.repeat(10_000) }]);
    bus.publish('executions', [{ text: 'x'.repeat(10_000) }, { fits: true }]);
    expect(await ear.until('executions')).toEqual([{ fits: true }]);
    expect(counted.get('svc_bus_dropped_total oversized')).toBe(2);
    await bus.close();
  });

  test('makes a stream that was deleted again, and says meanwhile that something is wrong', async () => {
    const { bus, counted } = await opened();
    await manager.streams.delete('SVC_COMMANDS');
    bus.publish('commands.shared', [HINT]);
    await untilState(bus, 'degraded');
    expect(counted.get('svc_bus_dropped_total unavailable')).toBe(1);
    await untilState(bus, 'ok');
    expect((await manager.streams.info('SVC_COMMANDS')).config.storage).toBe('memory');
    await bus.close();
  });

  test('a connection that is open but deaf is found by the missing echo and replaced', async () => {
    const proxy = await startTcpProxy({ port: nats.port });
    const { bus } = await opened({ echoEveryMs: 20, echoWithinMs: 200 }, `127.0.0.1:${proxy.port}`);
    proxy.dropAnswers();
    await untilState(bus, 'degraded');
    proxy.cut();
    await untilState(bus, 'ok');
    await bus.close();
    await proxy.close();
  });
});

describe.skipIf(natsBinary === null)(`a NATS server that is not as it must be${withoutNats}`, () => {
  async function withServer(args: readonly string[], work: (nats: TestNats) => Promise<void>): Promise<void> {
    await using nats = await startTestNats(...args);
    await work(nats);
  }

  test('may come later, and may go and come again', () =>
    withServer(['-js'], async (nats) => {
      await nats.kill();
      const { options, counted } = natsBusOptions(nats.server);
      const bus = createNatsBus(options);
      bus.publish('executions', [{ lost: true }]);
      expect(bus.state()).toBe('degraded');
      await nats.start();
      await untilState(bus, 'ok');
      expect(counted.get('svc_bus_dropped_total unavailable')).toBe(1);
      await nats.kill();
      await untilState(bus, 'degraded');
      await nats.start();
      await untilState(bus, 'ok');
      await bus.close();
    }));

  test('that takes connections and says nothing collects none of them', async () => {
    const open = new Set<Socket>();
    let taken = 0;
    const silent = createServer((socket) => {
      taken += 1;
      open.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => open.delete(socket));
      socket.resume();
    });
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const address = silent.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const bus = createNatsBus(natsBusOptions(`127.0.0.1:${port}`, { connectWithinMs: 50 }).options);
    while (taken < 3) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(bus.state()).toBe('degraded');
    await bus.close();
    while (open.size > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    await new Promise((resolve) => silent.close(resolve));
  });

  test('without JetStream carries hints between servers, and counts as degraded', () =>
    withServer([], async (nats) => {
      const bus = createNatsBus(natsBusOptions(nats.server, { echoEveryMs: 20 }).options);
      const ear = listen(bus);
      while (!ear.heard.some((one) => one.topic === 'commands.shared')) {
        bus.publish('commands.shared', [HINT]);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      expect(bus.state()).toBe('degraded');
      await nats.start('-js');
      await untilState(bus, 'ok');
      await bus.close();
    }));

  test('with a stream by that name keeps it as it is', () =>
    withServer(['-js'], async (nats) => {
      const client = await connect({ servers: nats.server });
      const manager = await jetstreamManager(client);
      await manager.streams.add({ name: 'OURS', subjects: ['svc.commands.>'], max_msgs: 5 });
      const bus = createNatsBus(natsBusOptions(nats.server, { stream: 'OURS' }).options);
      await untilState(bus, 'ok');
      const { config } = await manager.streams.info('OURS');
      expect(config).toMatchObject({ max_msgs: 5, storage: 'file' });
      await bus.close();
      await client.close();
    }));

  test.each([
    ['user and password', ['--user', 'u', '--pass', 'a-password'], { user: 'u', password: 'a-password' }],
    ['a token', ['--auth', 'a-token'], { token: 'a-token' }],
  ])('that wants %s lets in who has them, and nobody else', (_, args, secret) =>
    withServer(['-js', ...args], async (nats) => {
      const said: unknown[] = [];
      const log = { debug() {}, info() {}, warn: (...words: unknown[]) => said.push(words), error() {} };
      const { options } = natsBusOptions(nats.server, { log });
      const stranger = createNatsBus({
        ...options,
        servers: { ...options.servers, user: 'u', password: 'wrong-word' },
      });
      while (said.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      expect(stranger.state()).toBe('degraded');
      expect(inspect(said, { depth: 9 })).toContain('Authorization');
      expect(inspect(said, { depth: 9 })).not.toContain('wrong-word');
      const bus = createNatsBus({ ...options, servers: { ...options.servers, ...secret } });
      await untilState(bus, 'ok');
      await Promise.all([stranger.close(), bus.close()]);
    }),
  );
});
