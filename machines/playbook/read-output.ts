/** Reads the result options of a tool or a step (language 10.3): what to keep at hand, and where the rest goes. */
import type { OutputOptions } from './document.ts';
import { literalNumber } from './literal.ts';
import { isListPlace, isMapPlace, items, type MapPlace, member, type Place, textOf } from './place.ts';
import type { Report, Subject } from './report.ts';
import { nameOfPath } from './summary.ts';
import { warnUnknownKeys } from './unknown-keys.ts';

const OUTPUT_KEYS = new Set(['select', 'store', 'inline_max_bytes', 'preview_max_bytes', 'scope']);
const STORE_KEYS = new Set(['kind', 'ttl', 'scope']);
const TIERS: ReadonlySet<string> = new Set(['auto', 'kv', 'disk', 'memory', 'db', 's3', 'gcs']);

const NONE: OutputOptions = { select: [], inlineMaxBytes: null, previewMaxBytes: null, store: null };

/** The options of `output` and `output_select` of this map, or null when it has neither. */
export function readOutput(report: Report, subject: Subject, owner: MapPlace): OutputOptions | null {
  const output = member(owner, 'output');
  const flat = member(owner, 'output_select');
  const options = output && output.node.json !== null ? readOptions(report, subject, output) : null;
  if (flat === null || flat.node.json === null) return options;
  const select = readSelect(report, subject, flat);
  return { ...(options ?? NONE), select: [...(options?.select ?? []), ...select] };
}

/** Options of a step laid over those of its last task. */
export function mergeOutput(task: OutputOptions | null, step: OutputOptions | null): OutputOptions | null {
  if (task === null || step === null) return step ?? task;
  return {
    select: step.select.length > 0 ? step.select : task.select,
    inlineMaxBytes: step.inlineMaxBytes ?? task.inlineMaxBytes,
    previewMaxBytes: step.previewMaxBytes ?? task.previewMaxBytes,
    store: step.store ?? task.store,
  };
}

function readOptions(report: Report, subject: Subject, place: Place): OutputOptions {
  if (!isMapPlace(place)) {
    report.error('tool_field', subject, place, "'output' must be a map");
    return NONE;
  }
  warnUnknownKeys(report, subject, place, OUTPUT_KEYS, 'output');
  const select = member(place, 'select');
  return {
    select: select && select.node.json !== null ? readSelect(report, subject, select) : [],
    inlineMaxBytes: readBytes(report, subject, member(place, 'inline_max_bytes'), 'inline_max_bytes'),
    previewMaxBytes: readBytes(report, subject, member(place, 'preview_max_bytes'), 'preview_max_bytes'),
    store: readStore(report, subject, member(place, 'store')),
  };
}

function readSelect(report: Report, subject: Subject, place: Place): OutputOptions['select'] {
  if (!isListPlace(place)) {
    report.error('tool_field', subject, place, "'output.select' must be a list");
    return [];
  }
  return items(place).flatMap((item) => {
    const path = textOf(item) ?? (isMapPlace(item) ? textOf(member(item, 'path')) : null);
    if (path === null || path === '') {
      report.error('tool_field', subject, item, "'output.select' must be a list of paths or {path, as}");
      return [];
    }
    const as = isMapPlace(item) ? textOf(member(item, 'as')) : null;
    const selection = { path, as: as ?? nameOfPath(path) };
    if (selection.as === '__proto__') {
      report.error('tool_field', subject, item, "'output.select' cannot keep a field as '__proto__'");
    }
    return [selection];
  });
}

function readBytes(report: Report, subject: Subject, place: Place | null, key: string): number | null {
  if (place === null || place.node.json === null) return null;
  const bytes = literalNumber(place.node.json);
  if (bytes !== null && Number.isInteger(bytes) && bytes >= 0) return bytes;
  report.error('tool_field', subject, place, `'output.${key}' must be a whole number of bytes`);
  return null;
}

function readStore(report: Report, subject: Subject, place: Place | null): string | null {
  if (place === null || place.node.json === null) return null;
  if (isMapPlace(place)) warnUnknownKeys(report, subject, place, STORE_KEYS, 'output.store');
  const kind = isMapPlace(place) ? member(place, 'kind') : place;
  if (kind === null || kind.node.json === null) return null;
  const tier = textOf(kind);
  if (tier !== null && TIERS.has(tier)) return tier;
  report.error('tool_field', subject, kind, `'output.store.kind' must be one of ${[...TIERS].join(', ')}`);
  return null;
}
