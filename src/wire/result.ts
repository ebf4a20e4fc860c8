/** Stored results (api 2.12): payloads kept apart from the log, addressed by `callboard://…` references. */
import * as v from 'valibot';
import type { StoredResult } from '../../actors/services.ts';
import { nameOfPath, type Selection } from '../../machines/playbook/summary.ts';
import { integer, json, list, map, maybe, text } from './fields.ts';
import { id, idOut } from './ids.ts';

export const resultName = text(256, 1);

/** As in a playbook (language 10.3): a path, or a path and what it is kept as. */
const selection = v.union(
  [text(1024, 1), v.object({ path: text(1024, 1), as: maybe(text(256, 1)) })],
  'must be a path or {path, as}',
);

export const resultBody = v.object({
  name: resultName,
  data: json,
  scope: maybe(
    v.picklist(['step', 'execution', 'workflow', 'permanent'], 'must be one of step, execution, workflow, permanent'),
  ),
  source_step: maybe(text(256)),
  ttl_seconds: maybe(integer(1, 315_360_000)),
  media_type: maybe(text(128, 1)),
  command_id: maybe(id),
  attempt: maybe(integer(0, Number.MAX_SAFE_INTEGER)),
  select: maybe(list(selection, 64)),
});
export type ResultBody = v.InferInput<typeof resultBody>;

export function toSelections(given: v.InferOutput<typeof resultBody>['select']): readonly Selection[] {
  return (given ?? []).map((each) => {
    const { path, as } = typeof each === 'string' ? { path: each, as: null } : each;
    return { path, as: as ?? nameOfPath(path) };
  });
}

export const resultAnswer = v.object({
  ref: v.string(),
  store: v.string(),
  scope: v.string(),
  expires_at: v.nullable(v.string()),
  bytes: v.number(),
  sha256: v.string(),
  summary: map,
});
export type ResultAnswer = v.InferOutput<typeof resultAnswer>;

export function resultToWire(row: StoredResult): ResultAnswer {
  return {
    ref: row.ref,
    store: row.store,
    scope: row.scope,
    expires_at: row.expiresAt,
    bytes: row.bytes,
    sha256: row.sha256,
    summary: row.summary,
  };
}

export const resultList = v.object({
  execution_id: idOut,
  results: v.array(
    v.object({ ref: v.string(), name: v.string(), scope: v.string(), bytes: v.number(), created_at: v.string() }),
  ),
  count: v.number(),
});

export function resultListToWire(executionId: number, rows: readonly StoredResult[]): v.InferOutput<typeof resultList> {
  return {
    execution_id: executionId,
    results: rows.map((row) => ({
      ref: row.ref,
      name: row.name,
      scope: row.scope,
      bytes: row.bytes,
      created_at: row.createdAt,
    })),
    count: rows.length,
  };
}
