/**
 * Takes a value that is too large for the log out of it (language 10.3): a row for `core.result`, and the summary and
 * reference that the event carries instead. Synchronous, so that a flush can store its own large values in the same
 * transaction as the events that refer to them.
 */
import type { ResultReference } from '../machines/events.ts';
import type { Json, JsonMap } from '../machines/json.ts';
import { writeReference } from '../machines/playbook/reference.ts';
import { PREVIEW_MAX_BYTES, type Selection, summarise } from '../machines/playbook/summary.ts';
import type { ResultRow } from './ports.ts';

/** The one tier of this build: the database (language 10.3, `store.kind`). */
export const STORE = 'db';

export interface StoredApart {
  readonly row: ResultRow;
  readonly summary: JsonMap;
  readonly reference: ResultReference;
}

export interface ApartOptions {
  readonly executionId: number;
  /** Step, or the name a worker gives. */
  readonly name: string;
  readonly commandId: number | null;
  readonly select: readonly Selection[];
  readonly resultId: number;
  /** Hex, of the compact JSON in UTF-8. */
  readonly sha256: string;
  readonly bytes: number;
  readonly scope?: string;
  readonly mediaType?: string;
  readonly expiresAt?: string | null;
  readonly previewMaxBytes?: number;
}

/**
 * Null when the compact JSON of the value has at most `inlineMaxBytes` bytes. `sha256` hashes a text as UTF-8 and answers
 * in hex; `nextId` is asked only when the value is stored.
 */
export function externalise(
  value: Json,
  options: Pick<ApartOptions, 'executionId' | 'name' | 'commandId' | 'select' | 'scope' | 'previewMaxBytes'> & {
    readonly inlineMaxBytes: number;
    nextId(): number;
    sha256(text: string): string;
  },
): StoredApart | null {
  const json = JSON.stringify(value);
  const bytes = bytesWithin(json, options.inlineMaxBytes);
  if (bytes === null) return null;
  return storedApart(value, json, { ...options, bytes, resultId: options.nextId(), sha256: options.sha256(json) });
}

/** The row, summary and reference of a value, whatever its size. `json` is its compact JSON. */
export function storedApart(value: Json, json: string, options: ApartOptions): StoredApart {
  const { executionId, name, commandId, select, resultId, sha256, bytes } = options;
  const ref = writeReference({ executionId, name, resultId });
  const previewMaxBytes = options.previewMaxBytes ?? PREVIEW_MAX_BYTES;
  const summary = summarise(value, json, { ref, store: STORE, bytes, select, previewMaxBytes });
  const row: ResultRow = {
    executionId,
    resultId,
    ref,
    name,
    commandId,
    scope: options.scope ?? 'execution',
    store: STORE,
    data: json,
    bytes,
    sha256,
    mediaType: options.mediaType ?? 'application/json',
    summary,
    expiresAt: options.expiresAt ?? null,
  };
  return { row, summary, reference: { ref, store: STORE, bytes, sha256 } };
}

/** Bytes of a text in UTF-8, or null when they are at most `max`. A short text is not measured. */
function bytesWithin(text: string, max: number): number | null {
  if (text.length * 3 <= max) return null;
  const bytes = utf8Bytes(text);
  return bytes <= max ? null : bytes;
}

/** Size of a well-formed text in UTF-8. */
export function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}
