/** The rule-based report on a run (api 2.3.12). */
import * as v from 'valibot';
import type { ExecutionRow } from '../../actors/ports.ts';
import type { CatalogEntry } from '../../actors/services.ts';
import type { Analysis } from '../../machines/analysis.ts';
import type { LogEvent } from '../../machines/events.ts';
import { durationSeconds } from './duration.ts';
import { event, eventToWire } from './event.ts';
import { flag, integer, maybe } from './fields.ts';
import { idOut } from './ids.ts';

export const MAX_EVENTS = 1_200;
export const EVENT_SAMPLE_SIZE = 120;

export const analyzeBody = v.object({
  max_events: maybe(integer(1, 10_000)),
  event_sample_size: maybe(integer(0, 1_000)),
  include_playbook_content: maybe(flag),
});

const nullableText = v.nullable(v.string());

export const analysisAnswer = v.object({
  execution_id: idOut,
  path: v.string(),
  status: v.string(),
  generated_at: v.string(),
  summary: v.object({
    events: v.number(),
    steps: v.number(),
    commands: v.number(),
    retries: v.number(),
    duration_seconds: v.nullable(v.number()),
    slowest_steps: v.array(v.object({ step: v.string(), duration_ms: v.number(), activations: v.number() })),
  }),
  findings: v.array(
    v.object({
      severity: v.picklist(['error', 'warning', 'info']),
      code: v.string(),
      message: v.string(),
      step: nullableText,
      event_id: v.nullable(v.number()),
    }),
  ),
  recommendations: v.array(v.string()),
  playbook: v.object({
    path: v.string(),
    version: v.number(),
    catalog_id: idOut,
    kind: v.string(),
    name: nullableText,
    tasks_count: v.nullable(v.number()),
    content: nullableText,
  }),
  event_sample: v.array(event),
});

export interface Analysed {
  readonly row: ExecutionRow;
  readonly analysis: Analysis;
  readonly sample: readonly LogEvent[];
  readonly entry: CatalogEntry | null;
  readonly withContent: boolean;
  readonly nowMs: number;
}

export function analysisToWire({
  row,
  analysis,
  sample,
  entry,
  withContent,
  nowMs,
}: Analysed): v.InferOutput<typeof analysisAnswer> {
  return {
    execution_id: row.executionId,
    path: row.path,
    status: row.status,
    generated_at: new Date(nowMs).toISOString(),
    summary: {
      events: row.lastEventId,
      steps: analysis.steps,
      commands: analysis.commands,
      retries: analysis.retries,
      duration_seconds: durationSeconds(row.startTime, row.endTime, nowMs),
      slowest_steps: analysis.slowestSteps.map(({ step, durationMs, activations }) => ({
        step,
        duration_ms: durationMs,
        activations,
      })),
    },
    findings: analysis.findings.map(({ severity, code, message, step, eventId }) => ({
      severity,
      code,
      message,
      step,
      event_id: eventId,
    })),
    recommendations: [...analysis.recommendations],
    playbook: {
      path: row.path,
      version: row.version,
      catalog_id: row.catalogId,
      kind: row.kind,
      name: entry?.name ?? null,
      tasks_count: entry?.tasksCount ?? null,
      content: withContent ? (entry?.content ?? null) : null,
    },
    event_sample: sample.map((each) => eventToWire(each, row)),
  };
}
