/** Stored results (api 2.12): payloads too large for the log, and what workers and readers need of them. */

import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import { readReference } from '../../machines/playbook/reference.ts';
import { described } from '../wire/described.ts';
import { id } from '../wire/ids.ts';
import { queryFlag, queryText } from '../wire/query-fields.ts';
import {
  resultAnswer,
  resultBody,
  resultList,
  resultListToWire,
  resultName,
  resultToWire,
  toSelections,
} from '../wire/result.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Results';
const BODY_LIMIT = 67_108_864;
const executionId = v.object({ execution_id: id });

export function resultRoutes({ services }: ApiContext): Route[] {
  const { executionAccess, results } = services;
  return [
    route({
      method: 'PUT',
      path: '/api/result/{execution_id}',
      level: 'client',
      role: ['W'],
      tag,
      summary: 'Store a payload; the same bytes under the same name give the same reference',
      params: executionId,
      body: resultBody,
      example: { request: { name: 'export', data: { rows: [{ id: 1 }] } } },
      answer: resultAnswer,
      codes: ['not_found'],
      bodyLimit: BODY_LIMIT,
      handle: async ({ params, body }) => {
        const row = await results.put(params.execution_id, {
          name: body.name,
          data: body.data,
          scope: body.scope ?? 'execution',
          sourceStep: body.source_step ?? null,
          ttlSeconds: body.ttl_seconds ?? null,
          mediaType: body.media_type ?? 'application/json',
          commandId: body.command_id ?? null,
          select: toSelections(body.select),
        });
        return resultToWire(row);
      },
    }),
    route({
      method: 'GET',
      path: '/api/result/resolve',
      level: 'client',
      role: ['V', 'W'],
      tag,
      summary: 'The stored JSON itself, or the part of it that a path selects',
      query: v.object({ ref: queryText(1024), path: v.optional(queryText(1024)) }),
      mediaType: 'application/json',
      codes: ['not_found'],
      handle: async ({ query, reply }) => {
        const reference = readReference(query.ref);
        if (reference !== null) await executionAccess.check(reference.executionId, 'view');
        const found = await results.resolve(query.ref, query.path === '' ? undefined : query.path);
        if (found === null) throw new DomainError('not_found', `Result not found: ${query.ref}`);
        reply.header('etag', `"${found.sha256}"`).type('application/json; charset=utf-8');
        return reply.send(found.data);
      },
    }),
    route({
      method: 'GET',
      path: '/api/result/{execution_id}/list',
      level: 'client',
      role: ['V'],
      tag,
      summary: 'Stored results of an execution',
      params: executionId,
      answer: resultList,
      codes: ['not_found'],
      handle: async ({ params }) => resultListToWire(params.execution_id, await results.list(params.execution_id)),
    }),
    route({
      method: 'GET',
      path: '/api/result/{execution_id}/{name}',
      level: 'client',
      role: ['V', 'W'],
      tag,
      summary: 'The newest result of a name: reference and summary, or the data with resolve=true',
      params: v.object({ execution_id: id, name: resultName }),
      query: v.object({ resolve: v.optional(queryFlag) }),
      answer: v.union([resultAnswer, described(v.unknown(), { description: 'The data itself' })]),
      codes: ['not_found'],
      handle: async ({ params, query, reply }) => {
        const row = await results.newest(params.execution_id, params.name);
        const found = row === null || query.resolve !== true ? null : await results.resolve(row.ref);
        if (row === null) throw new DomainError('not_found', `Result not found: ${params.name}`);
        if (query.resolve !== true) return resultToWire(row);
        if (found === null) throw new DomainError('not_found', `Result not found: ${row.ref}`);
        return reply.type('application/json; charset=utf-8').send(found.data);
      },
    }),
    route({
      method: 'DELETE',
      path: '/api/result/{execution_id}',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Delete stored results of an ended execution',
      params: executionId,
      query: v.object({
        scope: v.optional(
          v.picklist(
            ['step', 'execution', 'workflow', 'permanent'],
            'must be one of step, execution, workflow, permanent',
          ),
        ),
      }),
      answer: v.object({ deleted_count: v.number() }),
      codes: ['not_found'],
      handle: async ({ params, query }) => ({
        deleted_count: await results.remove(params.execution_id, query.scope ?? null),
      }),
    }),
  ];
}
