/** A node together with where it is: everything a check needs to say what is wrong and where. */
import type { JsonMap } from '../json.ts';
import { memberPath } from './names.ts';
import type { Span, YamlEntry, YamlList, YamlMap, YamlNode } from './yaml-node.ts';

export interface Place<N extends YamlNode = YamlNode> {
  readonly node: N;
  /** `workflow[2].tool.url`; empty for the document itself. */
  readonly path: string;
  /** Where the key stands, for a member of a map. */
  readonly keyAt: Span | null;
}

export type MapPlace = Place<YamlMap>;
export type ListPlace = Place<YamlList>;

export function isMapPlace(place: Place | null): place is MapPlace {
  return place?.node.kind === 'map';
}

export function isListPlace(place: Place | null): place is ListPlace {
  return place?.node.kind === 'list';
}

/** The member of this name, also when its value is null; null when the key is not there. */
export function member(place: MapPlace, key: string): Place | null {
  const entry = place.node.entries.find((candidate) => candidate.key === key);
  return entry ? placeOf(place, entry) : null;
}

/** The first of these members that is there. */
export function firstMember(place: MapPlace, keys: readonly string[]): Place | null {
  for (const key of keys) {
    const found = member(place, key);
    if (found) return found;
  }
  return null;
}

export function members(place: MapPlace): readonly { readonly key: string; readonly place: Place }[] {
  return place.node.entries.map((entry) => ({ key: entry.key, place: placeOf(place, entry) }));
}

export function items(place: ListPlace): readonly Place[] {
  return place.node.items.map((node, index) => ({ node, path: memberPath(place.path, index), keyAt: null }));
}

/** The text of a string scalar, else null. */
export function textOf(place: Place | null): string | null {
  return place?.node.kind === 'scalar' && typeof place.node.json === 'string' ? place.node.json : null;
}

/** The member of this name unless its value is null: for keys where null means "not given". */
export function given(place: MapPlace, key: string): Place | null {
  const found = member(place, key);
  return found?.node.json === null ? null : found;
}

/** The JSON of a map, else an empty map. */
export function mapJson(place: Place | null): JsonMap {
  return isMapPlace(place) ? place.node.json : {};
}

function placeOf(parent: MapPlace, entry: YamlEntry): Place {
  return { node: entry.value, path: memberPath(parent.path, entry.key), keyAt: entry.keyAt };
}
