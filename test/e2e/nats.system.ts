/** Servers and workers as processes with NATS between them: it may go away, and it may repeat, delay and reorder. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect, headers, type Msg } from '@nats-io/transport-node';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { natsBinary, startTestNats, withoutNats } from '../support/nats.ts';
import { startTestPostgres, type TestPostgres } from '../support/postgres.ts';
import { type ServerProcess, Stage, untilEnded, untilEvents } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { chain, type Flow, fanOut, loop } from './flows.ts';

const QUICK_BEATS = { SVC_COMMAND_REAPER_PENDING_RETRY_SECONDS: '2', SVC_COMMAND_REAPER_INTERVAL_SECONDS: '1' };

describe.skipIf(natsBinary === null)(`servers and workers over NATS${withoutNats}`, { timeout: 120_000 }, () => {
  const stage = new Stage();
  let postgres: TestPostgres;
  let environment: Record<string, string>;
  beforeEach(async () => {
    postgres = await startTestPostgres();
    const { stop, url } = postgres;
    stage.onEnd(stop);
    environment = { SVC_DATABASE_URL: url, ...QUICK_BEATS };
  });
  afterEach(() => stage.close());

  async function settled(executionIds: readonly number[], flows: readonly Flow[]): Promise<void> {
    await untilEnded(postgres.url, executionIds, 60_000);
    const runs = await readRuns(postgres.url, executionIds);
    expect(runs.map(({ row }) => row.result)).toEqual(flows.map(({ result }) => result));
    expect(brokenLaws(runs)).toEqual([]);
  }

  async function stored(executionIds: readonly number[]) {
    const runs = await readRuns(postgres.url, executionIds);
    return runs.map(({ row, events, commands }) => ({ row, events, commands }));
  }

  async function untilBus(server: ServerProcess, state: string): Promise<void> {
    const client = stage.client(server.url);
    while ((await client.health()).bus !== state) await new Promise((resolve) => setTimeout(resolve, 50));
  }

  test('runs end although NATS is killed and comes again in the middle', async () => {
    await using nats = await startTestNats('-js');
    const folder = await stage.folder();
    const settings = { ...environment, SVC_DATA_DIR: folder, SVC_NATS_URL: `nats://${nats.server}` };
    const [one, other] = await Promise.all([stage.server(settings), stage.server(settings)]);
    await Promise.all([untilBus(one, 'ok'), untilBus(other, 'ok')]);
    await Promise.all([stage.worker(one.url), stage.worker(other.url)]);
    const flows = [chain(20), loop(20, 0.2), chain(20), chain(20)];
    const executionIds = await stage.startRuns(one.url, flows);
    const [, looped = 0] = executionIds;
    await untilEvents(postgres.url, looped, 20);
    await nats.kill();
    await Promise.all([untilBus(one, 'degraded'), untilBus(other, 'degraded')]);
    const meanwhile = [chain(20)];
    const [started = 0] = await stage.startRuns(other.url, meanwhile);
    await settled([started], meanwhile);
    await nats.start();
    await Promise.all([untilBus(one, 'ok'), untilBus(other, 'ok')]);
    await settled(executionIds, flows);
  });

  test('a server starts without NATS, works, says so, and finds it later', async () => {
    await using nats = await startTestNats('-js');
    await nats.kill();
    const folder = await stage.folder();
    const settings = { ...environment, SVC_DATA_DIR: folder, SVC_NATS_URL: `nats://${nats.server}` };
    const server = await stage.server(settings);
    expect(await stage.client(server.url).health()).toMatchObject({ status: 'ok', bus: 'degraded' });
    await server.said('The bus cannot connect');
    await stage.worker(server.url);
    const flows = [chain(20)];
    await settled(await stage.startRuns(server.url, flows), flows);
    await nats.start();
    await untilBus(server, 'ok');
  });

  test('a worker that subscribes hears of commands, claims them and ends a run', async () => {
    await using nats = await startTestNats('-js');
    const folder = await stage.folder();
    const server = await stage.server({ ...environment, SVC_DATA_DIR: folder, SVC_NATS_URL: `nats://${nats.server}` });
    await untilBus(server, 'ok');
    const connection = await connect({ servers: nats.server });
    stage.onEnd(() => connection.close());
    await (await jetstreamManager(connection)).consumers.add('SVC_COMMANDS', {
      durable_name: 'svc_worker_shared',
      filter_subject: 'svc.commands.shared',
      ack_policy: AckPolicy.Explicit,
      deliver_policy: DeliverPolicy.New,
      ack_wait: 300e9,
      max_deliver: 1_000,
      max_ack_pending: 64,
    });
    await stage.client(server.url).workerRegister({ name: 'subscriber', pools: ['shared'] });
    const [executionId = 0] = await stage.startRuns(server.url, [chain(3)]);

    const consumer = await jetstream(connection).consumers.get('SVC_COMMANDS', 'svc_worker_shared');
    const steps: unknown[] = [];
    const messages = await consumer.consume();
    for await (const message of messages) {
      const hint = message.json<Record<string, unknown>>();
      const claim = await post(hint['server_url'], `/api/commands/${hint['event_id']}/claim`, {
        worker_id: 'subscriber',
      });
      expect(claim.status).toBe(200);
      message.ack();
      steps.push(hint['step']);
      const { command_id, attempt } = claim.body;
      const report = { execution_id: executionId, worker_id: 'subscriber', step: hint['step'], command_id, attempt };
      const result = { status: 'completed', context: { data: {} } };
      await post(server.url, '/api/events', { ...report, event_type: 'call.done', payload: { result } });
      await post(server.url, '/api/events', { ...report, event_type: 'command.completed', payload: {} });
      if (steps.length === 3) break;
    }
    expect(steps).toEqual(['start', 's1', 's2']);
    await untilEnded(postgres.url, [executionId]);
    expect((await consumer.info()).num_ack_pending).toBe(0);
    expect(brokenLaws(await readRuns(postgres.url, [executionId]))).toEqual([]);
  });

  test('BU-02 every message three times, out of order and up to 30 s late: nothing happens twice', async () => {
    const folder = await stage.folder();
    const accounts = join(folder, 'nats.conf');
    // Two servers in two accounts hear of each other only what the relay brings.
    const account = (user: string) => `${user} { jetstream: enabled, users: [{ user: ${user}, password: ${user} }] }`;
    await writeFile(accounts, `accounts { ${account('one')}, ${account('other')} }`);
    await using nats = await startTestNats('-js', '-c', accounts);
    const relay = await startRelay(nats.server);
    stage.onEnd(relay.close);
    const settings = { ...environment, SVC_DATA_DIR: folder };
    const [one, other] = await Promise.all([
      stage.server({ ...settings, SVC_NATS_URL: `nats://one:one@${nats.server}` }),
      stage.server({ ...settings, SVC_NATS_URL: `nats://other:other@${nats.server}` }),
    ]);
    await Promise.all([untilBus(one, 'ok'), untilBus(other, 'ok')]);
    // What is started at one server is worked on at the other.
    await stage.worker(other.url);
    const flows = [chain(20), fanOut(5), loop(10, 0.05), chain(20)];
    const executionIds = await stage.startRuns(one.url, flows);
    await settled(executionIds, flows);
    const before = await stored(executionIds);
    expect(relay.waiting()).toBeGreaterThan(0);
    await relay.bringAll();
    const later = [chain(20)];
    await settled(await stage.startRuns(one.url, later), later);
    expect(await stored(executionIds)).toEqual(before);
  });
});

async function post(serverUrl: unknown, path: string, body: unknown) {
  const response = await fetch(`${serverUrl}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

/** Brings what is said in one account to the other: each message three times, each time after another while. */
async function startRelay(server: string) {
  const [one, other] = await Promise.all(
    ['one', 'other'].map((name) => connect({ servers: server, user: name, pass: name })),
  );
  if (one === undefined || other === undefined) throw new Error('two accounts have two connections');
  const waiting = new Map<NodeJS.Timeout, () => void>();
  let count = 0;
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    const pass = (message: Msg) => {
      if (message.headers?.has('relayed') === true) return;
      for (let copy = 0; copy < 3; copy += 1) {
        const marked = headers();
        marked.set('relayed', String(copy));
        const bring = () => to.publish(message.subject, message.data, { headers: marked });
        count += 1;
        const timer = setTimeout(() => waiting.delete(timer) && bring(), (count * 7_919) % 30_000);
        waiting.set(timer, bring);
      }
    };
    for (const subject of ['svc.commands.>', 'svc.events.*']) {
      from.subscribe(subject, { callback: (_, message) => pass(message) });
    }
  }
  const drop = () => {
    for (const timer of waiting.keys()) clearTimeout(timer);
    const all = [...waiting.values()].reverse();
    waiting.clear();
    return all;
  };
  return {
    waiting: () => waiting.size,
    async bringAll() {
      for (const bring of drop()) bring();
      await Promise.all([one.flush(), other.flush()]);
    },
    async close() {
      drop();
      await Promise.all([one.close(), other.close()]);
    },
  };
}
