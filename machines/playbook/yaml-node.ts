/**
 * The tree of a YAML text with offsets into the text. Aliases share the node of their anchor, so the tree is a graph
 * without cycles; `json` of a node is built once and shared in the same way.
 */
import type { Json, JsonMap } from '../json.ts';
import { known } from '../known.ts';

/** Offsets in UTF-16 units, end exclusive. A block collection spans its first scalar only, which is what a reader marks. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface YamlScalar {
  readonly kind: 'scalar';
  readonly at: Span;
  readonly json: null | boolean | number | string;
}
export interface YamlList {
  readonly kind: 'list';
  readonly at: Span;
  readonly json: readonly Json[];
  readonly items: readonly YamlNode[];
}
export interface YamlMap {
  readonly kind: 'map';
  readonly at: Span;
  readonly json: JsonMap;
  readonly entries: readonly YamlEntry[];
}
export type YamlNode = YamlScalar | YamlList | YamlMap;

export interface YamlEntry {
  readonly key: string;
  readonly keyAt: Span;
  readonly value: YamlNode;
}

/** A map node of these entries, as if it stood at `at`; a later entry replaces an earlier one of the same key. */
export function mapNode(at: Span, entries: readonly YamlEntry[]): YamlMap {
  const byKey = new Map(entries.map((entry) => [entry.key, entry]));
  const kept = [...byKey.values()];
  return { kind: 'map', at, entries: kept, json: Object.fromEntries(kept.map(({ key, value }) => [key, value.json])) };
}

/** A node for a value that no place in the text spells out; it points at `at`. */
export function nodeOf(at: Span, value: Json): YamlNode {
  if (Array.isArray(value)) return { kind: 'list', at, json: value, items: value.map((item) => nodeOf(at, item)) };
  if (typeof value !== 'object' || value === null) {
    // Lists are gone, and what is neither object nor list is a scalar.
    return { kind: 'scalar', at, json: value as YamlScalar['json'] };
  }
  const entries = Object.entries(value).map(([key, inner]) => ({ key, keyAt: at, value: nodeOf(at, inner) }));
  return mapNode(at, entries);
}

/** Lines and columns, from 1, of offsets of one text. */
export class LineIndex {
  readonly #starts: number[] = [0];

  constructor(text: string) {
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.#starts.push(at + 1);
  }

  position(offset: number): { readonly line: number; readonly column: number } {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (known(this.#starts[middle]) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - known(this.#starts[low]) + 1 };
  }
}
