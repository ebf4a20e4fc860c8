/** Service tokens (api 2.13, 8.6). A token is told once, when it is made; nothing here shows it again. */
import * as v from 'valibot';
import type { StoredToken } from '../../actors/token-service.ts';
import { RequestError } from '../errors.ts';
import { maybe } from '../wire/fields.ts';
import { name } from '../wire/ids.ts';
import { createdToken, newToken, revokedToken, tokenList } from '../wire/token.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Admin';
const path = '/api/admin/tokens';

export function tokenRoutes({ services, clock }: ApiContext): Route[] {
  const { tokens } = services;
  return [
    route({
      method: 'GET',
      path,
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Service tokens by name, ended ones included; never the tokens themselves',
      answer: tokenList,
      handle: async () => ({ tokens: (await tokens.list()).map(toWire) }),
    }),
    route({
      method: 'POST',
      path,
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Make a service token; this answer is the only place where it can be read',
      body: newToken,
      answer: createdToken,
      example: { request: { name: 'ci', role: 'operator', expires_at: '2027-01-01T00:00:00.000Z' } },
      handle: async ({ body }) => {
        const expiresAt = body.expires_at ?? null;
        if (expiresAt !== null && Date.parse(expiresAt) <= clock.now()) {
          const sentence = 'body.expires_at: must lie in the future';
          throw new RequestError('validation_error', sentence, { errors: [sentence] });
        }
        const { token, row } = await tokens.create({ name: body.name, role: body.role, expiresAt });
        return { ...toWire(row), token };
      },
    }),
    route({
      method: 'DELETE',
      path,
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'End a service token by name; it may be given in the query or in the body',
      query: v.object({ name: v.optional(name) }),
      body: v.object({ name: maybe(name) }),
      answer: revokedToken,
      codes: ['not_found'],
      handle: async ({ query, body }) => {
        const wanted = query.name ?? body.name;
        if (wanted == null || (query.name !== undefined && body.name != null && body.name !== query.name)) {
          const sentence = wanted == null ? 'body.name: is required' : 'body.name: is another than in the query';
          throw new RequestError('validation_error', sentence, { errors: [sentence] });
        }
        return { status: 'success', name: wanted, revoked: await tokens.revoke(wanted) };
      },
    }),
  ];
}

function toWire(row: StoredToken) {
  return {
    name: row.name,
    role: row.role,
    created_at: row.createdAt,
    expires_at: row.expiresAt,
    last_used_at: row.lastUsedAt,
    revoked_at: row.revokedAt,
  };
}
