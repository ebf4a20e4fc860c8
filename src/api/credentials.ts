/** Stored credentials (api 2.8). Plain data leaves only through one door, and only when it is asked for. */
import type { FastifyRequest } from 'fastify';
import * as v from 'valibot';
import { RequestError } from '../errors.ts';
import {
  credential,
  credentialBody,
  credentialPatch,
  credentialToWire,
  revealedCredential,
  savedCredential,
  toPatch,
  toTags,
} from '../wire/credential.ts';
import { id, name } from '../wire/ids.ts';
import { queryFlag, queryText } from '../wire/query-fields.ts';
import type { ApiContext } from './context.ts';
import { holdsOpenCommand } from './held-command.ts';
import { type Route, route } from './route.ts';

const tag = 'Credentials';
const BODY_LIMIT = 262_144;
/** A name that cannot exist is simply not found. */
const identifier = v.object({ identifier: queryText(512) });

export function credentialRoutes({ services, isEnforced }: ApiContext): Route[] {
  const { credentials, reads } = services;

  /** Data is for admins, and for workers that have something to do (api 8.6). Throws RequestError 403. */
  async function refuseReveal(request: FastifyRequest, workerId: string | undefined, executionId: number | undefined) {
    if (!isEnforced) return;
    const role = request.identity?.role;
    if (role === 'admin') return;
    if (role !== 'worker') throw new RequestError('forbidden', 'This needs the role worker or admin');
    if (await holdsOpenCommand(reads, { workerId, executionId })) return;
    throw new RequestError(
      'forbidden',
      'A worker reads credentials while it holds an open command (worker_id names it)',
    );
  }

  return [
    route({
      method: 'POST',
      path: '/api/credentials',
      level: 'seed',
      role: ['O'],
      tag,
      summary: 'Create or replace a credential by name',
      body: credentialBody,
      answer: savedCredential,
      codes: ['schema_validation_failed'],
      bodyLimit: BODY_LIMIT,
      example: {
        request: {
          name: 'pg_auth',
          type: 'postgres',
          data: { host: 'db', port: 5432, user: 'app', password: '…', database: 'shop' },
          tags: ['shop'],
        },
      },
      handle: async ({ body }) => {
        const row = await credentials.save({
          name: body.name,
          type: body.type ?? body.credential_type ?? 'generic',
          data: body.data,
          schema: body.schema,
          meta: body.meta ?? null,
          description: body.description ?? null,
          tags: toTags(body.tags),
        });
        return { ...credentialToWire(row), data: null };
      },
    }),
    route({
      method: 'GET',
      path: '/api/credentials',
      level: 'seed',
      role: ['V'],
      tag,
      summary: 'Credentials by name, without data',
      query: v.object({
        type: v.optional(queryText(64)),
        q: v.optional(queryText(256)),
        tag: v.optional(queryText(128)),
      }),
      answer: v.object({
        items: v.array(credential),
        filter: v.object({ type: v.nullable(v.string()), q: v.nullable(v.string()) }),
        count: v.number(),
      }),
      handle: async ({ query }) => {
        const rows = await credentials.list({
          ...(query.type === undefined || query.type === '' ? {} : { type: query.type }),
          ...(query.q === undefined || query.q === '' ? {} : { q: query.q }),
          ...(query.tag === undefined || query.tag === '' ? {} : { tag: query.tag }),
        });
        const filter = { type: query.type ?? null, q: query.q ?? null };
        return { items: rows.map(credentialToWire), filter, count: rows.length };
      },
    }),
    route({
      method: 'GET',
      path: '/api/credentials/{identifier}',
      level: 'seed',
      role: ['V', 'W', 'A'],
      tag,
      summary: 'One credential by id or name; its data only with include_data=true',
      params: identifier,
      query: v.object({
        include_data: v.optional(queryFlag),
        execution_id: v.optional(id),
        worker_id: v.optional(name),
      }),
      answer: revealedCredential,
      codes: ['not_found', 'decrypt_failed', 'forbidden'],
      handle: async ({ params, query, request }) => {
        if (query.include_data !== true) return credentialToWire(await credentials.get(params.identifier));
        await refuseReveal(request, query.worker_id, query.execution_id);
        const row = await credentials.reveal(params.identifier, {
          executionId: query.execution_id ?? null,
          workerId: query.worker_id ?? null,
          requestId: request.id,
        });
        return { ...credentialToWire(row), data: row.data };
      },
    }),
    route({
      method: 'PATCH',
      path: '/api/credentials/{identifier}',
      level: 'plus',
      role: ['O'],
      tag,
      summary: 'Change the given fields of a credential; data is replaced as a whole',
      params: identifier,
      body: credentialPatch,
      answer: savedCredential,
      codes: ['not_found', 'schema_validation_failed', 'decrypt_failed'],
      bodyLimit: BODY_LIMIT,
      example: { request: { description: 'the shop database', tags: ['shop', 'production'] } },
      handle: async ({ params, body }) => {
        const row = await credentials.patch(params.identifier, toPatch(body));
        return { ...credentialToWire(row), data: null };
      },
    }),
    route({
      method: 'DELETE',
      path: '/api/credentials/{identifier}',
      level: 'seed',
      role: ['O'],
      tag,
      summary: 'Delete a credential',
      params: identifier,
      answer: v.object({ status: v.literal('success'), message: v.string(), id: v.string(), name: v.string() }),
      codes: ['not_found'],
      handle: async ({ params }) => {
        const row = await credentials.remove(params.identifier);
        return { status: 'success', message: 'Credential deleted successfully', id: row.id, name: row.name };
      },
    }),
  ];
}
