/** Starting, ending and cleaning up executions (api 2.3.1, 2.3.2, 2.3.8, 2.3.9, 2.3.11, 2.3.12). */
import type { FastifyReply, FastifyRequest } from 'fastify';
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import type { CancelReceipt } from '../../actors/services.ts';
import { keptTraceOf } from '../../machines/trace-context.ts';
import { RequestError } from '../errors.ts';
import { flag, integer, maybe, text, word } from '../wire/fields.ts';
import { id, idOut } from '../wire/ids.ts';
import { inputsOf } from '../wire/inputs.ts';
import { jsonBytes } from '../wire/json-size.ts';
import {
  idempotencyKey,
  rerunAnswer,
  rerunBody,
  runAnswer,
  runToWire,
  startAnswer,
  startBody,
  startToWire,
  toStartRequest,
} from '../wire/start.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Executions';
const WORKLOAD_BYTES_MAX = 1_048_576;
const START_CODES = [
  'not_found',
  'kind_not_executable',
  'resource_kind_required',
  'playbook_invalid',
  'nesting_too_deep',
  'idempotency_conflict',
] as const;
const executionId = v.object({ execution_id: id });
const reason = maybe(text(1024, 1));

const cancelAnswer = v.object({
  status: v.picklist(['cancelled', 'already_completed']),
  execution_id: idOut,
  /** Texts: clients expect them. */
  cancelled_executions: v.array(v.string()),
  message: v.string(),
});

export function executionRoutes({ services, isEnforced, waits }: ApiContext): Route[] {
  const { executionAccess, executions } = services;

  /** A wait ends with the connection, and with this server: the run goes on, and its number is not to be lost. */
  function start(body: v.InferOutput<typeof startBody>, request: FastifyRequest, reply: FastifyReply) {
    const asked = startOf(body, request);
    return executions.start(asked.waitMs === undefined ? asked : { ...asked, signal: waits.signalFor(reply) });
  }

  async function cancel(executionIdGiven: number, options: { reason: string; cascade: boolean; by: 'api' | 'stop' }) {
    return cancelToWire(executionIdGiven, await executions.cancel(executionIdGiven, options));
  }

  return [
    route({
      method: 'POST',
      path: '/api/execute',
      level: 'seed',
      role: ['O', 'W'],
      tag,
      summary: 'Start an execution',
      body: startBody,
      bodyLimit: 'general',
      answer: startAnswer,
      codes: START_CODES,
      waits: true,
      example: {
        request: { path: 'demo/greet', workload: { who: 'world' } },
        answer: {
          execution_id: 41007,
          status: 'started',
          path: 'demo/greet',
          catalog_id: 2003,
          version: 3,
          kind: 'playbook',
          commands_generated: 1,
          duplicate: false,
        },
      },
      handle: async ({ body, request, reply }) => startToWire(await start(body, request, reply)),
    }),
    route({
      method: 'POST',
      path: '/api/run/playbook',
      level: 'seed',
      role: ['O'],
      tag,
      summary: 'Start an execution of a playbook (older door)',
      body: startBody,
      bodyLimit: 'general',
      answer: runAnswer,
      codes: START_CODES,
      waits: true,
      example: { request: { path: 'demo/greet', payload: { who: 'world' } } },
      handle: async ({ body, request, reply }) => runToWire(await start(body, request, reply)),
    }),
    route({
      method: 'POST',
      path: '/api/executions/cleanup',
      level: 'seed',
      role: ['O'],
      tag,
      summary: 'Cancel executions that have run for too long',
      body: v.object({ older_than_minutes: maybe(integer(1, Number.MAX_SAFE_INTEGER)), dry_run: maybe(flag) }),
      answer: v.object({
        cancelled_count: v.number(),
        execution_ids: v.array(idOut),
        message: v.string(),
        dry_run: v.boolean(),
      }),
      example: {
        request: { older_than_minutes: 5, dry_run: false },
        answer: {
          cancelled_count: 2,
          execution_ids: [41007, 41012],
          message: 'Cancelled 2 stuck executions older than 5 minutes',
          dry_run: false,
        },
      },
      handle: async ({ body }) => {
        const receipt = await executions.cleanup({
          olderThanMinutes: body.older_than_minutes ?? 5,
          dryRun: body.dry_run ?? false,
          ...(isEnforced ? { mayEnd: (each) => executionAccess.allows(each, 'execute') } : {}),
        });
        return {
          cancelled_count: receipt.executionIds.length,
          execution_ids: receipt.executionIds,
          message: receipt.message,
          dry_run: receipt.dryRun,
        };
      },
    }),
    route({
      method: 'POST',
      path: '/api/executions/{execution_id}/cancel',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Cancel an execution and what it started',
      params: executionId,
      body: v.object({ reason, cascade: maybe(flag) }),
      example: { request: { reason: 'not needed any more', cascade: true } },
      answer: cancelAnswer,
      codes: ['not_found'],
      handle: ({ params, body }) =>
        cancel(params.execution_id, {
          reason: body.reason ?? 'User requested cancellation',
          cascade: body.cascade ?? true,
          by: 'api',
        }),
    }),
    route({
      method: 'POST',
      path: '/api/executions/{execution_id}/stop',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Cancel with the reason `Stopped by user`',
      params: executionId,
      body: v.object({}),
      answer: cancelAnswer,
      codes: ['not_found'],
      handle: ({ params }) => cancel(params.execution_id, { reason: 'Stopped by user', cascade: true, by: 'stop' }),
    }),
    route({
      method: 'POST',
      path: '/api/executions/{execution_id}/rerun',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Start anew what an execution ran, with the same or changed inputs, from the start or from a step',
      params: executionId,
      body: rerunBody,
      example: { request: { workload: { who: 'you' }, version: 'same' } },
      bodyLimit: 'general',
      answer: rerunAnswer,
      codes: ['not_found', 'kind_not_executable', 'resource_kind_required', 'playbook_invalid'],
      handle: async ({ params, body, request }) => {
        const receipt = await executions.rerun(params.execution_id, {
          workload: inputsOf(body) ?? {},
          version: body.version ?? 'same',
          fromStep: body.from_step ?? null,
          resourceKind: body.resource_kind ?? null,
          reason: body.reason ?? null,
          trace: keptTraceOf(request.headers['traceparent'], request.headers['tracestate']),
        });
        return { ...startToWire(receipt), rerun_of: params.execution_id };
      },
    }),
    route({
      method: 'POST',
      path: '/api/executions/{execution_id}/finalize',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'End a running execution by hand',
      params: executionId,
      bodyLimit: 'general',
      body: v.object({
        status: maybe(word('failed', 'completed')),
        reason,
        error: maybe(text(4096)),
      }),
      answer: v.object({
        status: v.picklist(['finalized', 'already_completed']),
        execution_id: idOut,
        message: v.string(),
      }),
      codes: ['not_found'],
      handle: async ({ params, body }) => {
        const { status, message } = await executions.finalize(params.execution_id, {
          status: body.status ?? 'failed',
          reason: body.reason ?? 'Abandoned or timed out',
          error: body.error ?? null,
        });
        return { status, execution_id: params.execution_id, message };
      },
    }),
  ];
}

