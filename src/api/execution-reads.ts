/** Reading executions (api 2.3.3 to 2.3.5, 2.3.12). Nothing here changes anything or waits for an actor. */
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import type { ExecutionRow, ExecutionStatus } from '../../actors/ports.ts';
import type { EventPageRequest, ExecutionListRequest } from '../../actors/services.ts';
import { RequestError } from '../errors.ts';
import { listedCommand, listedCommandToWire } from '../wire/command.ts';
import { described } from '../wire/described.ts';
import { event, eventToWire } from '../wire/event.ts';
import {
  cancellationCheck,
  cancellationCheckToWire,
  execution,
  executionItem,
  executionItemToWire,
  executionToWire,
  status,
  statusToWire,
} from '../wire/execution.ts';
import { instant } from '../wire/fields.ts';
import { id, logPlace } from '../wire/ids.ts';
import { cutPage, pagination, paginationOf } from '../wire/pagination.ts';
import { queryDecimal, queryFlag, queryInteger, queryList, queryText } from '../wire/query-fields.ts';
import { nextLink } from './catalog-reads.ts';
import { type ApiContext, nowIso } from './context.ts';
import { ALL_EVENTS, asOf } from './events.ts';
import { type Route, route } from './route.ts';

const tag = 'Executions';
const executionId = v.object({ execution_id: id });
const OFFSET_MAX = 5000;
const COUNT_EXACT_MAX = 10_000;

const executionStatus = v.pipe(
  queryList,
  described(
    v.custom<string[]>(
      (words) => Array.isArray(words) && words.every((word) => statusOf(word) !== null),
      'must be running, completed, failed or cancelled',
    ),
    { type: 'array', items: { enum: ['running', 'completed', 'failed', 'cancelled'] } },
  ),
  v.transform((words) => words.flatMap((word) => statusOf(word) ?? [])),
);

const labelPairs = v.pipe(
  queryList,
  described(
    v.custom<string[]>((pairs) => Array.isArray(pairs) && pairs.every((pair) => pair.indexOf('=') > 0), 'must be k=v'),
    { type: 'array', items: { type: 'string' } },
  ),
  v.transform((pairs) =>
    pairs.map((pair): readonly [string, string] => [
      pair.slice(0, pair.indexOf('=')),
      pair.slice(pair.indexOf('=') + 1),
    ]),
  ),
);

const listQuery = v.object({
  page: v.optional(queryInteger(1, 1_000_000)),
  page_size: v.optional(queryInteger(1, 200)),
  before_execution_id: v.optional(id),
  status: v.optional(executionStatus),
  path: v.optional(queryText(256)),
  catalog_id: v.optional(id),
  kind: v.optional(queryText(64)),
  parent_execution_id: v.optional(id),
  root_execution_id: v.optional(id),
  roots_only: v.optional(queryFlag),
  started_after: v.optional(instant),
  started_before: v.optional(instant),
  min_duration_seconds: v.optional(queryDecimal(0, 1e12)),
  label: v.optional(labelPairs),
  q: v.optional(queryText(256)),
  error: v.optional(queryText(256)),
  stuck: v.optional(queryFlag),
  order: v.optional(
    v.picklist(
      ['start_time', '-start_time', 'duration', '-duration'],
      'must be start_time, -start_time, duration or -duration',
    ),
  ),
});

const detailQuery = v.object({
  page: v.optional(queryInteger(1, 1_000_000)),
  page_size: v.optional(queryInteger(10, 500)),
  since_event_id: v.optional(logPlace),
  event_type: v.optional(queryList),
  include_events: v.optional(queryFlag),
});

const detail = v.object({
  ...execution.entries,
  events: v.array(event),
  events_included: v.boolean(),
  events_endpoint: v.string(),
  pagination,
});

