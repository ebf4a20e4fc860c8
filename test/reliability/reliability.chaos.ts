/**
 * Rows of the catalogue of checks that need real processes to be killed: effects outside the service, batches at every point of
 * their way, the holder of a lease, and thousands of idle readers.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { queryRows, startTestPostgres } from '../support/postgres.ts';
import { freePort, type ServerProcess, type ServiceProcess, Stage, untilEnded } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { askAt, Service, until } from './service.ts';

const stage = new Stage();
afterEach(() => stage.close());

async function database(): Promise<string> {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  return postgres.url;
}

const playbook = (path: string, steps: string) =>
  `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: ${path.slice(path.lastIndexOf('/') + 1)}, path: ${path} }\nworkflow:\n${steps}`;

test('CL-04 a worker that dies after its effect and before its report: the same command runs again, and counts once', async () => {
  const url = await database();
  const server = await stage.server({ SVC_DATABASE_URL: url, SVC_DATA_DIR: await stage.folder() });
  const effects = new Map<string, number>();
  let doomed: ServiceProcess | null = null;
  const ledger = createServer((request, response) => {
    const key = request.url ?? '';
    effects.set(key, (effects.get(key) ?? 0) + 1);
    // The effect has happened; nobody will hear of it.
    if (doomed !== null) doomed.signal('SIGKILL');
    else response.writeHead(200, { 'content-type': 'application/json' }).end('{"charged":true}');
  });
  const port = await freePort();
  ledger.listen(port, '127.0.0.1');
  stage.onEnd(async () => ledger.close().closeAllConnections());
  doomed = await stage.worker(server.url, { SVC_WORKER_NAME: 'doomed' });
  const [id = 0] = await stage.startRuns(server.url, [
    {
      path: 'chaos/effect',
      text: playbook(
        'chaos/effect',
        `  - { step: charge, tool: { kind: http, method: POST, url: "http://127.0.0.1:${port}/charge/{{ execution_id }}" } }\n`,
      ),
    },
  ]);
  await doomed.ended;
  expect([...effects]).toEqual([[`/charge/${id}`, 1]]);
  doomed = null;
  await stage.worker(server.url, { SVC_WORKER_NAME: 'heir' });
  await untilEnded(url, [id], 30_000);
  expect([...effects]).toEqual([[`/charge/${id}`, 2]]);
  const runs = await readRuns(url);
  expect(brokenLaws(runs)).toEqual([]);
  expect(runs[0]?.row.status).toBe('completed');
  expect(runs[0]?.commands).toMatchObject([{ attempt: 2, status: 'COMPLETED', workerId: 'heir' }]);
  expect(runs[0]?.events.filter((event) => event.type === 'call.done')).toHaveLength(1);
});

const ROUNDS = 8;
const BATCHES = 20;

test(`BI-04 a server killed at ${ROUNDS} moments between the first byte and the last answer of ${BATCHES} batches keeps what it acknowledged`, async () => {
  const url = await database();
  const environment = {
    SVC_DATABASE_URL: url,
    SVC_DATA_DIR: await stage.folder(),
    SVC_LEASE_SECONDS: '2',
    SVC_AUTO_RESUME_MODE: 'continue',
  };
  let server = await stage.server(environment);
  const flow = playbook('chaos/batch', '  - { step: one, tool: { kind: noop } }\n');
  await stage.client(server.url).register(flow, {});
  const acknowledged = new Map<string, { readonly requestId: string; readonly eventIds: string }>();
  const cut = { before: 0, after: 0 };
  for (let round = 0; round < ROUNDS; round += 1) {
    const { url: address, port } = server;
    const ids = await Promise.all(
      Array.from({ length: BATCHES }, async () => {
        return (await askAt(address, 'POST', '/api/execute', { path: 'chaos/batch' })).json.execution_id as number;
      }),
    );
    const post = async (id: number) => {
      const events = [0, 1, 2].map((n) => ({ event_type: 'report.note', step: 'one', payload: { n } }));
      const key = `${round}-${id}`;
      const { status, json } = await askAt(
        server.url,
        'POST',
        '/api/events/batch',
        { execution_id: id, events },
        {
          'idempotency-key': key,
        },
      );
      if (status !== 202) return null;
      const answer = { requestId: json.request_id as string, eventIds: String(json.event_ids) };
      const known = acknowledged.get(key);
      // The key gives the same for ever, whatever died in between.
      if (known !== undefined) expect(answer).toEqual(known);
      acknowledged.set(key, answer);
      return answer;
    };
    const first = Promise.allSettled(ids.map(post));
    await pause(round * 6);
    await server.kill();
    for (const end of await first) cut[end.status === 'fulfilled' ? 'after' : 'before'] += 1;
    server = await stage.server(environment, port);
    for (const id of ids) await until('the batch is accepted', async () => (await post(id).catch(() => null)) !== null);
  }
  expect(cut.before).toBeGreaterThan(0);
  const open = `select count(*)::int as n from core.batch_request where state in ('accepted', 'processing')`;
  await until('every batch has ended', async () => (await queryRows<{ n: number }>(url, open))[0]?.n === 0, 60_000);
  const rows = await queryRows<{ id: string; state: string; events: string; key: string }>(
    url,
    `select request_id::text as id, state, array_to_string(event_ids, ',') as events, idempotency_key as key from core.batch_request`,
  );
  expect(rows).toHaveLength(ROUNDS * BATCHES);
  for (const { id, state, events, key } of rows)
    expect({ key, state, answer: { requestId: id, eventIds: events } }).toEqual({
      ...{ key, state: 'completed' },
      answer: acknowledged.get(key),
    });
  const runs = await readRuns(url);
  expect(brokenLaws(runs)).toEqual([]);
  for (const { events } of runs) {
    const types = events
      .map((event) => event.type)
      .filter((type) => type.startsWith('batch.') || type === 'report.note');
    expect(types.filter((type) => type === 'report.note')).toHaveLength(3);
    expect(types.filter((type) => type.startsWith('batch.'))).toEqual([
      'batch.accepted',
      'batch.processing',
      'batch.completed',
    ]);
  }
}, 300_000);

test('RP-03 when the holder of the reaper is killed, another server holds it within lease and interval', async () => {
  const url = await database();
  const [leaseSeconds, intervalSeconds] = [2, 1];
  const environment = {
    ...{ SVC_DATABASE_URL: url, SVC_DATA_DIR: await stage.folder(), SVC_LEASE_SECONDS: String(leaseSeconds) },
    ...{ SVC_COMMAND_REAPER_INTERVAL_SECONDS: String(intervalSeconds), SVC_BUS: 'none' },
  };
  const servers: ServerProcess[] = [await stage.server(environment), await stage.server(environment)];
  const held = `select lease.holder, lease.token::int as token, runtime.pid
    from core.lease join core.runtime on runtime.name = lease.holder
    where lease.name = 'command_reaper' and expires_at > clock_timestamp()`;
  type Held = { holder: string; token: number; pid: number };
  let before: Held | undefined;
  await until('somebody sweeps', async () => {
    [before] = await queryRows<Held>(url, held);
    return before !== undefined;
  });
  const holder = servers.find(({ pid }) => pid === before?.pid);
  if (before === undefined || holder === undefined) throw new Error(`nobody here is ${JSON.stringify(before)}`);
  await holder.kill();
  const killedAt = performance.now();
  let after: Held | undefined;
  const other = servers.find((server) => server !== holder);
  await until('another server sweeps', async () => {
    [after] = (await queryRows<Held>(url, held)).filter((row) => row.pid === other?.pid);
    return after !== undefined;
  });
  // Twice the bound, for a slow machine.
  expect(performance.now() - killedAt).toBeLessThan(2 * (leaseSeconds + intervalSeconds) * 1_000);
  expect(after?.token).toBe(before.token + 1);
});

const READERS = 5_000;
const READER_BYTES_MAX = 20 * 1024;
/** A client address may have 64 streams. The readers have a thread, and so a heap, of their own. */
const READING = `
const { connect } = require('node:net');
const { parentPort, workerData } = require('node:worker_threads');
const sockets = [];
const open = () => new Promise((resolve) => {
  const localAddress = '127.0.1.' + (1 + Math.floor(sockets.length / 64));
  const socket = connect({ port: workerData, host: '127.0.0.1', localAddress });
  sockets.push(socket);
  socket.write('GET /api/events/batch/999999/stream?timeout_seconds=300 HTTP/1.1\\r\\nHost: 127.0.0.1:' + workerData + '\\r\\n\\r\\n');
  socket.once('error', () => resolve(0));
  socket.once('data', (chunk) => {
    socket.resume();
    resolve(chunk.toString('latin1').startsWith('HTTP/1.1 200') ? 1 : 0);
  });
});
parentPort.on('message', async (count) => {
  let heard = 0;
  for (let opened = 0; opened < count; opened += 100)
    for (const one of await Promise.all(Array.from({ length: 100 }, open))) heard += one;
  parentPort.postMessage(heard);
});`;

