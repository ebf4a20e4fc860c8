/** Area C of the catalogue of checks: the intake of batches, over HTTP and on a real database. */
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startProxy } from '../support/proxy.ts';
import { type Answer, askAt, type Granted, Service, until } from './service.ts';

const SAME = 16;
const TIMEOUT_SECONDS = 2;
let service: Service;
let reports = 0;

beforeAll(async () => {
  // Room for a slow machine; what happens at its end is BI-06.
  service = await Service.start({ SVC_BATCH_ACCEPT_ENQUEUE_TIMEOUT_SECONDS: String(TIMEOUT_SECONDS) });
  await service.register(
    'batches/two',
    '  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: b }] } }\n  - { step: b, tool: { kind: noop } }\n',
  );
  await service.enlist('alice');
});
afterAll(() => service.stop());

const note = (n: number) => ({ event_type: 'report.note', step: 'a', payload: { n } });
const batch = (executionId: number, events: readonly object[], key: string | null = null) =>
  service.post(
    '/api/events/batch',
    { execution_id: executionId, events },
    key === null ? {} : { 'idempotency-key': key },
  );
const state = async (requestId: string) => (await service.get(`/api/events/batch/${requestId}/status`)).json;
const ended = (requestId: string) =>
  until(`batch ${requestId} has ended`, async () => ['completed', 'failed'].includes((await state(requestId)).state));
const markers = async (executionId: number) =>
  (
    await service.rows<{ type: string }>(
      `select event_type as type from core.event where execution_id = $1 and event_type like 'batch.%' order by event_id`,
      [executionId],
    )
  ).map((row) => row.type);

/** What a worker that speaks in batches sends of a command. */
function done({ command_id, attempt }: Granted): readonly object[] {
  reports += 1;
  const of = { command_id, attempt, worker_id: 'alice' };
  return [
    { ...of, event_type: 'call.done', payload: { result: { n: reports } } },
    { ...of, event_type: 'command.completed', report_id: `done-${reports}` },
  ];
}

test(`BI-01 the same batch sent ${SAME} times at once is accepted once, and every answer has the same ids`, async () => {
  const id = await service.start('batches/two');
  const answers: Answer[] = await Promise.all(
    Array.from({ length: SAME }, () => batch(id, [note(1), note(2)], 'same')),
  );
  expect(answers.map((answer) => answer.status)).toEqual(Array(SAME).fill(202));
  expect(new Set(answers.map(({ json }) => `${json.request_id} ${json.event_ids}`)).size).toBe(1);
  expect(answers.filter(({ json }) => json.duplicate)).toHaveLength(SAME - 1);
  await ended(answers[0]?.json.request_id);
  expect(await markers(id)).toEqual(['batch.accepted', 'batch.processing', 'batch.completed']);
  const other = await batch(id, [note(1), note(3)], 'same');
  expect([other.status, other.json.code]).toEqual([409, 'idempotency_conflict']);
});

test('BI-03 a batch whose answer was lost after the commit is a duplicate with the same ids, and is processed once', async () => {
  const id = await service.start('batches/two');
  const proxy = await startProxy({ port: Number(new URL(service.url).port) });
  try {
    proxy.set('drop');
    const send = () =>
      askAt(
        `http://127.0.0.1:${proxy.port}`,
        'POST',
        '/api/events/batch',
        { execution_id: id, events: [note(1)] },
        {
          'idempotency-key': 'lost',
        },
      );
    await expect(send()).rejects.toThrow();
    await until('the batch is stored', async () => (await markers(id)).length > 0);
    proxy.set('pass');
    const again = await send();
    expect(again.json).toMatchObject({ duplicate: true, event_ids: [expect.any(Number)] });
    await ended(again.json.request_id);
    expect((await send()).json).toEqual({ ...again.json, queue_depth: expect.any(Number) });
    expect(await markers(id)).toEqual(['batch.accepted', 'batch.processing', 'batch.completed']);
    expect(proxy.swallowed).toBeGreaterThan(0);
  } finally {
    await proxy.close();
  }
});

test('BI-06 a write that takes longer than the time for it is answered ack_timeout and counted; the repeat is the duplicate', async () => {
  const id = await service.start('batches/two');
  const holder = new pg.Client({ connectionString: service.databaseUrl });
  await holder.connect();
  const before = await service.metric('svc_batch_ack_timeout_total');
  try {
    await holder.query('begin');
    await holder.query(`select pg_advisory_xact_lock(hashtextextended('core.execution', $1))`, [id]);
    const slow = await batch(id, [note(1)], 'slow');
    expect([slow.status, slow.json.code, slow.json.detail.request_id]).toEqual([
      503,
      'ack_timeout',
      expect.any(String),
    ]);
    expect(await service.metric('svc_batch_ack_timeout_total')).toBe(before + 1);
    await holder.query('commit');
    await until('the write went on', async () => (await markers(id)).length > 0);
    const again = await batch(id, [note(1)], 'slow');
    expect(again.json).toMatchObject({ duplicate: true, request_id: slow.json.detail.request_id });
    await ended(again.json.request_id);
    expect(await markers(id)).toEqual(['batch.accepted', 'batch.processing', 'batch.completed']);
  } finally {
    await holder.end();
  }
});

