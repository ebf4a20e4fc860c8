/** What the catalog shows of a document without reading its text again: names for lists, marks for filters. */
import { isMap, type Json, type JsonMap } from '../json.ts';
import { lastSegment } from './catalog-path.ts';

export interface Listing {
  readonly name: string;
  readonly description: string | null;
  readonly tasksCount: number;
}

export function listingOf(path: string, payload: JsonMap): Listing {
  const metadata = mapOf(payload['metadata']);
  const workflow = payload['workflow'];
  return {
    name: textOf(metadata['name']) ?? lastSegment(path),
    description: textOf(metadata['description']),
    tasksCount: Array.isArray(workflow) ? workflow.length : 0,
  };
}

/** The `meta` of a new entry: agent marks, terminal block and capabilities of its metadata. */
export function metaOf(payload: JsonMap): JsonMap {
  const metadata = mapOf(payload['metadata']);
  const terminal = metadata['terminal'];
  const block = mapOf(terminal);
  const capabilities = [...textsOf(metadata['capabilities']), ...textsOf(block['capabilities'])];
  return {
    agent: metadata['agent'] === true,
    capabilities: [...new Set(capabilities)],
    terminal: isMap(terminal) ? terminal : null,
    terminal_visible: block['visible'] === true,
    terminal_scopes: textsOf(block['scopes']),
  };
}

function mapOf(value: Json | undefined): JsonMap {
  return isMap(value) ? value : {};
}

function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** A list of strings; one string is a list of one (language 2.2). */
function textsOf(value: Json | undefined): readonly string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}
