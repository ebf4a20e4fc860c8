/** Rendering on request, and variables beside the log (api 2.10). */
import * as v from 'valibot';
import { id } from '../wire/ids.ts';
import { queryText } from '../wire/query-fields.ts';
import {
  namedVariable,
  renderAnswer,
  renderBody,
  variableMap,
  variablesBody,
  variablesSet,
  variableToWire,
} from '../wire/variables.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Context and variables';
/** Templates are compiled on the event loop. */
const TEMPLATE_BODY_LIMIT = 262_144;
const VARIABLES_BODY_LIMIT = 1_048_576;
const executionId = v.object({ execution_id: id });
const oneVariable = v.object({ execution_id: id, name: queryText(255) });

export function variableRoutes({ services }: ApiContext): Route[] {
  const { context, variables } = services;
  return [
    route({
      method: 'POST',
      path: '/api/context/render',
      level: 'client',
      role: ['W', 'V'],
      tag,
      summary: 'Render a template, or any JSON with templates in it, with the names of an execution',
      body: renderBody,
      answer: renderAnswer,
      codes: ['not_found'],
      bodyLimit: TEMPLATE_BODY_LIMIT,
      example: {
        request: { execution_id: 41007, template: { greeting: 'hello {{ workload.who }}' } },
        answer: { status: 'ok', rendered: { greeting: 'hello world' }, context_keys: ['workload', 'ctx', 'who'] },
      },
      handle: async ({ body }) => {
        const { rendered, names } = await context.render({
          executionId: body.execution_id,
          template: body.template,
          extra: body.extra_context ?? {},
          strict: body.strict ?? false,
        });
        return { status: 'ok', rendered, context_keys: names };
      },
    }),
    route({
      method: 'GET',
      path: '/api/vars/{execution_id}',
      level: 'client',
      role: ['V', 'W'],
      tag,
      summary: 'Variables kept beside an execution; such a list counts as no access',
      params: executionId,
      answer: variableMap,
      codes: ['not_found'],
      handle: async ({ params: { execution_id } }) => {
        const rows = await variables.list(execution_id);
        return {
          execution_id,
          variables: Object.fromEntries(rows.map((row) => [row.name, variableToWire(row)])),
          count: rows.length,
        };
      },
    }),
    route({
      method: 'GET',
      path: '/api/vars/{execution_id}/{name}',
      level: 'client',
      role: ['V', 'W'],
      tag,
      summary: 'One variable; the read is counted in its own answer',
      params: oneVariable,
      answer: namedVariable,
      codes: ['not_found'],
      handle: async ({ params: { execution_id, name } }) => {
        const row = await variables.read(execution_id, name);
        return { name: row.name, ...variableToWire(row) };
      },
    }),
    route({
      method: 'POST',
      path: '/api/vars/{execution_id}',
      level: 'client',
      role: ['W', 'O'],
      tag,
      summary: 'Set variables: a map or a list under `variables`, or the map itself',
      params: executionId,
      body: variablesBody,
      answer: variablesSet,
      codes: ['not_found'],
      bodyLimit: VARIABLES_BODY_LIMIT,
      example: { request: { variables: { page: 3 }, source_step: 'fetch' } },
      handle: async ({ params: { execution_id }, body: { drafts, expiresInSeconds } }) => {
        const names = await variables.put(execution_id, drafts, expiresInSeconds);
        return { execution_id, variables_set: names.length, var_names: names };
      },
    }),
    route({
      method: 'DELETE',
      path: '/api/vars/{execution_id}/{name}',
      level: 'client',
      role: ['W', 'O'],
      tag,
      summary: 'Delete one variable',
      params: oneVariable,
      answer: v.object({ deleted: v.boolean() }),
      codes: ['not_found'],
      handle: async ({ params: { execution_id, name } }) => ({ deleted: await variables.remove(execution_id, name) }),
    }),
    route({
      method: 'DELETE',
      path: '/api/vars/{execution_id}',
      level: 'client',
      role: ['W', 'O'],
      tag,
      summary: 'Delete all variables of an execution',
      params: executionId,
      answer: v.object({ deleted_count: v.number() }),
      codes: ['not_found'],
      handle: async ({ params: { execution_id } }) => ({ deleted_count: await variables.clear(execution_id) }),
    }),
  ];
}
