/**
 * Following an execution by server-sent events (api 2.3.7). The stream is pulled from the log by event id: what is
 * stored is replayed first and every event comes exactly once, in order, however many bell are lost or doubled.
 * A notice only says "look again", and the keep-alive looks again without one.
 */
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import type { ExecutionRow } from '../../actors/ports.ts';
import { type EventFields, eventToWire } from '../wire/event.ts';
import { type Status, statusToWire } from '../wire/execution.ts';
import { id, logPlace } from '../wire/ids.ts';
import type { ApiContext } from './context.ts';
import { ALL_EVENTS } from './events.ts';
import { type Route, route } from './route.ts';
import type { EventStream } from './streams.ts';

const PAGE = 500;
const BEHIND_MAX = 1000;
const LOOK_AGAIN_MS = 15_000;

type Detail = 'full' | 'min' | 'none';

export function executionStreamRoutes(context: ApiContext): Route[] {
  const { services, streams, log } = context;
  return [
    route({
      method: 'GET',
      path: '/api/executions/{execution_id}/stream',
      level: 'plus',
      role: ['V'],
      tag: 'Executions',
      summary: 'Follow an execution: frames `status`, `event` and, at its end, `end`',
      params: v.object({ execution_id: id }),
      query: v.object({
        since_event_id: v.optional(logPlace),
        events: v.optional(v.picklist(['full', 'min', 'none'], 'must be full, min or none')),
      }),
      mediaType: 'text/event-stream',
      codes: ['not_found', 'pool_saturated'],
      waits: true,
      handle: async ({ params, query, request, reply }) => {
        const row = await services.reads.execution(params.execution_id);
        if (row === null) throw new DomainError('not_found', `Execution ${params.execution_id} not found`);
        if (request.method === 'HEAD') return reply.type('text/event-stream; charset=utf-8').send();
        // A browser that comes back asks at the same address, and tells in the header how far it was.
        const since = Math.max(query.since_event_id ?? 0, lastEventIdOf(request.headers['last-event-id']));
        const stream = streams.start(request, reply, 'execution');
        try {
          await follow(context, stream, row, since, query.events ?? 'min');
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

async function follow(
  context: ApiContext,
  stream: EventStream,
  first: ExecutionRow,
  since: number,
  detail: Detail,
): Promise<void> {
  const { reads, executions } = context.services;
  const executionId = first.executionId;
  const bell = createBell(stream, first.lastEventId);
  const unfollow = executions.follow(executionId, bell.notice);
  stream.onClose(unfollow);
  try {
    let cursor = since;
    let shown = '';
    for (;;) {
      // The bell is silenced before the row is read, so that a commit after the reading rings again.
      bell.reset();
      const row = await reads.execution(executionId);
      if (row === null || !stream.open) return;
      const status = await statusOf(row);
      // The present state comes first; the last one is told by the end.
      const isDue = shown === '' || row.status === 'running';
      if (isDue && changed(status)) await stream.send({ event: 'status', data: status });
      cursor = await replay(row, cursor);
      if (row.status !== 'running') return await stream.send({ event: 'end', data: status });
      await bell.next();
      if (!stream.open) return;
    }

    /** The first status, and every one that tells something new; the passing of time does not. */
    function changed({ duration_seconds, duration_human, ...rest }: Status): boolean {
      const text = JSON.stringify(rest);
      const news = text !== shown;
      shown = text;
      return news;
    }
  } finally {
    unfollow();
  }

  async function statusOf(row: ExecutionRow): Promise<Status> {
    return statusToWire(row, await executions.insight(row), false, context.clock.now());
  }

  /** Sends the stored events after `from` up to the row's last; returns the last one that was sent. */
  async function replay(row: ExecutionRow, from: number): Promise<number> {
    if (detail === 'none') return row.lastEventId;
    const fields: EventFields = detail === 'full' ? 'default' : 'min';
    let cursor = from;
    while (cursor < row.lastEventId && stream.open) {
      const { events } = await reads.events(executionId, {
        ...ALL_EVENTS,
        pageSize: PAGE,
        sinceEventId: cursor,
        untilEventId: row.lastEventId,
      });
      if (events.length === 0) return row.lastEventId;
      for (const each of events) {
        if (!stream.open) return cursor;
        await stream.send({ event: 'event', id: each.eventId, data: eventToWire(each, row, fields) });
        cursor = each.eventId;
      }
    }
    return cursor;
  }
}

/** The bell of one stream. A client that does not read while 1,000 further events are written is given up. */
export function createBell(stream: EventStream, lastEventId: number) {
  let latest = lastEventId;
  let wait: number | null = null;
  let latestThen = lastEventId;
  let rung = false;
  let wake: (() => void) | null = null;
  function ring(): void {
    rung = true;
    wake?.();
  }
  const clock = setInterval(ring, LOOK_AGAIN_MS);
  stream.onClose(() => {
    clearInterval(clock);
    ring();
  });
  return {
    notice(eventId: number): void {
      latest = Math.max(latest, eventId);
      if (stream.wait !== wait) {
        wait = stream.wait;
        latestThen = latest;
      }
      if (wait !== null && latest - latestThen > BEHIND_MAX) {
        stream.abandon({ event: 'overflow', data: { last_event_id: latest } });
      }
      ring();
    },
    reset(): void {
      rung = false;
    },
    async next(): Promise<void> {
      if (rung) return;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      wake = null;
    },
  };
}

export function lastEventIdOf(header: string | string[] | undefined): number {
  return typeof header === 'string' && /^[0-9]{1,15}$/.test(header) ? Number(header) : 0;
}
