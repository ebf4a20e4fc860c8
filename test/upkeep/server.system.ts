/**
 * A real server on a real database, looked at from outside: the recovery helper and its exit codes, a dry run that writes nothing,
 * a log that an operator ended by hand, the token in front of the operators' doors, and draining.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Command, readCall } from '../../src/cli/command.ts';
import { command as cleanupCommand } from '../../src/cli/commands/cleanup.ts';
import { command as doctorCommand } from '../../src/cli/commands/doctor.ts';
import { command as keysCommand } from '../../src/cli/commands/keys.ts';
import { readConfig } from '../../src/config.ts';
import { serveDoctor } from '../../src/doctor/serve.ts';
import { startDoctor } from '../../src/doctor/start.ts';
import { silentLog } from '../../src/log.ts';
import { type RunningServer, startServer } from '../../src/server.ts';
import { recordingTerminal } from '../cli/recording-terminal.ts';
import { until } from '../reliability/service.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

const TOKEN = 'only-for-operators';
let postgres: TestPostgres;
let server: RunningServer;
let folder: string;
let env: Record<string, string>;

beforeAll(async () => {
  postgres = await startTestPostgres();
  folder = await mkdtemp(join(tmpdir(), 'callboard-upkeep-'));
  env = { SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: folder, SVC_PORT: '0', SVC_INTERNAL_TOKEN: TOKEN };
  server = await startServer(readConfig(env), { log: silentLog });
  env = { ...env, SVC_SERVER_URL: server.url, SVC_DOCTOR_URL: server.url };
  await post('/api/catalog/register', {
    content:
      'apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: wait, path: upkeep/wait }\nworkflow:\n  - step: one\n    tool: { kind: noop }\n',
  });
});
afterAll(async () => {
  await server.stop();
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
});

interface Answer {
  readonly status: number;
  /** Read without ceremony: a test says what it expects of it. */
  readonly json: ReturnType<typeof JSON.parse>;
}

async function ask(method: string, path: string, body?: object, token: string | null = TOKEN): Promise<Answer> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...(token === null ? {} : { authorization: `Bearer ${token}` }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, json: await response.json() };
}
const post = (path: string, body: object = {}) => ask('POST', path, body);
const get = (path: string) => ask('GET', path);

async function start(): Promise<number> {
  return (await post('/api/execute', { path: 'upkeep/wait' })).json.execution_id;
}

async function callboard(command: Command, ...argv: string[]): Promise<{ code: number; out: string }> {
  const terminal = recordingTerminal();
  const code = await command.run(readCall(command, argv, { env, terminal }));
  return { code, out: terminal.output() };
}

/** Ages an execution: its start, its events and its commands. */
async function age(executionId: number, minutes: number): Promise<void> {
  await queryRows(postgres.url, `alter table core.event disable trigger event_append_only`);
  for (const change of [
    `update core.execution set start_time = start_time - make_interval(mins => $2) where execution_id = $1`,
    `update core.event set created_at = created_at - make_interval(mins => $2) where execution_id = $1`,
    `update core.command set created_at = created_at - make_interval(mins => $2) where execution_id = $1`,
  ])
    await queryRows(postgres.url, change, [executionId, minutes]);
  await queryRows(postgres.url, `alter table core.event enable trigger event_append_only`);
}

/** A hash over every row of every table, but for the signs of life of servers and workers. */
async function hashOfRows(): Promise<string> {
  const tables = await queryRows<{ name: string }>(
    postgres.url,
    `select relname as name from pg_class where relnamespace = 'core'::regnamespace and relkind in ('r', 'p')
       and not relispartition and relname not in ('runtime', 'lease') order by relname`,
  );
  const hashes: string[] = [];
  for (const { name } of tables) {
    const [row] = await queryRows<{ hash: string | null }>(
      postgres.url,
      `select md5(string_agg(line, '|' order by line)) as hash from (select t::text as line from core.${name} as t) as lines`,
    );
    hashes.push(`${name} ${row?.hash}`);
  }
  return hashes.join('\n');
}

