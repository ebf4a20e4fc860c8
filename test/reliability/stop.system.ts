/** A server told to stop while callers are in the middle of things. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { chain } from '../e2e/flows.ts';
import { brokenLaws } from '../support/log-laws.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { freePort, Stage, untilEnded, untilHeld } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { askAt } from './service.ts';

const stage = new Stage();
afterEach(() => stage.close());

/** Ten seconds in the contract, for work that takes so long; there is none here. */
const STOPPED_WITHIN_MS = 9_000;

/** A request of which the server has the beginning. */
class Begun {
  readonly #socket: Socket;
  readonly #rest: string;
  readonly #answer: Promise<string>;

  constructor(port: number, method: string, path: string, body: string) {
    this.#socket = connect(port, '127.0.0.1');
    this.#answer = text(this.#socket);
    this.#socket.write(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\n`);
    this.#rest = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  }

  /** The whole answer; the server closes the connection behind it. */
  finish(): Promise<string> {
    this.#socket.write(this.#rest);
    return this.#answer;
  }
}

test('IF-13 SIGTERM with work in flight: not ready at once, 503 for what is new, nothing acknowledged is lost, exit code 0', async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const environment = { SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder() };
  const server = await stage.server(environment);
  const flow = chain(3);
  await stage.client(server.url).register(flow.text, {});
  const startOne = () => askAt(server.url, 'POST', '/api/execute', { path: flow.path });
  await askAt(server.url, 'POST', '/api/worker/pool/register', { name: 'idle', pools: ['other'] });
  const acknowledged: number[] = [];
  for (let each = 0; each < 5; each += 1) acknowledged.push((await startOne()).json.execution_id);

  // A turn that is under way: somebody else holds its execution for a moment.
  const [busy = 0] = acknowledged;
  const holder = new pg.Client({ connectionString: postgres.url });
  await holder.connect();
  stage.onEnd(() => holder.end());
  await holder.query('begin');
  await holder.query(`select pg_advisory_xact_lock(hashtextextended('core.execution', $1))`, [busy]);
  const cancelled = askAt(server.url, 'POST', `/api/executions/${busy}/cancel`, { reason: 'in flight' });
  const poll = askAt(server.url, 'POST', '/api/commands/claim', {
    worker_id: 'idle',
    claim_id: 'c1',
    max: 1,
    wait_ms: 30_000,
  });
  const health = new Begun(server.port, 'GET', '/api/health', '');
  const start = new Begun(server.port, 'POST', '/api/execute', JSON.stringify({ path: flow.path }));
  // Long enough for all of it to have arrived.
  await pause(500);

  server.signal('SIGTERM');
  await server.said('Stopping');
  expect(await health.finish()).toMatch(/^HTTP\/1\.1 503 [\s\S]*"status":"draining"/);
  const refused = await start.finish();
  expect(refused).toMatch(/^HTTP\/1\.1 503 [\s\S]*"code":"shutting_down"/);
  expect(refused).toMatch(/^retry-after: \d+\r$/m);
  expect(await poll).toMatchObject({ status: 200, json: { commands: [] } });
  // Nobody gets in any more.
  const late = connect(server.port, '127.0.0.1');
  expect((await once(late, 'error'))[0]).toMatchObject({ code: 'ECONNREFUSED' });
  const released = performance.now();
  await holder.query('commit');
  expect(await cancelled).toMatchObject({ status: 200, json: { status: 'cancelled' } });
  expect(await server.ended).toEqual({ code: 0, signal: null });
  expect(performance.now() - released).toBeLessThan(STOPPED_WITHIN_MS);

  const again = await stage.server(environment, server.port);
  await stage.worker(again.url);
  await untilEnded(postgres.url, acknowledged);
  const runs = await readRuns(postgres.url);
  expect(runs.map(({ row }) => [row.executionId, row.status])).toEqual(
    acknowledged.map((id) => [id, id === busy ? 'cancelled' : 'completed']),
  );
  expect(brokenLaws(runs)).toEqual([]);
});

const SLOW = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: slow, path: stop/slow }
workflow:
  - step: start
    tool: { kind: python, code: "import time\\ntime.sleep(4)\\nresult = {'done': True}" }
`;

test('IF-13 `callboard dev` is not ready from the first signal on, while its worker still ends what it runs', async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const port = await freePort();
  const whole = stage.start(['dev', '--no-examples'], {
    SVC_DATABASE_URL: postgres.url,
    SVC_DATA_DIR: await stage.folder(),
    SVC_PORT: String(port),
    SVC_WORKER_NAME: 'slow',
  });
  await whole.said('Ctrl-C stops it');
  const url = `http://127.0.0.1:${port}`;
  const [running = 0] = await stage.startRuns(url, [{ path: 'stop/slow', text: SLOW }]);
  await untilHeld(postgres.url, 'slow', 1);
  whole.signal('SIGTERM');
  await whole.said('Stopping');
  expect(await askAt(url, 'GET', '/api/health')).toMatchObject({ status: 503, json: { status: 'draining' } });
  expect(await askAt(url, 'POST', '/api/execute', { path: 'stop/slow' })).toMatchObject({
    status: 503,
    json: { code: 'shutting_down' },
  });
  expect((await whole.ended).code).toBe(0);
  const [run] = await readRuns(postgres.url, [running]);
  expect(run?.row).toMatchObject({ status: 'completed', result: { done: true } });
  expect(brokenLaws(await readRuns(postgres.url))).toEqual([]);
});
