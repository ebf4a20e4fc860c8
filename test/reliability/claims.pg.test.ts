/** Area B of the catalogue of checks: claims and commands, raced for, forged, lost and abandoned over HTTP. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startProxy } from '../support/proxy.ts';
import { askAt, type Granted, Service, until } from './service.ts';

const RACERS = 32;
const RACED = 1_000;
const DOOMED = 600;
const OFFLINE_SECONDS = 4;
let service: Service;
/** Runs of its own, begun early: its worker has to be silent for a while. */
let rescued: Promise<readonly Granted[]>;

const loopOf = (items: number) =>
  `  - { step: each, loop: { in: ${items}, iterator: n, spec: { mode: parallel, max_in_flight: ${items} } }, tool: { kind: noop } }\n`;

beforeAll(async () => {
  service = await Service.start();
  await service.register('claims/one', '  - { step: one, tool: { kind: noop } }\n');
  await service.register('claims/raced', loopOf(RACED));
  await service.register('claims/doomed', loopOf(DOOMED));
  await service.enlist('alice');
  await service.enlist('bob');
  rescued = rescue();
  // Whoever fails before it is waited for must not end the process.
  rescued.catch(() => {});
});
afterAll(() => service.stop());

async function only(executionId: number, worker = 'alice'): Promise<Granted> {
  const commands = await service.claim(worker, 64);
  const command = commands.find((each) => each.execution_id === executionId);
  if (command === undefined) throw new Error('the command was not granted');
  return command;
}

/** A worker takes everything of a run and is never heard of again; another one asks for work. */
async function rescue(): Promise<readonly Granted[]> {
  await service.enlist('doomed', { pools: ['doomed'], offline_after_seconds: OFFLINE_SECONDS });
  await service.enlist('rescuer', { pools: ['doomed'] });
  await service.start('claims/doomed', { execution_pool: 'doomed' });
  for (let taken = 0; taken < DOOMED; ) taken += (await service.claim('doomed', 256)).length;
  const again = new Map<number, Granted>();
  await until(
    'everything is claimed again',
    async () => {
      for (const command of await service.claim('rescuer', 256, { wait_ms: 500 }))
        again.set(command.command_id, command);
      return again.size === DOOMED;
    },
    60_000,
  );
  return [...again.values()];
}

test(`CL-01 ${RACERS} workers race for ${RACED} commands: one winner each, and losers hear it politely`, async () => {
  const names = Array.from({ length: RACERS }, (_, n) => `racer-${n}`);
  await Promise.all(names.map((name) => service.enlist(name, { pools: ['raced'] })));
  const id = await service.start('claims/raced', { execution_pool: 'raced' });
  const racer = async (name: string) => {
    const won: number[] = [];
    for (let empty = 0; empty < 2; ) {
      const commands = await service.claim(name, 16);
      empty = commands.length === 0 ? empty + 1 : 0;
      won.push(...commands.map((each) => each.command_id));
    }
    return won;
  };
  const won = (await Promise.all(names.map(racer))).flat();
  expect(won).toHaveLength(RACED);
  expect(new Set(won).size).toBe(RACED);
  // All at once for the same command: it is held, whoever asks.
  const answers = await Promise.all(
    names.map((name) => service.post(`/api/commands/${won[0]}/claim`, { worker_id: name })),
  );
  expect(answers.map((answer) => answer.status).sort()).toEqual([200, ...Array(RACERS - 1).fill(409)]);
  expect(answers.find((answer) => answer.status === 409)?.json).toMatchObject({
    code: 'active_claim',
    detail: { claim_policy: { decision: 'refuse', attempt: 1 } },
  });
  const [claims] = await service.rows(
    `select count(*)::int as n, count(distinct command_id)::int as commands, max(attempt)::int as attempt
     from core.event where execution_id = $1 and event_type = 'command.claimed'`,
    [id],
  );
  expect(claims).toEqual({ n: RACED, commands: RACED, attempt: 1 });
}, 60_000);

test('CL-01 a fresh command that 32 ask for by its id has one holder', async () => {
  const names = Array.from({ length: RACERS }, (_, n) => `racer-${n}`);
  for (let round = 0; round < 5; round += 1) {
    const id = await service.start('claims/one', { execution_pool: 'nobody' });
    const [command] = await service.rows<{ id: number }>(
      'select command_id::int as id from core.command where execution_id = $1',
      [id],
    );
    const ask = (name: string) => service.post(`/api/commands/${command?.id}/claim`, { worker_id: name });
    const answers = await Promise.all(names.map(ask));
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, ...Array(RACERS - 1).fill(409)]);
  }
});

