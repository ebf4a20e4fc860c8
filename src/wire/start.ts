/** Starting an execution (api 2.3.1, 2.3.2): one request with the aliases of 1.6, two answers. */
import * as v from 'valibot';
import type { StartReceipt, StartRequest } from '../../actors/services.ts';
import { isMap, type JsonMap } from '../../machines/json.ts';
import { described } from './described.ts';
import { integer, json, maybe, text } from './fields.ts';
import { catalogPath, id, idOut, name } from './ids.ts';
import { INPUTS_DIFFER, inputsAgree, inputsOf, startInputFields } from './inputs.ts';

const KEY = /^[\x21-\x7e]{1,255}$/;

export const idempotencyKey = described(
  v.custom<string>(
    (value) => typeof value === 'string' && KEY.test(value),
    'must be 1 to 255 visible ASCII characters',
  ),
  { type: 'string', minLength: 1, maxLength: 255 },
);

export const version = described(
  v.custom<number | 'latest'>(
    (value) => value === 'latest' || (Number.isSafeInteger(value) && Number(value) >= 1),
    "must be a version: an integer of at least 1, or 'latest'",
  ),
  { anyOf: [{ type: 'integer', minimum: 1 }, { const: 'latest' }] },
);

const labels = described(
  v.custom<JsonMap>(
    (value) =>
      isMap(value) &&
      Object.keys(value).length <= 32 &&
      Object.entries(value).every(
        ([key, label]) => key.length <= 128 && typeof label === 'string' && label.length <= 1024,
      ),
    'must be an object of at most 32 texts',
  ),
  { type: 'object', maxProperties: 32, additionalProperties: { type: 'string' } },
);

export const startBody = v.pipe(
  v.object({
    path: maybe(catalogPath),
    catalog_id: maybe(id),
    version: maybe(version),
    resource_kind: maybe(text(64, 1)),
    ...startInputFields,
    merge: maybe(json),
    parent_execution_id: maybe(id),
    parent_command_id: maybe(id),
    parent_event_id: maybe(id),
    idempotency_key: maybe(idempotencyKey),
    execution_pool: maybe(name),
    priority: maybe(integer(-100, 100)),
    labels: maybe(labels),
    wait_ms: maybe(integer(0, 60_000)),
  }),
  v.check((body) => body.path != null || body.catalog_id != null, 'needs path or catalog_id'),
  v.check((body) => inputsAgree(body), INPUTS_DIFFER),
);
export type StartBody = v.InferInput<typeof startBody>;

/** `headerKey` is that of the `Idempotency-Key` header and wins over the body's. */
export function toStartRequest(
  body: v.InferOutput<typeof startBody>,
  headerKey: string | null,
  trace: string | null,
): StartRequest {
  const waitMs = body.wait_ms ?? 0;
  return {
    ...(body.path == null ? {} : { path: body.path }),
    ...(body.catalog_id == null ? {} : { catalogId: body.catalog_id }),
    ...(body.version == null ? {} : { version: body.version }),
    ...(body.resource_kind == null ? {} : { resourceKind: body.resource_kind }),
    ...(body.labels == null ? {} : { labels: body.labels }),
    ...(waitMs === 0 ? {} : { waitMs }),
    workload: inputsOf(body) ?? {},
    parentExecutionId: body.parent_execution_id ?? null,
    parentCommandId: body.parent_command_id ?? null,
    parentEventId: body.parent_event_id ?? null,
    idempotencyKey: headerKey ?? body.idempotency_key ?? null,
    executionPool: body.execution_pool ?? null,
    priority: body.priority ?? 0,
    trace,
  };
}

const receiptFields = {
  execution_id: idOut,
  status: v.literal('started'),
  path: v.string(),
  catalog_id: idOut,
  version: v.number(),
  kind: v.string(),
  commands_generated: v.number(),
  duplicate: v.boolean(),
};

export const startAnswer = v.object({
  ...receiptFields,
  execution_status: v.optional(v.string()),
  result: v.optional(json),
  error: v.optional(v.nullable(v.string())),
});
export type StartAnswer = v.InferOutput<typeof startAnswer>;

export function startToWire(receipt: StartReceipt): StartAnswer {
  const { waited } = receipt;
  return {
    execution_id: receipt.executionId,
    status: 'started',
    path: receipt.path,
    catalog_id: receipt.catalogId,
    version: receipt.version,
    kind: receipt.kind,
    commands_generated: receipt.commandsGenerated,
    duplicate: receipt.duplicate,
    ...(waited === null ? {} : { execution_status: waited.status, result: waited.result, error: waited.error }),
  };
}

export const rerunBody = v.pipe(
  v.object({
    ...startInputFields,
    version: maybe(
      described(
        v.custom<number | 'same' | 'latest'>(
          (value) => value === 'same' || value === 'latest' || (Number.isSafeInteger(value) && Number(value) >= 1),
          "must be a version: an integer of at least 1, 'same' or 'latest'",
        ),
        { anyOf: [{ type: 'integer', minimum: 1 }, { enum: ['same', 'latest'] }] },
      ),
    ),
    from_step: maybe(text(128, 1)),
    resource_kind: maybe(text(64, 1)),
    reason: maybe(text(1024, 1)),
  }),
  v.check((body) => inputsAgree(body), INPUTS_DIFFER),
);

export const rerunAnswer = v.object({ ...receiptFields, rerun_of: idOut });

export const runAnswer = v.object({
  ...receiptFields,
  execution_status: v.optional(v.string()),
  name: v.string(),
  type: v.literal('playbook'),
  timestamp: v.string(),
  start_time: v.string(),
  end_time: v.null(),
  progress: v.number(),
  result: json,
  error: v.nullable(v.string()),
});

/** The older door's answer: the moment of the start, whatever happened since. */
export function runToWire(receipt: StartReceipt): v.InferOutput<typeof runAnswer> {
  const { waited } = receipt;
  return {
    ...startToWire({ ...receipt, waited: null }),
    ...(waited === null ? {} : { execution_status: waited.status }),
    name: receipt.path.slice(receipt.path.lastIndexOf('/') + 1),
    type: 'playbook',
    timestamp: receipt.startedAt,
    start_time: receipt.startedAt,
    end_time: null,
    progress: 0,
    result: waited?.result ?? null,
    error: waited?.error ?? null,
  };
}