export function executionReadRoutes({ services, clock }: ApiContext): Route[] {
  const { reads, executions, commands } = services;

  async function rowOf(executionIdGiven: number): Promise<ExecutionRow> {
    const row = await reads.execution(executionIdGiven);
    if (row === null) throw new DomainError('not_found', `Execution ${executionIdGiven} not found`);
    return row;
  }

  /** Both doors to one execution (api 2.3.3); they differ in whether events come along. */
  function detailRoute(path: string, eventsByDefault: boolean): Route {
    return route({
      method: 'GET',
      path,
      level: 'seed',
      role: ['V', 'W'],
      tag,
      summary: eventsByDefault ? 'One execution with its newest events' : 'One execution',
      params: executionId,
      query: detailQuery,
      answer: detail,
      codes: ['not_found'],
      handle: async ({ params, query }) => {
        const row = await rowOf(params.execution_id);
        const insight = row.status === 'running' ? await executions.insight(row) : null;
        const included = query.include_events ?? eventsByDefault;
        const page = query.page ?? 1;
        const pageSize = query.page_size ?? 100;
        const wanted: EventPageRequest = {
          ...ALL_EVENTS,
          page,
          pageSize,
          sinceEventId: query.since_event_id ?? null,
          types: (query.event_type ?? []).map((type) => type.toLowerCase()),
          order: 'desc',
        };
        const found = await reads.events(row.executionId, asOf(row, wanted));
        return {
          ...executionToWire(row, clock.now(), insight),
          events: included ? found.events.map((each) => eventToWire(each, row)) : [],
          events_included: included,
          events_endpoint: `/api/executions/${row.executionId}/events`,
          pagination: paginationOf(page, pageSize, found.total, found.hasMore),
        };
      },
    });
  }

  return [
    detailRoute('/api/execution/{execution_id}', false),
    detailRoute('/api/executions/{execution_id}', true),
    route({
      method: 'GET',
      path: '/api/executions',
      level: 'client',
      role: ['V'],
      tag,
      summary: 'Executions, newest start first; totals in X-Total-Count, the next page in Link',
      query: listQuery,
      answer: v.array(executionItem),
      handle: async ({ query, request, reply }) => {
        const wanted = toListRequest(query);
        const { rows, total, totalIsExact, hasMore } = await reads.executions(wanted);
        reply.header('x-total-count', totalIsExact ? String(total) : `${COUNT_EXACT_MAX}+`);
        const next = hasMore ? nextPage(wanted, rows) : null;
        if (next !== null) reply.header('link', nextLink(request.url, next));
        const now = clock.now();
        return rows.map((row) => executionItemToWire(row, now));
      },
    }),
    route({
      method: 'GET',
      path: '/api/executions/{execution_id}/status',
      level: 'client',
      role: ['V', 'W'],
      tag,
      summary: 'How far an execution is',
      params: executionId,
      query: v.object({ full: v.optional(queryFlag) }),
      answer: status,
      codes: ['not_found'],
      handle: async ({ params, query }) => {
        const row = await rowOf(params.execution_id);
        return statusToWire(row, await executions.insight(row), query.full ?? false, clock.now());
      },
    }),
    route({
      method: 'GET',
      path: '/api/executions/{execution_id}/cancellation-check',
      level: 'client',
      role: ['W', 'V'],
      tag,
      summary: 'Whether work for this execution still matters',
      params: executionId,
      answer: cancellationCheck,
      codes: ['not_found'],
      handle: async ({ params }) => cancellationCheckToWire(await rowOf(params.execution_id)),
    }),
    route({
      method: 'GET',
      path: '/api/executions/{execution_id}/commands',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'Commands of an execution, oldest first',
      params: executionId,
      query: v.object({ after: v.optional(id), limit: v.optional(queryInteger(1, 1000)) }),
      answer: v.object({ commands: v.array(listedCommand), next_after: v.nullable(v.number()) }),
      codes: ['not_found'],
      handle: async ({ params, query }) => {
        const row = await rowOf(params.execution_id);
        const limit = query.limit ?? 100;
        const after = query.after === undefined ? {} : { after: query.after };
        const found = await reads.commands({ executionId: row.executionId, limit: limit + 1, ...after });
        const { rows, last } = cutPage(found, limit);
        const seen = await commands.describe(row, rows);
        const serverTime = nowIso(clock);
        return {
          commands: seen.map((each) => listedCommandToWire(each, serverTime)),
          next_after: last?.commandId ?? null,
        };
      },
    }),
  ];
}

function toListRequest(query: v.InferOutput<typeof listQuery>): ExecutionListRequest {
  const page = query.page ?? 1;
  const pageSize = query.page_size ?? 100;
  if ((page - 1) * pageSize > OFFSET_MAX) {
    const sentence = `query.page: must not go beyond ${OFFSET_MAX} rows; use before_execution_id`;
    throw new RequestError('validation_error', sentence, { errors: [sentence] });
  }
  return {
    page,
    pageSize,
    beforeExecutionId: query.before_execution_id ?? null,
    statuses: query.status ?? [],
    path: orNull(query.path?.replace(/^\/+|\/+$/g, '')),
    catalogId: query.catalog_id ?? null,
    kind: orNull(query.kind?.toLowerCase()),
    parentExecutionId: query.parent_execution_id ?? null,
    rootExecutionId: query.root_execution_id ?? null,
    rootsOnly: query.roots_only ?? false,
    startedAfter: query.started_after ?? null,
    startedBefore: query.started_before ?? null,
    minDurationSeconds: query.min_duration_seconds ?? null,
    labels: query.label ?? [],
    q: orNull(query.q),
    error: orNull(query.error),
    stuck: query.stuck ?? false,
    order: query.order ?? '-start_time',
  };
}

/**
 * By time the next page begins behind the last row that was shown, so that runs that start meanwhile push none of them over;
 * a duration grows while it is looked at, and has numbered pages only.
 */
function nextPage(
  { order, page, pageSize }: ExecutionListRequest,
  rows: readonly ExecutionRow[],
): Readonly<Record<string, string | null>> | null {
  const last = rows.at(-1);
  if (last === undefined) return null;
  if (!order.endsWith('duration')) return { page: null, before_execution_id: String(last.executionId) };
  return page * pageSize <= OFFSET_MAX ? { page: String(page + 1) } : null;
}

function orNull(value: string | undefined): string | null {
  return value === undefined || value === '' ? null : value;
}

function statusOf(word: string): ExecutionStatus | null {
  switch (word.toLowerCase()) {
    case 'running':
      return 'running';
    case 'completed':
      return 'completed';
    case 'failed':
      return 'failed';
    case 'cancelled':
    case 'canceled':
      return 'cancelled';
    default:
      return null;
  }
}
