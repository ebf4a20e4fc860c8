/** A whole log on disk: what `callboard replay` folds again, with the text it was decided by. */
import * as v from 'valibot';
import { event } from '../wire/event.ts';
import { json } from '../wire/fields.ts';
import { id } from '../wire/ids.ts';
import { eventsToWire } from './answer.ts';
import type { Simulation } from './simulator.ts';

export const logFile = v.object({
  execution_id: id,
  catalog_id: id,
  path: v.string(),
  version: v.number(),
  /** The playbook; it may be given beside the file instead. */
  content: v.optional(v.nullable(v.string())),
  /** Rows with all fields, the first one first. */
  events: v.array(event),
  /** Values that are stored apart, by reference. */
  payloads: v.optional(v.record(v.string(), json)),
});
export type LogFile = v.InferOutput<typeof logFile>;

export function recordedLog({ row, events }: Simulation, content: string): LogFile {
  const { executionId, catalogId, path, version } = row;
  const rows = eventsToWire(events, 'all');
  return { execution_id: executionId, catalog_id: catalogId, path, version, content, events: rows };
}