test('BI-10 a batch is all or nothing: none, one and 256 events are taken; more, or one bad one, leave nothing', async () => {
  const id = await service.start('batches/two');
  for (const size of [0, 1, 256]) {
    const { status, json } = await batch(
      id,
      Array.from({ length: size }, (_, n) => note(n)),
    );
    expect([status, json.event_ids.length]).toEqual([202, size]);
    await ended(json.request_id);
  }
  const before = await service.hashOfRows();
  const many = (size: number) => Array.from({ length: size }, (_, n) => note(n));
  for (const size of [257, 10_000]) expect([413, 422]).toContain((await batch(id, many(size))).status);
  const bad = [
    { event_type: 'report.note' },
    { event_type: 'NO' },
    { event_type: 'command.issued', step: 'a' },
    { event_type: 'call.done', command_id: 999_999_999 },
    { event_type: 'report.note', step: 'a', payload: 'text' },
  ];
  for (const item of bad) {
    const { status, json } = await batch(id, [note(1), note(2), item, note(3)]);
    expect([status, JSON.stringify(json)]).toEqual([422, expect.stringContaining('events[2]')]);
  }
  expect(await service.hashOfRows()).toBe(before);
});

test('BI-11 a key is echoed as it is or refused, and leads nowhere else', async () => {
  const id = await service.start('batches/two');
  for (const key of [
    'k',
    'x'.repeat(255),
    '__proto__',
    'constructor',
    "';drop/**/table/**/core.event;--",
    '%0d%0aSet-Cookie:x',
  ]) {
    const answer = await batch(id, [], key);
    expect([answer.status, answer.json.idempotency_key]).toEqual([202, key]);
    await ended(answer.json.request_id);
  }
  const inBody = (key: unknown) =>
    service.post('/api/events/batch', { execution_id: id, events: [], idempotency_key: key });
  const before = await service.hashOfRows();
  for (const key of ['', 'x'.repeat(256), 'x'.repeat(10_000), 'ü', 'a b', 'a\r\nx: y', 'a\u0000', '\ud800', 7, {}])
    expect((await inBody(key)).status, JSON.stringify(key)).toBe(422);
  expect([422, 431]).toContain((await batch(id, [], 'x'.repeat(10_000))).status);
  expect(await service.hashOfRows()).toBe(before);
  expect(({} as Record<string, unknown>)['k']).toBeUndefined();
});

test('BI-13 what a batch says it took adds up: all fields, nothing negative, no part above its whole', async () => {
  const ids = await Promise.all(Array.from({ length: 6 }, () => service.start('batches/two')));
  const commands = (await service.claim('alice', 256)).filter((each) => ids.includes(each.execution_id));
  const accepted = await Promise.all(
    commands.map(async (command, n) => {
      const events = [...done(command), ...Array.from({ length: n * 20 }, (_, at) => note(at))];
      return (await batch(command.execution_id, events)).json.request_id as string;
    }),
  );
  await Promise.all(accepted.map(ended));
  const rows = await service.rows<{ of: number; context: Record<string, number | boolean> }>(
    `select execution_id::int as of, result -> 'context' as context from core.event
     where execution_id = any($1) and event_type = 'batch.completed'`,
    [ids],
  );
  expect(rows).toHaveLength(6);
  for (const { of, context } of rows) {
    const ms = Object.entries(context).filter(([name]) => name.endsWith('_ms'));
    expect(ms.length).toBeGreaterThanOrEqual(5);
    for (const [name, value] of ms) expect(Number(value), name).toBeGreaterThanOrEqual(0);
    const {
      transaction_ms: transaction,
      engine_total_ms: engine,
      commit_ms: commit,
      processing_ms: processing,
    } = context;
    expect(Number(transaction)).toBeCloseTo(Number(engine) + Number(commit), 3);
    expect(Number(transaction)).toBeLessThanOrEqual(Number(processing) + 0.001);
    const [issued] = await service.rows<{ n: number }>(
      `select count(*)::int as n from core.event where execution_id = $1 and event_type = 'command.issued' and event_id > 3`,
      [of],
    );
    expect([context['commands_generated'], context['actionable_event']]).toEqual([issued?.n, true]);
  }
});

test('after all of this the logs keep their laws', async () => {
  await until('the last batches have ended', async () => {
    const open = `select count(*)::int as n from core.batch_request where state in ('accepted', 'processing')`;
    return (await service.rows<{ n: number }>(open))[0]?.n === 0;
  });
  expect(await service.brokenLaws()).toEqual([]);
});
