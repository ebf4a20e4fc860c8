/** Health, metrics and the small status doors (api 2.1). */
import * as v from 'valibot';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const number = v.number();
const part = v.picklist(['ok', 'degraded', 'down']);

const healthAnswer = v.object({
  status: v.picklist(['ok', 'degraded', 'draining']),
  database: part,
  bus: part,
  jobs: part,
  version: v.string(),
  schema_version: v.nullable(number),
  uptime_seconds: number,
});

export function healthRoutes({ services, settings, lifecycle, metrics }: ApiContext): Route[] {
  const { reads } = services;
  return [
    route({
      method: 'GET',
      path: '/',
      level: 'plus',
      role: ['P'],
      tag: 'Health',
      summary: 'What this is; browsers are sent to the GUI',
      answer: v.object({ name: v.string(), version: v.string(), docs: v.string(), ui: v.string() }),
      example: { answer: { name: 'callboard', version: '1.0.0', docs: '/docs', ui: '/ui/' } },
      others: { 302: null },
      handle: ({ request, reply }) => {
        if ((request.headers.accept ?? '').includes('text/html')) return reply.redirect('/ui/', 302);
        return { name: 'callboard', version: settings.version, docs: '/docs', ui: '/ui/' };
      },
    }),
    route({
      method: 'GET',
      path: '/health',
      level: 'seed',
      role: ['P'],
      tag: 'Health',
      summary: 'Whether the process can answer; touches nothing else',
      answer: v.object({ status: v.literal('ok') }),
      example: { answer: { status: 'ok' } },
      handle: () => ({ status: 'ok' }),
    }),
    route({
      method: 'GET',
      path: '/api/health',
      level: 'seed',
      role: ['P'],
      tag: 'Health',
      summary: 'Health of the service and its parts; 503 while it starts or drains, or the database is down',
      answer: healthAnswer,
      others: { 503: healthAnswer },
      handle: async ({ reply }) => {
        const { database, schemaVersion } = await reads.health();
        const status = lifecycle.draining() ? 'draining' : database === 'ok' && lifecycle.ready() ? 'ok' : 'degraded';
        if (status !== 'ok') reply.code(503).header('retry-after', '2');
        const { bus, jobs } = lifecycle.parts();
        const uptime = Math.round(lifecycle.uptimeSeconds() * 1000) / 1000;
        return {
          status,
          database,
          bus,
          jobs,
          version: settings.version,
          schema_version: schemaVersion,
          uptime_seconds: uptime,
        };
      },
    }),
    route({
      method: 'GET',
      path: '/metrics',
      level: 'seed',
      role: ['V'],
      tag: 'Health',
      summary: 'Metrics in the Prometheus text format',
      mediaType: 'text/plain',
      handle: async ({ reply }) => {
        const text = await metrics.exposition();
        return reply.type(metrics.contentType).send(text);
      },
    }),
    route({
      method: 'GET',
      path: '/api/pool/status',
      level: 'client',
      role: ['V', 'W'],
      tag: 'Status',
      summary: 'State of the database pool',
      answer: v.object({
        pool_min: number,
        pool_max: number,
        pool_size: number,
        pool_available: number,
        requests_waiting: number,
        utilization: number,
        slots_available: number,
        status: v.picklist(['ok', 'saturated']),
      }),
      handle: () => {
        const pool = reads.poolStatus();
        const used = Math.max(0, pool.size - pool.available);
        return {
          pool_min: pool.min,
          pool_max: pool.max,
          pool_size: pool.size,
          pool_available: pool.available,
          requests_waiting: pool.waiting,
          utilization: pool.max === 0 ? 0 : Math.round((used / pool.max) * 100) / 100,
          slots_available: Math.max(0, pool.max - used),
          status: pool.waiting > 0 ? 'saturated' : 'ok',
        };
      },
    }),
    route({
      method: 'GET',
      path: '/api/dashboard/stats',
      level: 'client',
      role: ['V'],
      tag: 'Status',
      summary: 'Counters for a dashboard, at most 5 s old',
      answer: v.object({
        status: v.literal('ok'),
        total_executions: number,
        running_executions: number,
        successful_executions: number,
        failed_executions: number,
        cancelled_executions: number,
        total_playbooks: number,
        total_workers: number,
        active_workflows: number,
        queue_depth: number,
        as_of: v.string(),
      }),
      handle: async () => {
        const stats = await reads.dashboard();
        return {
          status: 'ok',
          total_executions: stats.totalExecutions,
          running_executions: stats.running,
          successful_executions: stats.completed,
          failed_executions: stats.failed,
          cancelled_executions: stats.cancelled,
          total_playbooks: stats.playbooks,
          total_workers: stats.workers,
          active_workflows: stats.running,
          queue_depth: stats.queueDepth,
          as_of: stats.asOf,
        };
      },
    }),
    route({
      method: 'GET',
      path: '/api/db/validate',
      level: 'client',
      role: ['V'],
      tag: 'Status',
      summary: 'Whether the schema is complete',
      answer: v.object({
        status: v.picklist(['ok', 'error']),
        valid: v.boolean(),
        schema_version: number,
        tables: v.array(v.string()),
        missing: v.array(v.string()),
      }),
      handle: async () => {
        const { version, tables, missing } = await reads.schema();
        const valid = missing.length === 0;
        return { status: valid ? 'ok' : 'error', valid, schema_version: version, tables, missing };
      },
    }),
    route({
      method: 'POST',
      path: '/api/db/init',
      level: 'client',
      role: ['A'],
      tag: 'Status',
      summary: 'Apply migrations that are missing',
      body: v.object({}),
      answer: v.object({ status: v.literal('ok'), message: v.string(), applied: v.array(v.string()) }),
      example: { answer: { status: 'ok', message: 'schema is at version 12', applied: [] } },
      handle: async () => {
        const { version, applied } = await services.schema.init();
        return { status: 'ok', message: `schema is at version ${version}`, applied: [...applied] };
      },
    }),
  ];
}
