/** Help of a playbook that asks a model (api 2.2.17): what it is asked, and what it said. */
import * as v from 'valibot';
import type { ExecutionRow } from '../../actors/ports.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { flag, integer, map, maybe, text } from './fields.ts';
import { catalogPath, id, idOut } from './ids.ts';
import { version } from './start.ts';

const TEXT_MAX = 1_048_576;

const asked = {
  timeout_seconds: maybe(integer(1, 600)),
  /** Further inputs of the helping playbook. */
  workload: maybe(map),
  prompt: maybe(text(65_536)),
};

export const explainAiBody = v.object({
  path: maybe(catalogPath),
  catalog_id: maybe(id),
  version: maybe(version),
  content: maybe(text(TEXT_MAX)),
  explanation_playbook_path: maybe(catalogPath),
  ...asked,
});

export const generateAiBody = v.object({
  path: maybe(catalogPath),
  generator_playbook_path: maybe(catalogPath),
  ...asked,
});

export const analyzeAiBody = v.object({
  analysis_playbook_path: maybe(catalogPath),
  include_playbook_content: maybe(flag),
  ...asked,
});

const answer = {
  target_path: v.nullable(v.string()),
  target_version: v.nullable(v.number()),
  generated_at: v.string(),
  ai_playbook_path: v.string(),
  ai_execution_id: idOut,
  ai_execution_status: v.string(),
  /** The result of the helping playbook where it is a map: its `report`, or all of it. */
  ai_report: v.nullable(map),
  ai_raw_output: v.nullable(v.string()),
};

export const aiAnswer = v.object(answer);
export const generateAiAnswer = v.object({ ...answer, generated_playbook: v.nullable(v.string()) });

export interface Helped {
  readonly target: { readonly path: string | null; readonly version: number | null };
  readonly path: string;
  readonly row: ExecutionRow;
  readonly generatedAt: string;
}

export function aiToWire({ target, path, row, generatedAt }: Helped): v.InferOutput<typeof aiAnswer> {
  const result = row.status === 'completed' ? row.result : null;
  return {
    target_path: target.path,
    target_version: target.version,
    generated_at: generatedAt,
    ai_playbook_path: path,
    ai_execution_id: row.executionId,
    ai_execution_status: row.status,
    ai_report: reportOf(result),
    ai_raw_output: rawOf(result),
  };
}

/** The text of a playbook in a result: named, or in a fenced block of what was said. */
export function generatedOf({ row }: Pick<Helped, 'row'>): string | null {
  const result = row.status === 'completed' ? row.result : null;
  for (const key of ['generated_playbook', 'playbook', 'content', 'yaml']) {
    const value = memberOf(result, key);
    if (typeof value === 'string' && value.trim() !== '') return value;
  }
  return /```(?:ya?ml)?\r?\n([\s\S]*?)```/.exec(rawOf(result) ?? '')?.[1] ?? null;
}

function reportOf(result: Json): JsonMap | null {
  if (!isMap(result)) return null;
  const report = memberOf(result, 'report');
  return isMap(report) ? report : result;
}

function rawOf(result: Json): string | null {
  if (result === null) return null;
  if (typeof result === 'string') return result;
  for (const key of ['raw_output', 'output', 'text', 'message']) {
    const value = memberOf(result, key);
    if (typeof value === 'string') return value;
  }
  return JSON.stringify(result);
}

/** Of the result, or of the data a step gave as the result. */
function memberOf(result: Json, key: string): Json | undefined {
  if (!isMap(result)) return undefined;
  const { [key]: own, data } = result;
  return own ?? (isMap(data) ? data[key] : undefined);
}