describe('cleanup', () => {
  test('RP-05 a dry run writes no row anywhere and names exactly what a real run then cancels', async () => {
    const [old, older, young] = [await start(), await start(), await start()];
    await age(old, 10);
    await age(older, 20);
    const before = await hashOfRows();
    const dry = await callboard(cleanupCommand, '--older-than-minutes', '7', '--dry-run', '--json');
    expect(await hashOfRows()).toBe(before);
    expect(JSON.parse(dry.out)).toEqual({
      cancelled_count: 2,
      execution_ids: [old, older],
      message: '[DRY RUN] Would cancel 2 stuck executions older than 7 minutes',
      dry_run: true,
    });
    const real = await callboard(cleanupCommand, '--older-than-minutes', '7', '--json');
    expect(JSON.parse(real.out)).toMatchObject({ execution_ids: [old, older], dry_run: false });
    expect((await get(`/api/executions/${young}/status`)).json.status).toBe('running');
    const ends = await queryRows<{ context: { cancelled_by: string; older_than_minutes: number } }>(
      postgres.url,
      `select context from core.event where event_type = 'execution.cancelled' and execution_id = any($1)`,
      [[old, older]],
    );
    expect(ends.map((row) => row.context)).toMatchObject([
      { cancelled_by: 'cleanup', older_than_minutes: 7 },
      { cancelled_by: 'cleanup', older_than_minutes: 7 },
    ]);
    expect((await callboard(cleanupCommand, '--older-than-minutes', '7')).out).toBe(
      'No stuck executions found older than 7 minutes\n',
    );
    await post(`/api/executions/${young}/cancel`);
  });

  test.each([0, -1, 1.5, '5', '5.5', 'five', 1e30, [], {}, true])(
    'RP-06 older_than_minutes %j is refused by name and cancels nothing',
    async (minutes) => {
      const before = await hashOfRows();
      const { status, json } = await post('/api/executions/cleanup', { older_than_minutes: minutes, dry_run: false });
      expect([status, JSON.stringify(json)]).toEqual([422, expect.stringContaining('older_than_minutes')]);
      expect(await hashOfRows()).toBe(before);
    },
  );

  test.each([1e9, Number.MAX_SAFE_INTEGER])(
    'RP-06 older_than_minutes %d is an age that nothing has',
    async (minutes) => {
      const { status, json } = await post('/api/executions/cleanup', { older_than_minutes: minutes, dry_run: true });
      expect([status, json.cancelled_count]).toEqual([200, 0]);
      expect(json.message).toBe(`No stuck executions found older than ${minutes} minutes`);
    },
  );

  test('RP-06 without older_than_minutes it is five', async () => {
    expect((await post('/api/executions/cleanup', { dry_run: true })).json.message).toContain('older than 5 minutes');
  });

  test.each(['0', '-1', '1.5', 'five'])('--older-than-minutes %s is wrong use', async (minutes) => {
    await expect(callboard(cleanupCommand, `--older-than-minutes=${minutes}`)).rejects.toThrow('at least 1');
  });
});