let cuts = 0;
test('CL-02 a claim whose answer is lost gives the same again when it is repeated, and nobody else gets it', async () => {
  const proxy = await startProxy({ port: Number(new URL(service.url).port) });
  cuts += 1;
  const pool = `cut-off-${cuts}`;
  try {
    await service.enlist(pool, { pools: [pool] });
    await service.enlist('other', { pools: [pool] });
    const id = await service.start('claims/one', { execution_pool: pool });
    proxy.set('drop');
    const body = { worker_id: pool, max: 4, claim_id: `claim-${cuts}` };
    await expect(
      askAt(`http://127.0.0.1:${proxy.port}`, 'POST', '/api/commands/claim', body, { connection: 'close' }),
    ).rejects.toThrow();
    const holder = `select worker_id as holder from core.command where execution_id = $1 and status = 'CLAIMED'`;
    await until('the claim is committed', async () => (await service.rows(holder, [id])).length === 1);
    proxy.set('pass');
    expect(await service.claim('other', 4)).toEqual([]);
    const again = await askAt(`http://127.0.0.1:${proxy.port}`, 'POST', '/api/commands/claim', body);
    expect(again.json.commands).toMatchObject([{ execution_id: id, attempt: 1 }]);
    const [{ command_id }] = again.json.commands;
    const byId = await service.post(`/api/commands/${command_id}/claim`, { worker_id: pool });
    expect([byId.status, byId.json.attempt]).toEqual([200, 1]);
    expect(proxy.swallowed).toBeGreaterThan(0);
  } finally {
    await proxy.close();
  }
});

test('CL-05 reports with a forged attempt, of a command of another worker or execution are unknown, and nothing is written', async () => {
  const [id, other] = [await service.start('claims/one'), await service.start('claims/one')];
  const command = await only(id);
  const before = await service.hashOfRows();
  const { command_id, attempt } = command;
  const forged = [
    { report_id: 'f1', command_id, attempt: attempt + 1, outcome: 'ok' },
    { report_id: 'f2', command_id, attempt: 2_000_000_000, outcome: 'ok' },
    { report_id: 'f3', command_id, attempt, execution_id: other, outcome: 'ok' },
    { report_id: 'f4', command_id: 999_999_999, attempt: 1, outcome: 'ok' },
  ];
  const answer = await service.exchange('alice', { reports: forged });
  expect(answer.json.reports.map((each: { result: string }) => each.result)).toEqual(Array(4).fill('unknown'));
  const stranger = await service.exchange('bob', {
    reports: [{ report_id: 'f5', command_id, attempt, outcome: 'ok' }],
  });
  expect(stranger.json.reports[0]).toMatchObject({ result: 'unknown', event_ids: [] });
  const events = [
    { execution_id: other, event_type: 'call.done', command_id },
    { execution_id: id, event_type: 'call.done', command_id: 999_999_999 },
  ];
  for (const event of events) expect((await service.post('/api/events', event)).status).toBe(404);
  const batch = { execution_id: other, events: [{ event_type: 'call.done', command_id }] };
  expect((await service.post('/api/events/batch', batch)).status).toBe(422);
  expect(await service.hashOfRows()).toBe(before);
  expect(await service.report('alice', [command])).toMatchObject([{ result: 'accepted' }]);
});

test('CL-07 a command of a finished run is not given out, and who holds one is told to drop it', async () => {
  const id = await service.start('claims/one');
  const { command_id, attempt } = await only(id);
  await service.post(`/api/executions/${id}/cancel`, { reason: 'enough' });
  const claim = await service.post(`/api/commands/${command_id}/claim`, { worker_id: 'bob' });
  expect([claim.status, claim.json.code]).toEqual([409, 'already_terminal']);
  const told = await service.exchange('alice', { holding: [{ command_id, attempt }] });
  expect(told.json.stop).toEqual([{ command_id, attempt, reason: 'execution_cancelled' }]);
  const [late] = await service.report('alice', [{ command_id, attempt, execution_id: id, step: 'one' }]);
  expect(late?.result).toBe('late');
});

test.each([
  '999999999',
  '0',
  '-1',
  '1e3',
  '%205',
  '5%20',
  '+5',
  '0x10',
  '1.5',
  '05',
  'abc',
  '%00',
  '9007199254740992',
  '9223372036854775807',
  '9223372036854775808',
  '9'.repeat(400),
])('CL-08 a claim of command %s is not found or refused, never a failure of the server', async (text) => {
  const answer = await service.post(`/api/commands/${text}/claim`, { worker_id: 'alice' });
  expect([400, 404, 422]).toContain(answer.status);
  expect((await service.get(`/api/commands/${text}`)).status).toBeLessThan(500);
});

test(`CL-11 a worker that took ${DOOMED} commands and died: all of them run again, without waiting for one sweep after the other`, async () => {
  const began = performance.now();
  const commands = await rescued;
  expect(commands.every((command) => command.attempt === 2)).toBe(true);
  expect(performance.now() - began).toBeLessThan(60_000);
  const [first] = commands;
  const holders = await service.rows(
    `select worker_id as holder, count(*)::int as n from core.command where execution_id = $1 group by 1`,
    [first?.execution_id],
  );
  expect(holders).toEqual([{ holder: 'rescuer', n: DOOMED }]);
}, 90_000);

test('after all of this the logs keep their laws', async () => {
  expect(await service.brokenLaws()).toEqual([]);
});
