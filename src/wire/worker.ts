/** Registration, heartbeat and deregistration of workers (api 2.7), and the *Worker* object (3.1). */
import * as v from 'valibot';
import type { Hold, Registration, WorkerRow } from '../../actors/services.ts';
import { stopOrder } from './claim.ts';
import { decimal, integer, json, list, map, maybe, text } from './fields.ts';
import { id, idOut, name } from './ids.ts';

/** The column is an `int`. */
const PID_MAX = 2_147_483_647;

const kind = v.picklist(['worker_pool', 'server_api', 'broker'], 'must be one of worker_pool, server_api, broker');

const registrationFields = {
  kind: maybe(kind),
  component_type: maybe(kind),
  runtime: maybe(v.union([text(256), map], 'must be text or an object')),
  uri: maybe(text(2048)),
  base_url: maybe(text(2048)),
  status: maybe(text(64, 1)),
  capacity: maybe(integer(1, 10_000)),
  pools: maybe(list(name, 64)),
  tool_kinds: maybe(list(text(64, 1), 64)),
  labels: maybe(map),
  instance: maybe(text(64, 1)),
  heartbeat_seconds: maybe(decimal(1, 300)),
  offline_after_seconds: maybe(decimal(1, 86_400)),
  pid: maybe(integer(0, PID_MAX)),
  hostname: maybe(text(256)),
  meta: maybe(map),
  version: maybe(text(64)),
};

export const registerBody = v.object({ name, ...registrationFields });
export type RegisterBody = v.InferInput<typeof registerBody>;

export const registerAnswer = v.object({
  status: v.literal('ok'),
  name: v.string(),
  runtime_id: idOut,
  kind: v.string(),
  runtime: json,
  heartbeat_seconds: v.number(),
  offline_after_seconds: v.number(),
  server_time: v.string(),
});
export type RegisterAnswer = v.InferOutput<typeof registerAnswer>;

export const holds = list(v.object({ command_id: id, attempt: integer(0, Number.MAX_SAFE_INTEGER) }), 1024);

export const heartbeatBody = v.object({
  name,
  registration: maybe(v.object({ name: maybe(name), ...registrationFields }, 'must be an object')),
  status: maybe(text(64, 1)),
  load: maybe(json),
  commands: maybe(holds),
});
export type HeartbeatBody = v.InferInput<typeof heartbeatBody>;

export const heartbeatAnswer = v.object({
  status: v.picklist(['ok', 'recreated']),
  name: v.string(),
  runtime_id: idOut,
  stop: v.array(stopOrder),
});
export type HeartbeatAnswer = v.InferOutput<typeof heartbeatAnswer>;

export const deregisterBody = v.object({ name, kind: maybe(kind), component_type: maybe(kind) });
export type DeregisterBody = v.InferInput<typeof deregisterBody>;

export const deregisterAnswer = v.object({ status: v.literal('ok'), name: v.string(), released: v.number() });
export type DeregisterAnswer = v.InferOutput<typeof deregisterAnswer>;

/**
 * `runtimeOfflineSeconds` is the silence after which a worker that names no heartbeat of its own is offline; one that
 * does is given three of them.
 */
export function toRegistration(body: v.InferOutput<typeof registerBody>, runtimeOfflineSeconds: number): Registration {
  const status = (body.status ?? 'ready').toLowerCase();
  const heartbeat = body.heartbeat_seconds;
  const silence = heartbeat == null ? runtimeOfflineSeconds : Math.max(3 * heartbeat, 3);
  return {
    name: body.name,
    kind: body.kind ?? body.component_type ?? 'worker_pool',
    runtime: body.runtime ?? null,
    uri: body.uri ?? body.base_url ?? null,
    status: status === 'active' ? 'ready' : status,
    capacity: body.capacity ?? 1,
    pools: body.pools ?? ['shared'],
    toolKinds: body.tool_kinds ?? [],
    labels: body.labels ?? {},
    instance: body.instance ?? null,
    heartbeatSeconds: heartbeat ?? 15,
    offlineAfterSeconds: body.offline_after_seconds ?? silence,
    pid: body.pid ?? null,
    hostname: body.hostname ?? null,
    meta: body.meta ?? {},
    version: body.version ?? null,
  };
}

export function toHolds(given: v.InferOutput<typeof holds> | null | undefined): readonly Hold[] {
  return (given ?? []).map((each) => ({ commandId: each.command_id, attempt: each.attempt }));
}

export const worker = v.object({
  name: v.string(),
  runtime_id: idOut,
  kind: v.string(),
  runtime: json,
  uri: v.nullable(v.string()),
  status: v.string(),
  capacity: v.number(),
  pools: v.array(v.string()),
  tool_kinds: v.array(v.string()),
  labels: map,
  instance: v.nullable(v.string()),
  hostname: v.nullable(v.string()),
  version: v.nullable(v.string()),
  heartbeat: v.string(),
  heartbeat_age_seconds: v.number(),
  stale: v.boolean(),
  open_commands: v.number(),
  created_at: v.string(),
  updated_at: v.string(),
});
export type Worker = v.InferOutput<typeof worker>;

/** `nowMs` by the database's clock; a heartbeat of `staleSeconds` or more is stale (api 4.2 row 11). */
export function workerToWire(row: WorkerRow, nowMs: number, staleSeconds: number): Worker {
  const age = Math.max(0, nowMs - Date.parse(row.heartbeatAt)) / 1000;
  return {
    name: row.name,
    runtime_id: row.runtimeId,
    kind: row.kind,
    runtime: row.runtime,
    uri: row.uri,
    status: row.status,
    capacity: row.capacity,
    pools: [...row.pools],
    tool_kinds: [...row.toolKinds],
    labels: row.labels,
    instance: row.instance,
    hostname: row.hostname,
    version: row.version,
    heartbeat: row.heartbeatAt,
    heartbeat_age_seconds: Math.round(age * 1000) / 1000,
    stale: age >= staleSeconds,
    open_commands: row.openCommands,
    created_at: row.createdAt,
    updated_at: row.updatedAt,
  };
}