describe('the recovery helper', () => {
  test.each(['api', 'database'])('over the %s finds nothing, then what is stuck, exit code 0 and 2', async (way) => {
    if (way === 'database') env['SVC_DOCTOR_DATABASE_URL'] = postgres.url;
    else delete env['SVC_DOCTOR_DATABASE_URL'];
    const fine = await callboard(doctorCommand, 'detect', '--json');
    expect([fine.code, JSON.parse(fine.out)]).toMatchObject([0, { action: 'detect', severity: 'ok' }]);
    const stuck = await start();
    await age(stuck, 10);
    const found = await callboard(doctorCommand, 'detect', '--json');
    expect(found.code).toBe(2);
    expect(JSON.parse(found.out)).toMatchObject({
      severity: 'anomaly',
      data: {
        status: 'stuck',
        stuck_executions: [{ execution_id: stuck, path: 'upkeep/wait', non_terminal_command_count: 1 }],
        stale_commands: [{ execution_id: stuck, status: 'PENDING', worker_id: null, worker_status: null }],
        summary: { stuck_executions: 1, stale_commands: 1, violations: 0 },
      },
    });
    // Nobody works here.
    const reach = await callboard(doctorCommand, 'reachability', '--json');
    expect([reach.code, JSON.parse(reach.out).data]).toMatchObject([
      2,
      {
        ok: false,
        server_health: { status_code: 200, ok: true },
        postgres: { ok: true },
        worker_pool: { ready_workers: 0 },
      },
    ]);
    await post(`/api/executions/${stuck}/cancel`);
  });

  test('nudges the server, exit code 0, and says so when nobody answers, exit code 3', async () => {
    const nudged = await callboard(doctorCommand, 'repair', '--json');
    expect([nudged.code, JSON.parse(nudged.out)]).toMatchObject([
      0,
      { action: 'repair.trigger_reaper', severity: 'repaired', data: { status: 'ok', status_code: 200 } },
    ]);
    const alone = await callboard(doctorCommand, 'repair', '--server', 'http://127.0.0.1:1');
    expect([alone.code, JSON.parse(alone.out).severity]).toEqual([3, 'error']);
    delete env['SVC_DOCTOR_DATABASE_URL'];
    const blind = await callboard(doctorCommand, 'detect', '--server', 'http://127.0.0.1:1');
    expect([blind.code, JSON.parse(blind.out).severity]).toEqual([3, 'error']);
  });

  test('serves its tools over HTTP, the outcome at top level and under result', async () => {
    const config = readConfig(env);
    const served = await serveDoctor(await startDoctor(config), { host: '127.0.0.1', port: 0 });
    try {
      const call = async (method: string, path: string, body?: string) => {
        const response = await fetch(`${served.url}${path}`, { method, ...(body === undefined ? {} : { body }) });
        return { status: response.status, json: (await response.json()) as ReturnType<typeof JSON.parse> };
      };
      expect((await call('GET', '/healthz')).json).toEqual({ status: 'ok' });
      const { tools } = (await call('GET', '/tools')).json;
      expect(tools.map((tool: { name: string }) => tool.name)).toEqual([
        'detect',
        'reachability',
        'repair_trigger_reaper',
      ]);
      const { json } = await call('POST', '/tools/detect/invoke', '{"stale_seconds": 0.001}');
      const { result, ...outcome } = json;
      expect(result).toEqual(outcome);
      expect(outcome.data.thresholds.stale_seconds).toBe(0.001);
      expect((await call('POST', '/tools/detect/invoke', '[]')).status).toBe(422);
      expect((await call('POST', '/tools/nothing/invoke', '{}')).status).toBe(404);
      expect((await call('GET', '/tools/detect/invoke')).status).toBe(405);
    } finally {
      await served.stop();
    }
  });
});

test('a run that an operator ended in the database is over at once where the bus says so', async () => {
  const id = await start();
  await queryRows(postgres.url, `select core.cancel_execution($1, 'on purpose')`, [id]);
  await until('the run is cancelled', async () => {
    const { json } = await get(`/api/executions/${id}/status`);
    return json.status === 'cancelled' && json.error === 'on purpose';
  });
  expect((await get(`/api/executions/${id}/commands`)).json.commands).toMatchObject([{ status: 'CANCELLED' }]);
});

const BY_HAND = `
insert into core.event (execution_id, catalog_id, event_id, cause_id, event_type, status, node_name, context)
select execution_id, catalog_id, last_event_id + 1, last_event_id + 1, 'execution.cancelled', 'cancelled', path,
  jsonb_build_object('reason', 'by hand', 'cancelled_at', '2026-11-20T10:15:02.113Z')
from core.execution where execution_id = $1`;

