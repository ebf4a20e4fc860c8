/** The keychain (api 2.9). Absent and expired entries are ordinary answers. */
import type { FastifyRequest } from 'fastify';
import * as v from 'valibot';
import { RequestError } from '../errors.ts';
import { id } from '../wire/ids.ts';
import {
  cursorOf,
  type KeychainReadQuery,
  keychainBody,
  keychainEntries,
  keychainLog,
  keychainLogQuery,
  keychainParams,
  keychainQuery,
  keychainReading,
  keychainReadQuery,
  keychainRemoved,
  keychainStored,
  listingToWire,
  logRowToWire,
  readingToWire,
  toAddress,
  toDraft,
} from '../wire/keychain.ts';
import { cutPage } from '../wire/pagination.ts';
import type { ApiContext } from './context.ts';
import { holdsOpenCommand } from './held-command.ts';
import { type Route, route } from './route.ts';

const tag = 'Keychain';
const BODY_LIMIT = 262_144;
const LOG_PAGE = 100;
const entryPath = '/api/keychain/{catalog_id}/{keychain_name}';
const catalogParams = v.object({ catalog_id: id });

export function keychainRoutes({ services, isEnforced }: ApiContext): Route[] {
  const { executionAccess, keychain, reads } = services;

  /** Entries of one execution, or of one tree, are for the workers in it. Throws RequestError 403. */
  async function refuseForeignRead(request: FastifyRequest, query: KeychainReadQuery): Promise<void> {
    if (!isEnforced || request.identity?.role !== 'worker' || (query.scope_type ?? 'global') === 'global') return;
    const { worker_id: workerId, execution_id: executionId } = query;
    if (await holdsOpenCommand(reads, { workerId, executionId })) return;
    throw new RequestError(
      'forbidden',
      'A worker reads local and shared entries of executions in which it holds an open command (worker_id names it)',
    );
  }

  return [
    route({
      method: 'GET',
      path: '/api/keychain/catalog/{catalog_id}',
      level: 'seed',
      role: ['V'],
      tag,
      summary: 'Entries of a playbook version, without token and renewal data',
      params: catalogParams,
      answer: keychainEntries,
      handle: async ({ params: { catalog_id } }) => {
        await executionAccess.checkPlaybook(catalog_id, 'view');
        const entries = await keychain.list(catalog_id);
        return { status: 'success', catalog_id, entries: entries.map(listingToWire), count: entries.length };
      },
    }),
    route({
      method: 'GET',
      path: '/api/keychain/catalog/{catalog_id}/log',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'What happened to the entries of a playbook version',
      params: catalogParams,
      query: keychainLogQuery,
      answer: keychainLog,
      handle: async ({ params: { catalog_id }, query }) => {
        const limit = query.limit ?? LOG_PAGE;
        const found = await keychain.log({
          catalogId: catalog_id,
          name: query.keychain_name ?? null,
          after: query.after ?? null,
          limit: limit + 1,
        });
        const { rows, last } = cutPage(found, limit);
        const next_after = last === null ? null : cursorOf(last);
        return { status: 'success', catalog_id, events: rows.map(logRowToWire), count: rows.length, next_after };
      },
    }),
    route({
      method: 'GET',
      path: entryPath,
      level: 'seed',
      role: ['W', 'A'],
      tag,
      summary: 'Read an entry; a read that is answered with its data is counted',
      params: keychainParams,
      query: keychainReadQuery,
      answer: keychainReading,
      codes: ['decrypt_failed', 'forbidden', 'queue_unavailable'],
      handle: async ({ params, query, request }) => {
        await refuseForeignRead(request, query);
        const claimRenewal = query.claim_renewal ?? false;
        const reading = await keychain.read({
          ...toAddress(params, query),
          claimRenewal,
          workerId: query.worker_id ?? null,
        });
        return readingToWire(params, reading, claimRenewal);
      },
    }),
    route({
      method: 'POST',
      path: entryPath,
      level: 'seed',
      role: ['W', 'A'],
      tag,
      summary: 'Store or replace an entry',
      params: keychainParams,
      body: keychainBody,
      answer: keychainStored,
      codes: ['not_found', 'schema_validation_failed'],
      bodyLimit: BODY_LIMIT,
      example: {
        request: {
          token_data: { access_token: '…' },
          credential_type: 'oauth2_client_credentials',
          cache_type: 'token',
          scope_type: 'global',
          ttl_seconds: 3600,
        },
      },
      handle: async ({ params, body }) => {
        const draft = toDraft(params, body);
        const { cacheKey, expiresAt, ttlSeconds } = await keychain.store(draft);
        return {
          status: 'success',
          message: `Keychain entry cached successfully with ${ttlSeconds}s TTL`,
          keychain_name: draft.name,
          catalog_id: draft.catalogId,
          cache_key: cacheKey,
          expires_at: expiresAt,
          ttl_seconds: ttlSeconds,
          auto_renew: draft.autoRenew,
        };
      },
    }),
    route({
      method: 'DELETE',
      path: entryPath,
      level: 'seed',
      role: ['W', 'A'],
      tag,
      summary: 'Delete an entry of one scope',
      params: keychainParams,
      query: keychainQuery,
      answer: keychainRemoved,
      handle: async ({ params, query }) => {
        const deleted = await keychain.remove(toAddress(params, query));
        const { keychain_name, catalog_id } = params;
        return {
          status: 'success',
          message: 'Keychain entry deleted successfully',
          keychain_name,
          catalog_id,
          deleted,
        };
      },
    }),
  ];
}
