/** Callers who send what nobody should, while runs go on: each is told what is wrong, and nobody else notices. */

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { queryRows, startTestPostgres } from '../support/postgres.ts';
import { type ServerProcess, Stage, untilEnded } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { chain, loop } from './flows.ts';

const stage = new Stage();
let url = '';
let server: ServerProcess;
let executionIds: readonly number[] = [];
const flows = [chain(200), loop(50, 0.05)];

beforeAll(async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  url = postgres.url;
  server = await stage.server({
    SVC_DATABASE_URL: url,
    SVC_DATA_DIR: await stage.folder(),
    SVC_REQUEST_TIMEOUT_SECONDS: '3',
  });
  await stage.worker(server.url);
  executionIds = await stage.startRuns(server.url, flows);
});
afterAll(() => stage.close());

const head = 'apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: bad, path: e2e/bad }\n';

async function post(path: string, body: string, type = 'application/json') {
  const answer = await fetch(`${server.url}${path}`, { method: 'POST', headers: { 'content-type': type }, body });
  return { status: answer.status, text: await answer.text() };
}

describe('while runs go on', { timeout: 30_000 }, () => {
  test.each([
    ['an unclosed bracket', `${head}workflow: [ { step: start`, /"line":\s*\d/],
    ['an unknown tool kind', `${head}workflow:\n  - { step: start, tool: { kind: nonsense } }\n`, /nonsense/],
    ['a step that is a list', `${head}workflow:\n  - [1, 2]\n`, /workflow/],
    [
      'an arc into nothing',
      `${head}workflow:\n  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: gone }] } }\n`,
      /gone/,
    ],
    [
      'a thousandfold alias',
      `${head}a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\nworkflow: [*f,*f,*f,*f,*f,*f,*f,*f]\n`,
      /alias|large|node|limit/i,
    ],
    ['twenty thousand levels', `${head}workflow: ${'['.repeat(20_000)}`, /deep|nest|level/i],
    ['a NUL', `${head}workflow:\n  - { step: "a\\0b", tool: { kind: noop } }\n`, /step|name/i],
  ])('a document with %s is refused with its place, and nothing is stored', async (_, content, says) => {
    const answer = await post('/api/catalog/register', JSON.stringify({ content }));
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
    expect(answer.text).toMatch(says);
    expect(await queryRows(url, `select from core.catalog where path = 'e2e/bad'`)).toEqual([]);
  });

  test.each(['1e3', '0x10', '1.0', '-1', '9007199254740993', '1%00', '__proto__', 'NaN', '%20', '١٢'])(
    'IN-07 the execution id %s is refused',
    async (id) => {
      const answer = await fetch(`${server.url}/api/executions/${id}`);
      expect([400, 404, 422]).toContain(answer.status);
      expect(await answer.json()).toMatchObject({ code: expect.any(String), detail: expect.any(String) });
    },
  );

  test.each([
    ['is no JSON', '{"path": "e2e/chain-200"'],
    ['is a list', '[1]'],
    ['has the id as text with an exponent', '{"catalog_id": "1e3"}'],
    ['holds a NUL', '{"path": "e2e/chain-200", "workload": {"a": "\\u0000"}}'],
    ['sets __proto__', '{"path": "e2e/chain-200", "workload": {"__proto__": {"polluted": true}}}'],
    ['sets constructor.prototype of the body', '{"__proto__": {"path": "e2e/chain-200"}}'],
    [
      'is a hundred thousand levels deep',
      `{"path": "e2e/chain-200", "workload": {"a": ${'['.repeat(100_000)}${']'.repeat(100_000)}}}`,
    ],
    ['has a number beyond doubles', '{"path": "e2e/chain-200", "priority": 1e999}'],
    ['holds half a surrogate pair', '{"path": "e2e/chain-200", "workload": {"a": "\\ud800"}}'],
  ])('IN-01 a start whose body %s is refused and starts nothing', async (_, body) => {
    const answer = await post('/api/execute', body);
    expect([400, 413, 422], answer.text).toContain(answer.status);
    expect(JSON.parse(answer.text)).toMatchObject({ code: expect.any(String), detail: expect.any(String) });
    expect(await queryRows(url, 'select from core.execution')).toHaveLength(flows.length);
  });

  test('HT-02 forty bodies above the limit at the same time are refused and leave no memory behind', async () => {
    const before = residentMb(server.pid);
    const body = ' '.repeat(12 * 1024 * 1024);
    const answers = await Promise.all(
      Array.from({ length: 40 }, () =>
        post('/api/execute', body).catch((error: unknown) => ({ status: 413, text: String(error) })),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 40 }, () => 413));
    expect(residentMb(server.pid) - before).toBeLessThan(250);
  });

  test('HT-01 two hundred sockets that say half a sentence are closed in time, and others are served meanwhile', async () => {
    const sockets = await Promise.all(
      Array.from({ length: 200 }, async (_, index) => {
        const socket = connect(server.port, '127.0.0.1');
        socket.on('error', () => {});
        await once(socket, 'connect');
        socket.write(
          index % 2 === 0
            ? 'GET /api/health HT'
            : 'POST /api/execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{',
        );
        return socket;
      }),
    );
    const drip = setInterval(() => {
      for (const socket of sockets) if (socket.writable) socket.write(' ');
    }, 200);
    const health = await fetch(`${server.url}/api/health`);
    expect(health.status).toBe(200);
    await Promise.all(sockets.map(closed));
    clearInterval(drip);
  });

  test('the runs end as if nothing had been', async () => {
    await untilEnded(url, executionIds);
    const runs = await readRuns(url);
    expect(runs.map(({ row }) => row.result)).toEqual(flows.map(({ result }) => result));
    expect(brokenLaws(runs)).toEqual([]);
  });

  test('nothing of this was a failure of the server', () => {
    const lines = server.output().split('\n');
    expect(lines.filter((line) => line.includes('"level":"error"')).slice(0, 2)).toEqual([]);
  });
});

/** Resolves when the other side has closed it. */
async function closed(socket: Socket): Promise<void> {
  socket.resume();
  if (!socket.destroyed) await once(socket, 'close');
}

/** Memory of a process in MiB, where the system tells. */
function residentMb(pid: number): number {
  try {
    const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return Number(kib ?? 0) / 1024;
  } catch {
    return 0;
  }
}
