import { expect, test } from 'vitest';
import { DomainError, type RefusalCode } from '../../actors/errors.ts';
import type { BatchRow } from '../../actors/ports.ts';
import type { BatchRequest } from '../../actors/services.ts';
import { batchRow, fakeServices } from './fake-services.ts';
import { ask, testHost } from './test-host.ts';

const NOTE = { event_type: 'report.note', step: 'fetch', payload: { rows: 3 } };

function post(body: object, headers: Record<string, string> = {}, accept?: (request: BatchRequest) => never) {
  const requests: BatchRequest[] = [];
  const { app } = testHost(
    fakeServices({
      batches: {
        accept: async (request) => {
          requests.push(request);
          accept?.(request);
          const { idempotencyKey } = request;
          return { requestId: 41100, eventIds: [9], queueDepth: 1, duplicate: false, idempotencyKey };
        },
      },
    }),
  );
  return ask(app, 'POST', '/api/events/batch', { payload: body, headers }).then((answer) => ({ answer, requests }));
}

test('a batch is answered 202 in the form of the contract', async () => {
  const { answer, requests } = await post(
    { execution_id: '41007', events: [NOTE], worker_id: 'w7' },
    { 'idempotency-key': 'k' },
  );
  expect(answer.status).toBe(202);
  expect(answer.json).toEqual({
    ...{ status: 'accepted', request_id: '41100', event_ids: [9], commands_generated: 0, queue_depth: 1 },
    ...{ duplicate: false, idempotency_key: 'k' },
  });
  expect(requests).toEqual([expect.objectContaining({ executionId: 41007, workerId: 'w7', idempotencyKey: 'k' })]);
  expect(requests[0]?.events).toEqual([expect.objectContaining({ type: 'report.note', actionable: false })]);
});

test('one byte more is another body, the key and the order of names are not', async () => {
  const hash = async (body: object, key = 'k') =>
    (await post(body, { 'x-idempotency-key': key })).requests[0]?.bodyHash;
  const one = await hash({ execution_id: 41007, events: [NOTE] });
  expect(
    await hash(
      { events: [{ payload: NOTE.payload, step: NOTE.step, event_type: NOTE.event_type }], execution_id: 41007 },
      'l',
    ),
  ).toBe(one);
  expect(await hash({ execution_id: 41007, idempotency_key: 'm', events: [NOTE] })).toBe(one);
  expect(await hash({ execution_id: 41007, events: [{ ...NOTE, step: 'fetch2' }] })).not.toBe(one);
});

test('without an execution in the envelope the items name one, and the same', async () => {
  const named = { ...NOTE, execution_id: 41007 };
  expect((await post({ events: [named, named] })).requests[0]?.executionId).toBe(41007);
  for (const body of [
    { events: [] },
    { events: [NOTE] },
    { events: [named, NOTE] },
    { events: [named, { ...NOTE, execution_id: 41008 }] },
    { execution_id: 41007, events: [{ ...NOTE, execution_id: 41008 }] },
    { execution_id: null, events: [named] },
  ]) {
    expect((await post(body)).answer.status).toBe(422);
  }
});

test('sizes have limits, and a bad item is named by its place', async () => {
  const many = Array.from({ length: 257 }, () => NOTE);
  expect((await post({ execution_id: 1, events: many })).answer.status).toBe(422);
  expect((await post({ execution_id: 1, events: many.slice(1) })).answer.status).toBe(202);
  const large = Array.from({ length: 5 }, () => ({ ...NOTE, payload: { blob: 'x'.repeat(500_000) } }));
  expect((await post({ execution_id: 1, events: large })).answer.status).toBe(422);
  const { answer } = await post({ execution_id: 1, events: [NOTE, { step: 'a' }] });
  expect(answer.json.errors.join()).toContain('events[1]');
});

