/** One event in (api 2.5.2), and the log of an execution out (2.3.6). */
import type { FastifyRequest } from 'fastify';
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import type { ExecutionRow } from '../../actors/ports.ts';
import type { EventPageRequest } from '../../actors/services.ts';
import { RequestError } from '../errors.ts';
import { type EventOwner, event, eventToWire } from '../wire/event.ts';
import { eventAnswer, eventBody, toEventInput } from '../wire/event-input.ts';
import { id, idOut, logPlace } from '../wire/ids.ts';
import { pagination, paginationOf } from '../wire/pagination.ts';
import { queryInteger, queryList, queryText } from '../wire/query-fields.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Events';
const DOWNLOAD_PAGE = 500;

const logQuery = v.object({
  page: v.optional(queryInteger(1, 1_000_000)),
  page_size: v.optional(queryInteger(10, 500)),
  since_event_id: v.optional(logPlace),
  until_event_id: v.optional(logPlace),
  event_type: v.optional(queryList),
  status: v.optional(queryList),
  step: v.optional(queryText(256)),
  command_id: v.optional(id),
  q: v.optional(queryText(256)),
  order: v.optional(v.picklist(['asc', 'desc'], 'must be asc or desc')),
  fields: v.optional(v.picklist(['default', 'all', 'min'], 'must be default, all or min')),
  format: v.optional(v.picklist(['json', 'ndjson'], 'must be json or ndjson')),
});

const log = v.object({
  execution_id: idOut,
  path: v.string(),
  status: v.string(),
  events: v.array(event),
  pagination,
});

/** Every event, oldest first; callers lay their wishes over it. */
export const ALL_EVENTS: EventPageRequest = {
  page: 1,
  pageSize: 100,
  sinceEventId: null,
  untilEventId: null,
  types: [],
  statuses: [],
  step: null,
  commandId: null,
  q: null,
  order: 'asc',
};

/** The log as it was when the row was read, so that an answer does not show the end of an execution it calls running. */
export function asOf({ lastEventId }: Pick<ExecutionRow, 'lastEventId'>, request: EventPageRequest): EventPageRequest {
  return { ...request, untilEventId: Math.min(request.untilEventId ?? lastEventId, lastEventId) };
}

export function eventRoutes({ services }: ApiContext): Route[] {
  const { reads, executions } = services;

  function logRoute(path: string, level: 'seed' | 'client', order: 'asc' | 'desc', pageSizeByDefault: number): Route {
    return route({
      method: 'GET',
      path,
      level,
      role: ['V'],
      tag,
      summary: `The log of an execution, ${order === 'asc' ? 'oldest' : 'newest'} first`,
      params: v.object({ execution_id: id }),
      query: logQuery,
      answer: log,
      texts: ['application/x-ndjson'],
      codes: ['not_found'],
      handle: async ({ params, query, reply }) => {
        const row = await reads.execution(params.execution_id);
        if (row === null) throw new DomainError('not_found', `Execution ${params.execution_id} not found`);
        const wanted = toPageRequest(query, order, pageSizeByDefault);
        const fields = query.fields ?? 'default';
        if (query.format === 'ndjson') {
          reply.type('application/x-ndjson; charset=utf-8');
          return reply.send(lines(download(asOf(row, wanted), row.executionId), row));
        }
        const found = await reads.events(row.executionId, asOf(row, wanted));
        return {
          execution_id: row.executionId,
          path: row.path,
          status: row.status,
          events: found.events.map((each) => eventToWire(each, row, fields)),
          pagination: paginationOf(wanted.page, wanted.pageSize, found.total, found.hasMore),
        };

        function lines(pages: ReturnType<typeof download>, owner: EventOwner) {
          return ReadableStream.from(
            (async function* () {
              for await (const page of pages) {
                yield page.map((each) => `${JSON.stringify(eventToWire(each, owner, fields))}\n`).join('');
              }
            })(),
          );
        }
      },
    });
  }

  /** Pages by event id, so that rows that come meanwhile neither repeat nor skip others; ends at the log as it was. */
  async function* download(wanted: EventPageRequest, executionId: number) {
    let page: EventPageRequest = {
      ...wanted,
      page: 1,
      pageSize: DOWNLOAD_PAGE,
      sinceEventId: wanted.sinceEventId ?? 0,
    };
    for (;;) {
      const { events } = await reads.events(executionId, page);
      const last = events.at(-1);
      if (last === undefined) return;
      yield events;
      if (events.length < DOWNLOAD_PAGE) return;
      page =
        page.order === 'asc' ? { ...page, sinceEventId: last.eventId } : { ...page, untilEventId: last.eventId - 1 };
    }
  }

  return [
    route({
      method: 'POST',
      path: '/api/events',
      level: 'client',
      role: ['W', 'O'],
      tag,
      summary: 'Record one event; stored and handled before the answer',
      body: eventBody,
      bodyLimit: 'general',
      answer: eventAnswer,
      codes: ['not_found', 'queue_unavailable'],
      hot: true,
      example: { request: { execution_id: 41007, event_type: 'report.note', step: 'fetch', payload: { rows: 3 } } },
      handle: async ({ body, request }) => {
        const input = toEventInput(body);
        refuseOutcomes(request, [input]);
        const receipt = await executions.recordEvent({ executionId: body.execution_id, ...input });
        return {
          status: 'ok',
          event_id: receipt.eventId,
          commands_generated: receipt.commandsGenerated,
          duplicate: receipt.duplicate,
          late: receipt.late,
          stale: receipt.stale,
          execution_status: receipt.executionStatus,
        };
      },
    }),
    logRoute('/api/events/{execution_id}', 'seed', 'asc', 500),
    logRoute('/api/executions/{execution_id}/events', 'client', 'desc', 100),
  ];
}

const OUTCOMES = new Set(['playbook.completed', 'playbook.failed', 'execution.cancelled']);

/** How an execution ends is an operator's to say (api 2.5.2); a worker reports what its commands did. Throws RequestError 403. */
export function refuseOutcomes(request: FastifyRequest, events: readonly { readonly type: string }[]): void {
  const found = request.identity?.role === 'worker' ? events.find(({ type }) => OUTCOMES.has(type)) : undefined;
  if (found !== undefined) throw new RequestError('forbidden', `${found.type} needs the role operator`);
}

function toPageRequest(
  query: v.InferOutput<typeof logQuery>,
  order: 'asc' | 'desc',
  pageSize: number,
): EventPageRequest {
  return {
    page: query.page ?? 1,
    pageSize: query.page_size ?? pageSize,
    sinceEventId: query.since_event_id ?? null,
    untilEventId: query.until_event_id ?? null,
    types: (query.event_type ?? []).map((type) => type.toLowerCase()),
    statuses: (query.status ?? []).map(statusWord),
    step: query.step === undefined || query.step === '' ? null : query.step,
    commandId: query.command_id ?? null,
    q: query.q === undefined || query.q === '' ? null : query.q,
    order: query.order ?? order,
  };
}

function statusWord(word: string): string {
  const lower = word.toLowerCase();
  return lower === 'canceled' ? 'cancelled' : lower;
}
