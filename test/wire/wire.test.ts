import * as v from 'valibot';
import { describe, expect, test } from 'vitest';
import type { ReportReceipt } from '../../actors/services.ts';
import { commandToWire } from '../../src/wire/command.ts';
import { durationHuman, durationSeconds } from '../../src/wire/duration.ts';
import { eventToWire } from '../../src/wire/event.ts';
import { eventBody, eventItem, toEventInput } from '../../src/wire/event-input.ts';
import { exchangeBody, exchangeToWire, toExchangeRequest } from '../../src/wire/exchange.ts';
import { executionToWire, statusToWire } from '../../src/wire/execution.ts';
import { instant } from '../../src/wire/fields.ts';
import { parseId } from '../../src/wire/ids.ts';
import { paginationOf } from '../../src/wire/pagination.ts';
import { runToWire } from '../../src/wire/start.ts';
import { registerBody, toRegistration } from '../../src/wire/worker.ts';
import { AT, executionRow, granted, INSIGHT, logEvent, NOW_MS, RECEIPT } from '../api/fake-services.ts';

const never = new AbortController().signal;

test.each([
  [0.85, '850ms'],
  [0, '0ms'],
  [0.9996, '1.0s'],
  [1.093, '1.1s'],
  [59.94, '59.9s'],
  [59.96, '1m 0s'],
  [125, '2m 5s'],
  [3599.6, '1h 0m'],
  [11_520, '3h 12m'],
  [187_200, '2d 4h'],
])('%d seconds read as %s', (seconds, text) => {
  expect(durationHuman(seconds)).toBe(text);
});

test('a duration runs to now until it ends, and never backwards', () => {
  expect(durationSeconds(AT, null, NOW_MS)).toBe(1.093);
  expect(durationSeconds(AT, '2026-11-20T10:15:02.213Z', NOW_MS)).toBe(0.1);
  expect(durationSeconds(AT, null, 0)).toBe(0);
});

test.each([
  [1, 1],
  ['41007', 41007],
  [9007199254740991, 9007199254740991],
  ['9007199254740991', 9007199254740991],
])('%j is the id %d', (given, id) => {
  expect(parseId(given)).toBe(id);
});

test.each([
  0,
  -1,
  1.5,
  Number.NaN,
  2 ** 53,
  '',
  '0',
  '01',
  '1e3',
  ' 1',
  '9007199254740992',
  null,
  undefined,
  true,
  [1],
  {},
])('%j is no id', (given) => {
  expect(parseId(given)).toBeNull();
});

test.each([
  ['2026-11-20T12:15:02.113+02:00', '2026-11-20T10:15:02.113Z'],
  ['2026-11-20t10:15:02z', '2026-11-20T10:15:02.000Z'],
])('%s is the instant %s', (given, utc) => {
  expect(v.parse(instant, given)).toBe(utc);
});

test.each(['infinity', '2026-11-20', '2026-13-20T10:15:02Z', '2026-11-20T10:15:02', 5])('%j is no instant', (given) => {
  expect(v.is(instant, given)).toBe(false);
});

test('pages know their neighbours', () => {
  expect(paginationOf(1, 100, 0, false)).toMatchObject({ total_pages: 0, has_next: false, has_prev: false });
  expect(paginationOf(2, 10, 25, true)).toMatchObject({ total_pages: 3, has_next: true, has_prev: true });
  expect(paginationOf(1, 10, null, true)).toMatchObject({ total_events: null, has_next: true });
});

