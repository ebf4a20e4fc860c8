/** Stored credentials (api 2.8). Plain data leaves only through one door, and only when it is asked for. */
import * as v from 'valibot';
import {
  credential,
  credentialBody,
  credentialToWire,
  revealedCredential,
  savedCredential,
  toTags,
} from '../wire/credential.ts';
import { id, name } from '../wire/ids.ts';
import { queryFlag, queryText } from '../wire/query-fields.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Credentials';
const BODY_LIMIT = 262_144;
/** A name that cannot exist is simply not found. */
const identifier = v.object({ identifier: queryText(512) });

export function credentialRoutes({ services }: ApiContext): Route[] {
  const { credentials } = services;
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
      codes: ['not_found', 'decrypt_failed'],
      handle: async ({ params, query, request }) => {
        if (query.include_data !== true) return credentialToWire(await credentials.get(params.identifier));
        const row = await credentials.reveal(params.identifier, {
          executionId: query.execution_id ?? null,
          workerId: query.worker_id ?? null,
          requestId: request.id,
        });
        return { ...credentialToWire(row), data: row.data };
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
