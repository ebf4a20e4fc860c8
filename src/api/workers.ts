/** The worker exchange (api 2.5.1) and the worker pool (2.7). */
import * as v from 'valibot';
import { stopOrderToWire } from '../wire/claim.ts';
import { exchangeAnswer, exchangeBody, exchangeToWire, toExchangeRequest } from '../wire/exchange.ts';
import { queryText } from '../wire/query-fields.ts';
import {
  deregisterAnswer,
  deregisterBody,
  heartbeatAnswer,
  heartbeatBody,
  registerAnswer,
  registerBody,
  toHolds,
  toRegistration,
  worker,
  workerToWire,
} from '../wire/worker.ts';
import { type ApiContext, nowIso } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Workers';

interface ExchangeParts extends Pick<ApiContext, 'clock' | 'waits'> {
  readonly services: Pick<ApiContext['services'], 'commands'>;
}

/**
 * What the exchange does once its body is read. `waiting` gives the signal that ends a wait, and is asked only where the
 * call waits.
 */
export function createExchange({ services, clock, waits }: ExchangeParts) {
  const { commands } = services;
  return async (body: v.InferOutput<typeof exchangeBody>, waiting: () => AbortSignal) => {
    const isWaiting = (body.claim?.wait_ms ?? 0) > 0 && (body.reports ?? []).length === 0;
    const { request, invalid } = toExchangeRequest(body, isWaiting ? waiting() : waits.never);
    return exchangeToWire(await commands.exchange(request), invalid, nowIso(clock));
  };
}

export function workerRoutes(context: ApiContext): Route[] {
  const { services, clock, waits, settings } = context;
  const { workers } = services;
  const exchange = createExchange(context);

  function deregisterRoute(method: 'POST' | 'DELETE'): Route {
    return route({
      method,
      path: '/api/worker/pool/deregister',
      level: 'client',
      role: ['W'],
      tag,
      summary: 'Take a worker out of the pool; its open claims are announced at once',
      body: deregisterBody,
      example: { request: { name: 'worker-7' } },
      answer: deregisterAnswer,
      handle: async ({ body }) => {
        const { released } = await workers.deregister(body.name, body.kind ?? body.component_type ?? null);
        return { status: 'ok', name: body.name, released };
      },
    });
  }

  return [
    route({
      method: 'POST',
      path: '/api/worker/exchange',
      level: 'plus',
      role: ['W'],
      tag,
      summary: 'Report finished work and take the next commands, in one call and one transaction',
      body: exchangeBody,
      bodyLimit: 'general',
      answer: exchangeAnswer,
      codes: ['unknown_worker', 'worker_restarted', 'queue_unavailable'],
      waits: true,
      hot: true,
      example: {
        request: {
          worker_id: 'worker-7',
          holding: [],
          reports: [
            { report_id: '7f3a', command_id: 41012, attempt: 1, outcome: 'ok', data: { rows: 2 }, duration_ms: 84.2 },
          ],
          claim: { claim_id: 'c-1', max: 4 },
        },
      },
      handle: ({ body, reply }) => exchange(body, () => waits.signalFor(reply)),
    }),
    route({
      method: 'POST',
      path: '/api/worker/pool/register',
      level: 'client',
      role: ['W'],
      tag,
      summary: 'Register a worker, or tell of its restart',
      body: registerBody,
      answer: registerAnswer,
      example: {
        request: { name: 'worker-7', pools: ['shared'], capacity: 8, heartbeat_seconds: 2, instance: '01JD3M' },
      },
      handle: async ({ body }) => {
        const row = await workers.register(toRegistration(body, settings.runtimeOfflineSeconds));
        return {
          status: 'ok',
          name: row.name,
          runtime_id: row.runtimeId,
          kind: row.kind,
          runtime: row.runtime,
          heartbeat_seconds: row.heartbeatSeconds,
          offline_after_seconds: row.offlineAfterSeconds,
          server_time: nowIso(clock),
        };
      },
    }),
    route({
      method: 'POST',
      path: '/api/worker/pool/heartbeat',
      level: 'client',
      role: ['W'],
      tag,
      summary: 'Say that a worker lives, and what it works on',
      body: heartbeatBody,
      example: { request: { name: 'worker-7', commands: [{ command_id: 41012, attempt: 1 }] } },
      answer: heartbeatAnswer,
      codes: ['unknown_worker'],
      handle: async ({ body }) => {
        const again = body.registration;
        const beat = await workers.heartbeat(body.name, {
          registration:
            again == null ? null : toRegistration({ ...again, name: body.name }, settings.runtimeOfflineSeconds),
          status: body.status?.toLowerCase() ?? null,
          commands: toHolds(body.commands),
        });
        return {
          status: beat.recreated ? 'recreated' : 'ok',
          name: body.name,
          runtime_id: beat.runtimeId,
          stop: beat.stop.map(stopOrderToWire),
        };
      },
    }),
    deregisterRoute('POST'),
    deregisterRoute('DELETE'),
    route({
      method: 'GET',
      path: '/api/worker/pools',
      level: 'client',
      role: ['V'],
      tag,
      summary: 'Registered workers',
      query: v.object({
        runtime: v.optional(queryText(256)),
        status: v.optional(queryText(64)),
        kind: v.optional(queryText(64)),
        pool: v.optional(queryText(128)),
      }),
      answer: v.object({ items: v.array(worker), count: v.number() }),
      handle: async ({ query }) => {
        const rows = await workers.list({
          ...(query.runtime === undefined ? {} : { runtime: query.runtime }),
          ...(query.status === undefined ? {} : { status: query.status.toLowerCase() }),
          ...(query.kind === undefined ? {} : { kind: query.kind.toLowerCase() }),
          ...(query.pool === undefined ? {} : { pool: query.pool }),
        });
        const now = clock.now();
        return {
          items: rows.map((row) => workerToWire(row, now, settings.workerHeartbeatStaleSeconds)),
          count: rows.length,
        };
      },
    }),
  ];
}