test(`BI-09 ${READERS} idle readers of a batch cost little memory and one poller, and nobody else notices`, async () => {
  const service = await Service.start({ SVC_BUS: 'none' });
  stage.onEnd(() => service.stop());
  await service.register('chaos/read', '  - { step: one, tool: { kind: noop } }\n');
  const id = await service.start('chaos/read');
  // One that is being processed, for ever as far as this test is concerned.
  await service.rows(
    `insert into core.batch_request (request_id, execution_id, body_hash, state, deadline_at)
     values (999999, $1, '\\x00', 'processing', now() + interval '1 day')`,
    [id],
  );
  const readers = new Worker(READING, { eval: true, workerData: Number(new URL(service.url).port) });
  stage.onEnd(() => readers.terminate());
  const open = async (count: number): Promise<number> => {
    const heard = once(readers, 'message');
    readers.postMessage(count);
    return (await heard)[0];
  };
  setFlagsFromString('--expose_gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect !== 'function') throw new Error('the garbage collector cannot be called');
  const bytes = () => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  // The first ones make the process grow in other ways.
  expect(await open(500)).toBe(500);
  const before = bytes();
  expect(await open(READERS - 500)).toBe(READERS - 500);
  expect((bytes() - before) / (READERS - 500)).toBeLessThan(READER_BYTES_MAX);

  const questions = async () => {
    const count =
      'select (xact_commit + xact_rollback)::int as n from pg_stat_database where datname = current_database()';
    return (await service.rows<{ n: number }>(count))[0]?.n ?? 0;
  };
  // Sessions hand in their counts late: those of the openings must not be taken for those of the waiting.
  await pause(3_000);
  const asked = await questions();
  await pause(4_000);
  // A look every half second, and what the service does by itself; not one for each reader.
  expect((await questions()) - asked).toBeLessThan(200);
  const began = performance.now();
  for (let each = 0; each < 20; each += 1) expect((await service.get('/api/executions')).status).toBe(200);
  expect((performance.now() - began) / 20).toBeLessThan(1_000);
});