describe('events', () => {
  test('name an attempt that can be stored', () => {
    const of = (attempt: number) => v.safeParse(eventItem, { event_type: 'a.b', attempt });
    expect([of(2_147_483_647).success, of(2_147_483_648).success]).toEqual([true, false]);
    const item = v.parse(eventItem, { event_type: 'a.b', payload: { attempt: Number.MAX_SAFE_INTEGER } });
    expect(toEventInput(item).attempt).toBe(2_147_483_647);
  });

  test.each(['payload', 'context'])('name their command by an id, also in the %s', (name) => {
    const of = (commandId: unknown) => v.safeParse(eventItem, { event_type: 'a.b', [name]: { command_id: commandId } });
    expect([of(7).success, of('7').success, of(null).success]).toEqual([true, true, true]);
    for (const given of ['x', '07', 1.5, {}]) expect(of(given).issues?.[0]?.message).toContain('must be an id');
  });

  test('older names are read, and what stands beside the payload moves into it', () => {
    const body = v.parse(eventBody, {
      execution_id: '7',
      name: 'call.done',
      node_name: 'fetch',
      context: { command_id: '12', attempt: 2 },
      response: { rows: 1 },
      duration_ms: 4,
      status: 'CANCELED',
      event_id: 'own-1',
      informative: true,
      actionable: true,
      created_at: '2026-11-20T12:15:02.113+02:00',
    });
    expect(toEventInput(body)).toEqual({
      type: 'call.done',
      step: 'fetch',
      payload: { command_id: '12', attempt: 2, result: { rows: 1 }, duration_ms: 4 },
      meta: { producer_event_id: 'own-1', informative: true, actionable: true },
      workerId: null,
      status: 'cancelled',
      reportId: 'own-1',
      commandId: 12,
      attempt: 2,
      actionable: true,
      producerTime: AT,
    });
  });

  test('the payload wins over what stands beside it', () => {
    const item = v.parse(eventItem, {
      event_type: 'call.error',
      payload: { error: 'a', result: 1 },
      error: 'b',
      result: 2,
    });
    expect(toEventInput(item).payload).toEqual({ error: 'a', result: 1 });
  });

  test.each([
    [{}],
    [{ event_type: 'Call.done' }],
    [{ event_type: 'call.' }],
    [{ event_type: '.call' }],
    [{ event_type: 'call..done' }],
    [{ event_type: `a${'_a'.repeat(60)}!` }],
    [{ event_type: 'call.done', status: 'odd' }],
    [{ event_type: 'call.done', attempt: '1' }],
    [{ event_type: 'call.done', payload: [] }],
  ])('%j is no event', (item) => {
    expect(v.is(eventItem, item)).toBe(false);
  });

  test('every type of the log fits', () => {
    for (const event_type of ['call.done', 'playbook_started', 'loop.item', 'frame.opened', 'a', 'step._x']) {
      expect(v.is(eventItem, { event_type })).toBe(true);
    }
  });

  test('the columns decide what meta shows', () => {
    const row = logEvent(9, { commandId: 12, attempt: 2, stale: true, meta: { attempt: 1, activation: 1 } });
    expect(eventToWire(row, { executionId: 7, catalogId: 8 }).meta).toEqual({
      command_id: 12,
      attempt: 2,
      activation: 1,
      stale: true,
    });
  });

  test('a result shows its three fields and no other', () => {
    const result = {
      status: 'completed',
      context: { data: 1 },
      reference: { ref: 'r', store: 'db', bytes: 1, sha256: 'x', secret: 1 },
      more: 1,
    };
    const wire = eventToWire(logEvent(9, { result }), { executionId: 7, catalogId: 8 });
    expect(wire.result).toEqual({
      status: 'completed',
      context: { data: 1 },
      reference: { ref: 'r', store: 'db', bytes: 1, sha256: 'x' },
    });
  });
});

describe('the exchange', () => {
  const receipt = (reportId: string): ReportReceipt => ({
    reportId,
    commandId: 1,
    attempt: 1,
    result: 'accepted',
    eventIds: [9],
    commandsGenerated: 0,
    executionStatus: 'running',
    error: null,
  });
  const parse = (body: object) => toExchangeRequest(v.parse(exchangeBody, { worker_id: 'w', ...body }), never);

  test('a malformed report is answered in its place and its neighbours are handled', () => {
    const good = (report_id: string) => ({ report_id, command_id: 1, attempt: 1, outcome: 'ok', data: null });
    const { request, invalid } = parse({
      reports: [good('a'), { report_id: 'b', command_id: 0, attempt: 1, outcome: 'ok' }, good('c'), 5],
    });
    expect(request.reports.map((each) => each.reportId)).toEqual(['a', 'c']);
    const answer = exchangeToWire(
      { reports: [receipt('a'), receipt('c')], commands: [], stop: [], pending: 3 },
      invalid,
      AT,
    );
    expect(answer.reports.map((each) => [each.report_id, each.result])).toEqual([
      ['a', 'accepted'],
      ['b', 'invalid'],
      ['c', 'accepted'],
      [null, 'invalid'],
    ]);
    expect(answer.reports[1]?.error).toContain('body.reports[1].command_id: must be an id');
    expect(answer.queue).toEqual({ pending: 3 });
  });

  test.each([
    [{ outcome: 'ok', events: [] }],
    [{}],
    [{ outcome: 'error' }],
    [{ outcome: 'parked' }],
    [{ outcome: 'done' }],
    [{ events: [{ step: 'a' }] }],
    [{ events: Array(65).fill({ event_type: 'report.note' }) }],
  ])('a report with %j is invalid', (rest) => {
    const { request, invalid } = parse({ reports: [{ report_id: 'a', command_id: 1, attempt: 1, ...rest }] });
    expect([request.reports.length, invalid.size]).toEqual([0, 1]);
  });

  test('null is data, and no data is no data', () => {
    const report = { report_id: 'a', command_id: 1, attempt: 1, outcome: 'ok' };
    const of = (more: object) => parse({ reports: [{ ...report, ...more }] }).request.reports[0]?.outcome ?? {};
    expect(Object.hasOwn(of({ data: null }), 'data')).toBe(true);
    expect(Object.hasOwn(of({}), 'data')).toBe(false);
  });

  test('a call with reports never waits, and a draining worker claims nothing', () => {
    const claim = { claim_id: 'c', max: 4, wait_ms: 30_000 };
    const reports = [{ report_id: 'a', command_id: 1, attempt: 1, outcome: 'cancelled' }];
    expect(parse({ claim }).request.claim).toMatchObject({ max: 4, waitMs: 30_000, claimId: 'c' });
    expect(parse({ claim, reports }).request.claim).toMatchObject({ waitMs: 0 });
    expect(parse({ claim, status: 'draining' }).request.claim).toBeNull();
  });

  test('limits of the envelope hold', () => {
    for (const bad of [
      { reports: Array(257).fill({}) },
      { holding: Array(1025).fill({ command_id: 1, attempt: 1 }) },
      { claim: { claim_id: 'c', max: 257 } },
      { claim: {} },
    ]) {
      expect(v.is(exchangeBody, { worker_id: 'w', ...bad })).toBe(false);
    }
  });
});

