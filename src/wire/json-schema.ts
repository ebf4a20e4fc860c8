/** A schema of this folder as JSON Schema, for documents and tools that show what they take. */
import { type ConversionConfig, toJsonSchema } from '@valibot/to-json-schema';
import type { GenericSchema } from 'valibot';
import type { JsonMap } from '../../machines/json.ts';
import { descriptionOf } from './described.ts';

const CONFIG = {
  errorMode: 'ignore',
  overrideSchema: ({ valibotSchema }) =>
    descriptionOf(valibotSchema) as ReturnType<NonNullable<ConversionConfig['overrideSchema']>>,
} satisfies ConversionConfig;

/** Without the name of the dialect; `typeMode` says whether it is about what is sent or what is read. */
export function jsonSchemaOf(schema: GenericSchema, typeMode: 'input' | 'output'): JsonMap {
  const { $schema: _dialect, ...rest } = toJsonSchema(schema, { ...CONFIG, typeMode });
  // The text of an object parses to a map; members that are undefined are gone by then.
  return JSON.parse(JSON.stringify(rest)) as JsonMap;
}
