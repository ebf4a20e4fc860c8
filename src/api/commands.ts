/** Commands: claiming (api 2.4) and looking at them. Long polls end when the connection drops or the server stops. */
import type { FastifyRequest } from 'fastify';
import * as v from 'valibot';
import type { CommandRow, CommandStatus } from '../../actors/ports.ts';
import { claimManyAnswer, claimManyBody, claimOneBody, stopOrderToWire, toClaimRequest } from '../wire/claim.ts';
import { command, commandSeen, commandToWire } from '../wire/command.ts';
import { described } from '../wire/described.ts';
import { id, idOut, name } from '../wire/ids.ts';
import { cutPage } from '../wire/pagination.ts';
import { queryDecimal, queryInteger, queryList } from '../wire/query-fields.ts';
import { type ApiContext, nowIso } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Commands';
const CLAIM_CODES = [
  'not_found',
  'unknown_worker',
  'active_claim',
  'already_terminal',
  'worker_draining',
  'attempts_exhausted',
] as const;
const commandId = v.object({ command_id: id });
const nullableText = v.nullable(v.string());

const STATUSES: readonly CommandStatus[] = ['PENDING', 'CLAIMED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED'];

const commandStatus = v.pipe(
  queryList,
  described(
    v.custom<string[]>(
      (words) => Array.isArray(words) && words.every((word) => statusOf(word) !== undefined),
      `must be ${STATUSES.join(', ')}`,
    ),
    { type: 'array', items: { enum: STATUSES } },
  ),
  v.transform((words) => words.flatMap((word) => statusOf(word) ?? [])),
);

const listed = v.object({
  command_id: idOut,
  execution_id: idOut,
  step: v.string(),
  status: v.string(),
  age_seconds: v.number(),
  claim_age_seconds: v.nullable(v.number()),
  worker_id: nullableText,
  worker_status: nullableText,
  attempt: v.number(),
  next_wake_at: nullableText,
  republish_count: v.number(),
});

export function commandRoutes({ services, clock, waits, isEnforced }: ApiContext): Route[] {
  const { commands, executionAccess, reads, workers } = services;
  return [
    route({
      method: 'POST',
      path: '/api/commands/claim',
      level: 'plus',
      role: ['W'],
      tag,
      summary: 'Claim several commands; waits for work when asked to',
      body: claimManyBody,
      answer: claimManyAnswer,
      codes: ['unknown_worker', 'worker_draining'],
      waits: true,
      hot: true,
      example: { request: { worker_id: 'worker-7', max: 8, wait_ms: 30000 } },
      handle: async ({ body, reply }) => {
        const signal = (body.wait_ms ?? 0) > 0 ? waits.signalFor(reply) : waits.never;
        const granted = await commands.claimMany(toClaimRequest(body, signal));
        const serverTime = nowIso(clock);
        return {
          commands: granted.commands.map((each) => commandToWire(each, serverTime)),
          server_time: serverTime,
          stop: granted.stop.map(stopOrderToWire),
        };
      },
    }),
    route({
      method: 'POST',
      path: '/api/commands/{command_id}/claim',
      level: 'client',
      role: ['W'],
      tag,
      summary: 'Claim one command',
      params: commandId,
      body: claimOneBody,
      example: { request: { worker_id: 'worker-7' } },
      answer: command,
      codes: CLAIM_CODES,
      hot: true,
      handle: async ({ params, body }) => {
        const granted = await commands.claim(params.command_id, body.worker_id, body.claim_id ?? null);
        return { ...commandToWire(granted, nowIso(clock)), status: 'ok' };
      },
    }),
    route({
      method: 'GET',
      path: '/api/commands/{command_id}',
      level: 'client',
      role: ['W', 'V'],
      tag,
      summary: 'One command; with its context for workers',
      params: commandId,
      answer: commandSeen,
      codes: ['not_found'],
      handle: async ({ params, request }) => {
        const found = await commands.get(params.command_id);
        await executionAccess.check(found.row.executionId, 'view');
        const { context, ...seen } = commandToWire(found, nowIso(clock));
        return maySeeContext(request) ? { ...seen, context } : seen;
      },
    }),
    route({
      method: 'GET',
      path: '/api/commands',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'Commands by status, pool, worker and age',
      query: v.object({
        status: v.optional(commandStatus),
        pool: v.optional(name),
        worker_id: v.optional(name),
        execution_id: v.optional(id),
        older_than_seconds: v.optional(queryDecimal(0, 1_000_000_000)),
        after: v.optional(id),
        limit: v.optional(queryInteger(1, 1000)),
      }),
      answer: v.object({ commands: v.array(listed), next_after: v.nullable(v.number()) }),
      handle: async ({ query }) => {
        const limit = query.limit ?? 100;
        const found = await reads.commands({
          limit: limit + 1,
          ...(query.status === undefined ? {} : { statuses: query.status }),
          ...(query.pool === undefined ? {} : { pool: query.pool }),
          ...(query.worker_id === undefined ? {} : { workerId: query.worker_id }),
          ...(query.execution_id === undefined ? {} : { executionId: query.execution_id }),
          ...(query.older_than_seconds === undefined ? {} : { olderThanSeconds: query.older_than_seconds }),
          ...(query.after === undefined ? {} : { after: query.after }),
        });
        const { rows, last } = cutPage(found, limit);
        const states = await workerStates(rows);
        const now = clock.now();
        return {
          commands: rows.map((row) => listedCommand(row, states, now)),
          next_after: last?.commandId ?? null,
        };
      },
    }),
  ];

  /** An admin may see what a worker may; in open mode everybody is one. */
  function maySeeContext({ identity }: FastifyRequest): boolean {
    return !isEnforced || identity?.role === 'worker' || identity?.role === 'admin';
  }

  /** One lookup a worker, not one a command. */
  async function workerStates(rows: readonly CommandRow[]): Promise<ReadonlyMap<string, string | null>> {
    const names = [...new Set(rows.flatMap((row) => row.workerId ?? []))];
    const found = await Promise.all(names.map((each) => workers.holder(each)));
    return new Map(names.map((each, index) => [each, found[index]?.status ?? null]));
  }
}

function listedCommand(
  row: CommandRow,
  states: ReadonlyMap<string, string | null>,
  nowMs: number,
): v.InferOutput<typeof listed> {
  return {
    command_id: row.commandId,
    execution_id: row.executionId,
    step: row.stepName,
    status: row.status,
    age_seconds: secondsSince(row.createdAt, nowMs),
    claim_age_seconds: row.claimedAt === null ? null : secondsSince(row.claimedAt, nowMs),
    worker_id: row.workerId,
    worker_status: row.workerId === null ? null : (states.get(row.workerId) ?? null),
    attempt: row.attempt,
    next_wake_at: row.nextWakeAt,
    republish_count: row.republishCount,
  };
}

function secondsSince(instant: string, nowMs: number): number {
  return Math.max(0, Math.round(nowMs - Date.parse(instant))) / 1000;
}

function statusOf(word: string): CommandStatus | undefined {
  const upper = word.toUpperCase();
  return STATUSES.find((each) => each === (upper === 'CANCELED' ? 'CANCELLED' : upper));
}
