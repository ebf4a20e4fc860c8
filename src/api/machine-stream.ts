/**
 * Following the chart of an execution by server-sent events (api 2.16): a key frame of the present, then every frame
 * that changes something, pulled from the log, so that none is missed or doubled. `id` is the number of the frame.
 */
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import { id } from '../wire/ids.ts';
import { frameToWire } from '../wire/machine.ts';
import { queryInteger } from '../wire/query-fields.ts';
import type { ApiContext } from './context.ts';
import { createBell, lastEventIdOf } from './execution-stream.ts';
import { type Route, route } from './route.ts';
import type { EventStream } from './streams.ts';

const PAGE = 500;

export function machineStreamRoutes(context: ApiContext): Route[] {
  const { services, streams, log } = context;
  return [
    route({
      method: 'GET',
      path: '/api/executions/{execution_id}/machine/stream',
      level: 'plus',
      role: ['V'],
      tag: 'Machines',
      summary: 'Follow the chart of an execution: `frame` events that begin with a key frame and, at its end, `end`',
      params: v.object({ execution_id: id }),
      query: v.object({ after: v.optional(queryInteger(0, Number.MAX_SAFE_INTEGER)) }),
      mediaType: 'text/event-stream',
      codes: ['not_found', 'pool_saturated'],
      waits: true,
      handle: async ({ params, query, request, reply }) => {
        const row = await services.reads.execution(params.execution_id);
        if (row === null) throw new DomainError('not_found', `Execution ${params.execution_id} not found`);
        if (request.method === 'HEAD') return reply.type('text/event-stream; charset=utf-8').send();
        const after = Math.max(query.after ?? 0, lastEventIdOf(request.headers['last-event-id']));
        const stream = streams.start(request, reply, 'machine');
        try {
          await follow(context, stream, row.executionId, after);
        } catch (error) {
          // The answer has begun, so the client sees the stream end and comes back with Last-Event-ID.
          log.warn('A stream ended by an error', { request_id: request.id, execution_id: row.executionId, error });
        } finally {
          stream.end();
        }
        return reply;
      },
    }),
  ];
}

/** `after` 0 begins with the present; any other number goes on behind that frame, with nothing left out. */
async function follow(context: ApiContext, stream: EventStream, executionId: number, after: number): Promise<void> {
  const { inspection, executions, reads } = context.services;
  const first = await inspection.keyframe(executionId);
  const bell = createBell(stream, first.event.eventId);
  const unfollow = executions.follow(executionId, bell.notice);
  stream.onClose(unfollow);
  try {
    let cursor = after;
    if (after === 0 || after > first.n) {
      await stream.send({ event: 'frame', id: first.n, data: frameToWire(first) });
      cursor = first.n;
    }
    for (;;) {
      // The bell is silenced before the log is read, so that a commit after the reading rings again.
      bell.reset();
      const row = await reads.execution(executionId);
      if (row === null || !stream.open) return;
      cursor = await replay(cursor);
      if (row.status !== 'running') return await stream.send({ event: 'end', data: { status: row.status, n: cursor } });
      await bell.next();
      if (!stream.open) return;
    }
  } finally {
    unfollow();
  }

  async function replay(from: number): Promise<number> {
    let cursor = from;
    while (stream.open) {
      const { frames, nextAfter } = await inspection.trace(executionId, { after: cursor, limit: PAGE, all: false });
      for (const each of frames) {
        if (!stream.open) return cursor;
        await stream.send({ event: 'frame', id: each.n, data: frameToWire(each) });
        cursor = each.n;
      }
      if (nextAfter === null) return cursor;
      cursor = nextAfter;
    }
    return cursor;
  }
}