test('a row that an operator wrote into the log is folded by reconciliation', async () => {
  const id = await start();
  await queryRows(postgres.url, BY_HAND, [id]);
  expect((await get('/api/admin/invariants')).json.status).toBe('violated');
  const answer = await post('/api/admin/reconcile');
  expect(answer.json).toEqual({ status: 'ok', drained: 0, refolded: 1, unparked: 0, rebuilt: 0 });
  expect((await get(`/api/executions/${id}/status`)).json).toMatchObject({ status: 'cancelled', error: 'by hand' });
  const { commands } = (await get(`/api/executions/${id}/commands`)).json;
  expect(commands.map((command: { status: string }) => command.status)).toEqual(['CANCELLED']);
  expect((await get('/api/admin/invariants')).json).toMatchObject({ status: 'ok' });
});

test('explain says that no worker serves the pool, and the list finds what is stuck', async () => {
  const id = await start();
  const { json } = await get(`/api/executions/${id}/explain`);
  expect(json).toMatchObject({
    stuck: true,
    waiting_on: [{ kind: 'command', step: 'one', command_status: 'PENDING', because: 'no_ready_worker' }],
  });
  expect(json.sentence).toMatch(
    /^Waiting for a worker of pool 'shared' to claim command \d+ \(step 'one'\), pending for \d+ s; no ready worker serves this pool\.$/,
  );
  const listed = (await get('/api/executions?stuck=true')).json.map(
    (each: { execution_id: number }) => each.execution_id,
  );
  expect(listed).toContain(id);
  await post('/api/worker/pool/register', { name: 'helper', pools: ['shared'], instance: 'one' });
  expect((await get(`/api/executions/${id}/explain`)).json).toMatchObject({
    stuck: false,
    waiting_on: [{ because: 'waiting_for_claim' }],
  });
  expect((await get('/api/executions?stuck=true')).json).toEqual([]);
  await post('/api/worker/pool/deregister', { name: 'helper' });
  await post(`/api/executions/${id}/cancel`);
  expect((await get(`/api/executions/${id}/explain`)).json).toMatchObject({ stuck: false, waiting_on: [] });
});

test('the operators’ doors want the token of SVC_INTERNAL_TOKEN', async () => {
  for (const token of [null, 'wrong']) {
    const refused = await ask('GET', '/api/admin/leases', undefined, token);
    expect([refused.status, refused.json.code]).toEqual([401, 'unauthenticated']);
  }
  expect((await ask('GET', '/API/admin/leases', undefined, null)).status).not.toBe(200);
  expect((await ask('GET', '/api/%61dmin/leases', undefined, null)).status).not.toBe(200);
  await post('/api/admin/reconcile');
  const { leases } = (await get('/api/admin/leases')).json;
  expect(leases).toContainEqual(expect.objectContaining({ name: 'reconcile', token: 1 }));
  expect((await ask('GET', '/api/executions', undefined, null)).status).toBe(200);
});

test('a drained process starts nothing and gives nothing, until it is told otherwise', async () => {
  expect((await post('/api/admin/drain', {})).json).toEqual({ draining: true });
  expect((await get('/api/health')).json.status).toBe('draining');
  expect((await post('/api/execute', { path: 'upkeep/wait' })).json.code).toBe('shutting_down');
  expect((await post('/api/admin/drain', { draining: false })).json).toEqual({ draining: false });
  const id = await start();
  await post(`/api/executions/${id}/cancel`);
  const { rows } = (await get('/api/admin/audit?action=admin.drain&limit=1')).json;
  expect(rows).toMatchObject([{ action: 'admin.drain', outcome: 'ok' }]);
});

test('keys are listed without material, and the active one cannot be retired', async () => {
  await post('/api/credentials', { name: 'one', type: 'bearer', data: { token: 'very secret' } });
  expect((await get('/api/admin/keys')).json).toEqual({ active: 'k1', keys: [{ kid: 'k1', rows: 1 }] });
  expect((await callboard(keysCommand, 'rotate')).out).toBe('Everything is sealed with k1.\n');
  await expect(callboard(keysCommand, 'retire', 'k1')).rejects.toThrow('the active one');
});
