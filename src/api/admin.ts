/** Doors for operators (api 2.13): the reaper, leases, laws, reconciliation, keys, audit and draining; and explain (2.3.13). */
import * as v from 'valibot';
import {
  auditAnswer,
  auditToWire,
  explanation,
  explanationToWire,
  invariantsAnswer,
  invariantsToWire,
  keysAnswer,
  lease,
  leaseToWire,
  reaperStatus,
  reaperToWire,
  rotationAnswer,
  sweepAnswer,
  sweepToWire,
} from '../wire/admin.ts';
import { flag, instant, integer, maybe, text } from '../wire/fields.ts';
import { id } from '../wire/ids.ts';
import { queryInteger, queryText } from '../wire/query-fields.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Admin';
const number = v.number();

export function adminRoutes({ services }: ApiContext): Route[] {
  const { admin } = services;
  return [
    route({
      method: 'POST',
      path: '/api/admin/command_reaper/sweep',
      level: 'client',
      role: ['A'],
      tag,
      summary: 'Announce forgotten commands now; 202 when another process holds the lease and was asked',
      body: v.object({ max: maybe(integer(1, 100_000)) }),
      answer: sweepAnswer,
      handle: async ({ body, reply }) => {
        const swept = await admin.sweep(body.max ?? null);
        if (swept.status === 'accepted') reply.code(202);
        return sweepToWire(swept);
      },
    }),
    route({
      method: 'GET',
      path: '/api/admin/command_reaper',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Settings of the reaper, its last sweeps in this process, when it is due, and who holds the lease',
      answer: reaperStatus,
      handle: async () => reaperToWire(await admin.reaper()),
    }),
    route({
      method: 'GET',
      path: '/api/admin/leases',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Leases and their holders',
      answer: v.object({ leases: v.array(lease) }),
      handle: async () => ({ leases: (await admin.leases()).map(leaseToWire) }),
    }),
    route({
      method: 'GET',
      path: '/api/admin/invariants',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Check the laws of the stored data now',
      answer: invariantsAnswer,
      handle: async () => invariantsToWire(await admin.invariants()),
    }),
    route({
      method: 'POST',
      path: '/api/admin/reconcile',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Put right now what a crash or a lost message left lying',
      body: v.object({}),
      answer: v.object({
        status: v.picklist(['ok', 'accepted']),
        drained: number,
        refolded: number,
        unparked: number,
        rebuilt: number,
      }),
      handle: async ({ reply }) => {
        const { isHere, ...found } = await admin.reconcile();
        if (!isHere) reply.code(202);
        return { status: isHere ? 'ok' : 'accepted', ...found };
      },
    }),
    route({
      method: 'GET',
      path: '/api/admin/keys',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Key ids and how many values are sealed with each; no key material',
      answer: keysAnswer,
      handle: () => admin.keys.list(),
    }),
    route({
      method: 'POST',
      path: '/api/admin/keys/rotate',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Start or continue to seal everything with the active key',
      body: v.object({}),
      answer: rotationAnswer,
      codes: ['decrypt_failed'],
      handle: () => admin.keys.rotate(),
    }),
    route({
      method: 'POST',
      path: '/api/admin/keys/retire',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Retire a key that nothing is sealed with any more',
      body: v.object({ kid: text(32, 1) }),
      answer: v.object({ status: v.literal('retired'), kid: v.string() }),
      handle: async ({ body }) => {
        await admin.keys.retire(body.kid);
        return { status: 'retired', kid: body.kid };
      },
    }),
    route({
      method: 'GET',
      path: '/api/admin/audit',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'The audit trail, newest first',
      query: v.object({
        action: v.optional(queryText(128)),
        actor: v.optional(queryText(256)),
        target: v.optional(queryText(512)),
        since: v.optional(instant),
        until: v.optional(instant),
        after: v.optional(id),
        limit: v.optional(queryInteger(1, 1000)),
      }),
      answer: auditAnswer,
      handle: async ({ query }) => {
        const limit = query.limit ?? 100;
        const rows = await admin.audit({
          action: query.action ?? null,
          actor: query.actor ?? null,
          target: query.target ?? null,
          since: query.since ?? null,
          until: query.until ?? null,
          after: query.after ?? null,
          limit: limit + 1,
        });
        return auditToWire(rows, limit);
      },
    }),
    route({
      method: 'POST',
      path: '/api/admin/drain',
      level: 'plus',
      role: ['A'],
      tag,
      summary: 'Readiness off, no new claims, batches or starts in this process; `false` undoes it',
      body: v.object({ draining: maybe(flag) }),
      answer: v.object({ draining: v.boolean() }),
      handle: async ({ body }) => {
        const draining = body.draining ?? true;
        await admin.drain(draining);
        return { draining };
      },
    }),
    route({
      method: 'GET',
      path: '/api/executions/{execution_id}/explain',
      level: 'plus',
      role: ['V'],
      tag: 'Executions',
      summary: 'Why an execution waits, and whether anything can move it',
      params: v.object({ execution_id: id }),
      answer: explanation,
      codes: ['not_found'],
      handle: async ({ params }) => explanationToWire(await services.explanations.of(params.execution_id)),
    }),
  ];
}