function startOf(body: v.InferOutput<typeof startBody>, request: FastifyRequest) {
  const { traceparent, tracestate } = request.headers;
  const start = toStartRequest(body, headerKeyOf(request), keptTraceOf(traceparent, tracestate));
  // Only a body above the limit can hold a workload above it, so the ordinary start is not measured.
  const length = Number(request.headers['content-length'] ?? WORKLOAD_BYTES_MAX + 1);
  if (length > WORKLOAD_BYTES_MAX && jsonBytes(start.workload, WORKLOAD_BYTES_MAX) > WORKLOAD_BYTES_MAX) {
    throw new DomainError(
      'payload_too_large',
      'The workload is larger than 1048576 bytes; store large values as results',
    );
  }
  return start;
}

/** Throws RequestError 422 for a key outside its grammar (api 1.14). */
export function headerKeyOf(request: FastifyRequest): string | null {
  const given = request.headers['idempotency-key'] ?? request.headers['x-idempotency-key'];
  if (given === undefined) return null;
  const parsed = v.safeParse(idempotencyKey, given);
  if (parsed.success) return parsed.output;
  const sentence = 'header.Idempotency-Key: must be 1 to 255 visible ASCII characters';
  throw new RequestError('validation_error', sentence, { errors: [sentence] });
}

function cancelToWire(executionIdGiven: number, receipt: CancelReceipt): v.InferOutput<typeof cancelAnswer> {
  return {
    status: receipt.status,
    execution_id: executionIdGiven,
    cancelled_executions: receipt.cancelled.map(String),
    message: receipt.message,
  };
}