test('keys are visible ASCII of at most 255 characters', async () => {
  for (const key of ['', 'a b', 'ü', 'x'.repeat(256)]) {
    expect((await post({ execution_id: 1, events: [] }, { 'idempotency-key': key })).answer.status).toBe(422);
  }
  const { answer } = await post({ execution_id: 1, events: [] }, { 'idempotency-key': '__proto__' });
  expect(answer.json.idempotency_key).toBe('__proto__');
});

test('refusals of the intake are 503 with a code, a moment to wait, and the request where there is one', async () => {
  const codes: readonly RefusalCode[] = ['queue_unavailable', 'worker_unavailable', 'ack_timeout', 'enqueue_error'];
  for (const code of codes) {
    const { answer } = await post({ execution_id: 1, events: [] }, {}, () => {
      throw new DomainError(code, 'No', code === 'ack_timeout' ? { request_id: '41100' } : {});
    });
    expect(answer.status).toBe(503);
    expect(answer.headers['retry-after']).toBe('1');
    expect(answer.json.code).toBe(code);
    expect(answer.json.detail).toEqual({
      code,
      message: 'No',
      ...(code === 'ack_timeout' ? { request_id: '41100' } : {}),
    });
  }
});

test('the state of a batch is read by its id', async () => {
  const { app } = testHost();
  const { json } = await ask(app, 'GET', '/api/events/batch/41100/status');
  expect(json).toMatchObject({ request_id: '41100', state: 'completed', status: 'completed', event_ids: [9, 10, 11] });
  expect(json).not.toHaveProperty('body_hash');
  const none = testHost(fakeServices({ batches: { find: async () => null } }));
  for (const id of ['41100', 'none']) {
    const answer = await ask(none.app, 'GET', `/api/events/batch/${id}/status`);
    expect([answer.status, answer.json.detail]).toEqual([404, `Batch request not found: ${id}`]);
  }
});

async function stream(
  states: readonly (BatchRow | 'unknown' | 'error')[],
  headers: Record<string, string> = {},
  query = '',
) {
  let left = 0;
  const { app } = testHost(
    fakeServices({
      batches: {
        follow: (_id, onState) => {
          queueMicrotask(() => {
            for (const state of states) onState(state);
          });
          return () => {
            left += 1;
          };
        },
      },
    }),
  );
  const { text } = await ask(app, 'GET', `/api/events/batch/41100/stream${query}`, { headers });
  const frames = [...text.matchAll(/event: (\w+)\nid: (\d+)\ndata: (.+)\n/g)].map(([, event, id, data]) => ({
    event,
    id: Number(id),
    state: JSON.parse(data ?? '').state,
  }));
  return { frames, left };
}

test('a stream sends each state as a numbered frame and closes at the end', async () => {
  const { frames, left } = await stream([
    batchRow({ state: 'accepted' }),
    batchRow({ state: 'processing' }),
    batchRow(),
  ]);
  expect(frames).toEqual([
    { event: 'status', id: 1, state: 'accepted' },
    { event: 'status', id: 2, state: 'processing' },
    { event: 'status', id: 3, state: 'completed' },
  ]);
  expect(left).toBe(1);
});

test('a client that comes back gets the present state first and counts on', async () => {
  const { frames } = await stream([batchRow({ state: 'processing' }), batchRow()], { 'last-event-id': '1' });
  expect(frames.map(({ id, state }) => [id, state])).toEqual([
    [2, 'processing'],
    [3, 'completed'],
  ]);
});

test('what is unknown, in trouble or out of time is one last frame', async () => {
  expect((await stream(['unknown'])).frames.map(({ state }) => state)).toEqual(['not_found']);
  expect((await stream(['error'])).frames.map(({ state }) => state)).toEqual(['error']);
  const { frames } = await stream([batchRow({ state: 'accepted' })], {}, '?timeout_seconds=1');
  expect(frames.map(({ state }) => state)).toEqual(['accepted', 'timeout']);
});