describe('registration', () => {
  const of = (body: object) => toRegistration(v.parse(registerBody, { name: 'w', ...body }), 60);

  test('has defaults, and gives three heartbeats of silence', () => {
    expect(of({})).toMatchObject({
      kind: 'worker_pool',
      status: 'ready',
      capacity: 1,
      pools: ['shared'],
      heartbeatSeconds: 15,
      offlineAfterSeconds: 60,
    });
    expect(of({ heartbeat_seconds: 20 }).offlineAfterSeconds).toBe(60);
    expect(of({ heartbeat_seconds: 2 }).offlineAfterSeconds).toBe(6);
    expect(of({ heartbeat_seconds: 2, offline_after_seconds: 30 }).offlineAfterSeconds).toBe(30);
  });

  test('has a process id that can be stored, or none', () => {
    expect(of({ pid: 2_147_483_647 }).pid).toBe(2_147_483_647);
    expect(v.safeParse(registerBody, { name: 'w', pid: 2_147_483_648 }).success).toBe(false);
  });

  test('reads older names', () => {
    expect(of({ component_type: 'broker', base_url: 'http://a', status: 'ACTIVE' })).toMatchObject({
      kind: 'broker',
      uri: 'http://a',
      status: 'ready',
    });
  });
});

describe('executions', () => {
  test('a running one shows what its log says, an ended one its row', () => {
    expect(executionToWire(executionRow(), NOW_MS, INSIGHT)).toMatchObject({
      progress: 50,
      current_step: 'end',
      duration_seconds: 1.093,
      duration_human: '1.1s',
    });
    expect(
      executionToWire(executionRow({ status: 'failed', result: { n: 1 }, error: 'no', progress: 100 }), NOW_MS),
    ).toMatchObject({ progress: 100, result: null, error: 'no' });
  });

  test.each([
    ['running', [false, false, false]],
    ['completed', [true, false, false]],
    ['failed', [true, true, false]],
    ['cancelled', [true, false, true]],
  ] as const)('the status of a %s one', (status, [completed, failed, cancelled]) => {
    expect(statusToWire(executionRow({ status }), INSIGHT, false, NOW_MS)).toMatchObject({
      completed,
      failed,
      cancelled,
      is_cancelled: cancelled,
      variables: {},
    });
  });

  test('a running one is never shown as done, also while its end is being committed', () => {
    const ending = { ...INSIGHT, progress: 100 };
    expect(executionToWire(executionRow(), NOW_MS, ending)).toMatchObject({ status: 'running', progress: 99 });
    expect(statusToWire(executionRow(), ending, false, NOW_MS)).toMatchObject({ status: 'running', progress: 99 });
    const ended = executionRow({ status: 'completed', progress: 100 });
    expect(statusToWire(ended, ending, false, NOW_MS)).toMatchObject({ status: 'completed', progress: 100 });
  });

  test('large variables are shortened', () => {
    const { variables } = statusToWire(executionRow(), INSIGHT, true, NOW_MS);
    expect(variables).toMatchObject({ small: 1, large: { _truncated: true, _size_bytes: 70_002 } });
  });

  test('the older door answers as at the start', () => {
    const waited = { status: 'completed', result: { n: 1 }, error: null } as const;
    expect(runToWire(RECEIPT)).toMatchObject({
      name: 'greet',
      type: 'playbook',
      start_time: AT,
      end_time: null,
      progress: 0,
      result: null,
    });
    expect(runToWire({ ...RECEIPT, waited })).toMatchObject({ execution_status: 'completed', result: { n: 1 } });
  });
});

test('a command of an iteration has a node of its own', () => {
  const wire = commandToWire(
    granted({ iterationIndex: 2, context: { render_context: { a: 1 }, iteration: { index: 2 } } }),
    AT,
  );
  expect(wire).toMatchObject({
    node_id: 'start#2',
    node_name: 'start',
    server_time: AT,
    context: { tool_config: { kind: 'noop' }, render_context: { a: 1 }, iteration: { index: 2 }, input: {}, spec: {} },
    meta: { iteration_index: 2, max_attempts: 5 },
  });
});
