/**
 * Where a body may hold integers, read from what its schema says of itself: plain data, so that a thread can be told.
 */
import type { GenericSchema } from 'valibot';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { jsonSchemaOf } from '../wire/json-schema.ts';

export interface IntegerPlaces {
  /** An integer may stand here. */
  readonly integer?: true;
  readonly members?: Readonly<Record<string, IntegerPlaces>>;
  readonly items?: IntegerPlaces;
}

/** Null when there is no such place in a body of this schema. */
export function integerPlacesOf(schema: GenericSchema | undefined): IntegerPlaces | null {
  return schema === undefined ? null : read(jsonSchemaOf(schema, 'input'));
}

function read(schema: Json | undefined): IntegerPlaces | null {
  if (!isMap(schema)) return null;
  const ways = ['anyOf', 'oneOf', 'allOf'].flatMap((name) => listAt(schema, name).map(read));
  return [ownPlaces(schema), ...ways].reduce(eitherPlaces, null);
}

function ownPlaces(schema: JsonMap): IntegerPlaces | null {
  const { properties } = schema;
  const members = Object.entries(isMap(properties) ? properties : {}).flatMap(([key, each]) => {
    const places = read(each);
    return places === null ? [] : [[key, places] as const];
  });
  const items = read(schema['items']);
  const integer = schema['type'] === 'integer';
  if (!integer && items === null && members.length === 0) return null;
  return {
    ...(integer ? { integer } : {}),
    ...(members.length === 0 ? {} : { members: Object.fromEntries(members) }),
    ...(items === null ? {} : { items }),
  };
}

/** The places of both. */
export function eitherPlaces(a: IntegerPlaces | null, b: IntegerPlaces | null): IntegerPlaces | null {
  if (a === null || b === null) return a ?? b;
  const names = new Set([...Object.keys(a.members ?? {}), ...Object.keys(b.members ?? {})]);
  const members = [...names].flatMap((name) => {
    const places = eitherPlaces(a.members?.[name] ?? null, b.members?.[name] ?? null);
    return places === null ? [] : [[name, places] as const];
  });
  const items = eitherPlaces(a.items ?? null, b.items ?? null);
  return {
    ...(a.integer === true || b.integer === true ? { integer: true } : {}),
    ...(members.length === 0 ? {} : { members: Object.fromEntries(members) }),
    ...(items === null ? {} : { items }),
  };
}

function listAt(schema: JsonMap, name: string): readonly Json[] {
  const value = schema[name];
  return Array.isArray(value) ? value : [];
}
