/** Claiming by id (api 2.4.1) and claiming many with a long poll (2.4.2). */
import * as v from 'valibot';
import type { ClaimRequest, StopOrder } from '../../actors/services.ts';
import { command } from './command.ts';
import { integer, list, map, maybe, text } from './fields.ts';
import { idOut, name } from './ids.ts';

export const claimOneBody = v.object({
  worker_id: name,
  locality: maybe(v.union([text(256), map])),
  claim_id: maybe(text(64, 1)),
});
export type ClaimOneBody = v.InferInput<typeof claimOneBody>;

export const claimManyBody = v.object({
  worker_id: name,
  max: maybe(integer(1, 256)),
  wait_ms: maybe(integer(0, 60_000)),
  pools: maybe(list(name, 64)),
  tool_kinds: maybe(list(text(64, 1), 64)),
  claim_id: maybe(text(64, 1)),
});
export type ClaimManyBody = v.InferInput<typeof claimManyBody>;

export const stopOrder = v.object({ command_id: idOut, attempt: v.number(), reason: v.string() });
export type StopOrderWire = v.InferOutput<typeof stopOrder>;

export const claimManyAnswer = v.object({
  commands: v.array(command),
  server_time: v.string(),
  stop: v.array(stopOrder),
});
export type ClaimManyAnswer = v.InferOutput<typeof claimManyAnswer>;

export function toClaimRequest(body: v.InferOutput<typeof claimManyBody>, signal: AbortSignal): ClaimRequest {
  return {
    workerId: body.worker_id,
    max: body.max ?? 1,
    waitMs: body.wait_ms ?? 0,
    pools: body.pools ?? null,
    toolKinds: body.tool_kinds ?? null,
    claimId: body.claim_id ?? null,
    signal,
  };
}

export function stopOrderToWire(order: StopOrder): StopOrderWire {
  return { command_id: order.commandId, attempt: order.attempt, reason: order.reason };
}
