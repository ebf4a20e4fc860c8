/** Batch intake, and how far a batch is (api 2.6): one write, one read, one stream. */
import { createHash } from 'node:crypto';
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import type { BatchRow } from '../../actors/ports.ts';
import { canonicalJson } from '../../machines/canonical-json.ts';
import { batchAnswer, batchBody, batchState, batchToWire, receiptToWire, toBatchRequest } from '../wire/batch.ts';
import { parseId } from '../wire/ids.ts';
import { queryInteger } from '../wire/query-fields.ts';
import type { ApiContext } from './context.ts';
import { refuseOutcomes } from './events.ts';
import { headerKeyOf } from './executions.ts';
import { type Route, route } from './route.ts';
import type { EventStream } from './streams.ts';

const tag = 'Events';
const params = v.object({ request_id: v.string() });
const TIMEOUT_SECONDS = 30;

export function batchRoutes({ services, streams, isEnforced }: ApiContext): Route[] {
  const { batches, executionAccess } = services;

  /** Throws DomainError 403. What is not known yet, or cannot be looked up just now, is the stream's to say. */
  async function refuseHidden(requestId: number | null): Promise<void> {
    const row = requestId === null ? null : await batches.find(requestId);
    if (row !== null) await executionAccess.check(row.executionId, 'view');
  }

  return [
    route({
      method: 'POST',
      path: '/api/events/batch',
      level: 'seed',
      role: ['W', 'O'],
      tag,
      summary: 'Accept a batch of events of one execution; 202 when all of it is stored, handled afterwards',
      status: 202,
      body: batchBody,
      bodyLimit: 'general',
      answer: batchAnswer,
      codes: [
        'not_found',
        'idempotency_conflict',
        'queue_unavailable',
        'worker_unavailable',
        'ack_timeout',
        'enqueue_error',
      ],
      hot: true,
      example: {
        request: { execution_id: 41007, events: [{ event_type: 'report.note', step: 'fetch', payload: { rows: 3 } }] },
      },
      handle: async ({ body, request, reply }) => {
        const batch = toBatchRequest(body, headerKeyOf(request), (value) =>
          createHash('sha256').update(canonicalJson(value), 'utf8').digest('hex'),
        );
        refuseOutcomes(request, batch.events);
        const receipt = await batches.accept(batch);
        reply.code(202);
        return receiptToWire(receipt);
      },
    }),
    route({
      method: 'GET',
      path: '/api/events/batch/{request_id}/status',
      level: 'seed',
      role: ['W', 'V'],
      tag,
      summary: 'How far a batch is',
      params,
      answer: batchState,
      codes: ['not_found'],
      handle: async ({ params }) => {
        const requestId = parseId(params.request_id);
        const row = requestId === null ? null : await batches.find(requestId);
        if (row === null) throw new DomainError('not_found', `Batch request not found: ${params.request_id}`);
        await executionAccess.check(row.executionId, 'view');
        return batchToWire(row);
      },
    }),
    route({
      method: 'GET',
      path: '/api/events/batch/{request_id}/stream',
      level: 'seed',
      role: ['W', 'V'],
      tag,
      summary: 'Follow a batch: frames `status`, the present state first, until it has ended',
      params,
      query: v.object({ timeout_seconds: v.optional(queryInteger(1, 300)) }),
      mediaType: 'text/event-stream',
      codes: ['pool_saturated'],
      waits: true,
      handle: async ({ params, query, request, reply }) => {
        if (request.method === 'HEAD') return reply.type('text/event-stream; charset=utf-8').send();
        const requestId = parseId(params.request_id);
        if (isEnforced) await refuseHidden(requestId);
        const stream = streams.start(request, reply, 'batch');
        const sender = createSender(stream, params.request_id, lastId(request.headers['last-event-id']));
        if (requestId === null) sender.end({ state: 'not_found' });
        else {
          const timer = setTimeout(
            () => sender.end({ state: 'timeout' }),
            (query.timeout_seconds ?? TIMEOUT_SECONDS) * 1000,
          );
          const unfollow = batches.follow(requestId, sender.show);
          stream.onClose(() => {
            clearTimeout(timer);
            unfollow();
          });
        }
        return reply;
      },
    }),
  ];
}

/** Frames in order; a reconnecting client counts on from the last one it saw. */
function createSender(stream: EventStream, requestId: string, from: number) {
  let count = from;
  let line: Promise<void> = Promise.resolve();
  let isOver = false;
  function send(data: unknown, isLast: boolean): void {
    if (isOver) return;
    isOver = isLast;
    count += 1;
    const id = count;
    line = line.then(() => stream.send({ event: 'status', id, data }));
    if (isLast) line.then(() => stream.end());
  }
  return {
    show(row: BatchRow | 'unknown' | 'error'): void {
      if (row === 'unknown') send({ request_id: requestId, state: 'not_found' }, true);
      else if (row === 'error') send({ request_id: requestId, state: 'error' }, true);
      else send(batchToWire(row), row.state === 'completed' || row.state === 'failed');
    },
    end(data: { readonly state: string }): void {
      send({ request_id: requestId, ...data }, true);
    },
  };
}

function lastId(header: string | string[] | undefined): number {
  return typeof header === 'string' && /^[0-9]{1,15}$/.test(header) ? Number(header) : 0;
}
