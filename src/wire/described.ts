/**
 * Schemas that say what they are in JSON Schema themselves. A hand-written check is faster than a pipe of library
 * checks, but the documentation cannot look into a function; this table tells it.
 */
import type { GenericSchema } from 'valibot';
import type { JsonMap } from '../../machines/json.ts';

const descriptions = new WeakMap<object, JsonMap>();

/** The same schema, known to the documentation as `jsonSchema`. */
export function described<S extends GenericSchema>(schema: S, jsonSchema: JsonMap): S {
  descriptions.set(schema, jsonSchema);
  return schema;
}

export function descriptionOf(schema: object): JsonMap | undefined {
  return descriptions.get(schema);
}
