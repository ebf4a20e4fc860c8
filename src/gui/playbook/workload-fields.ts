/** The fields of a run form: from the server's form description (api 2.2.13) or from the defaults of the workload. Pure. */
import type { Json, JsonMap } from '../core/wire.ts';

export type FieldKind = 'string' | 'integer' | 'number' | 'boolean' | 'enum' | 'json';

export interface Field {
  readonly name: string;
  readonly kind: FieldKind;
  readonly default: Json;
  readonly description: string | null;
  readonly secret: boolean;
  readonly options: readonly string[];
}

export interface UiSchema {
  readonly fields: readonly {
    readonly name: string;
    readonly kind: string;
    readonly default: Json;
    readonly description: string | null;
    readonly secret: boolean;
    readonly options: readonly Json[];
  }[];
}

export function fieldsOf(schema: UiSchema | null, workload: JsonMap): readonly Field[] {
  if (schema === null) return Object.entries(workload).map(([name, value]) => derived(name, value));
  return schema.fields.map((field) => ({
    ...field,
    kind: kindOf(field.kind),
    options: field.options.map(String),
  }));
}

function derived(name: string, value: Json): Field {
  const kind =
    typeof value === 'string'
      ? 'string'
      : typeof value === 'number'
        ? 'number'
        : typeof value === 'boolean'
          ? 'boolean'
          : 'json';
  return { name, kind, default: value, description: null, secret: false, options: [] };
}

function kindOf(word: string): FieldKind {
  switch (word) {
    case 'string':
    case 'integer':
    case 'number':
    case 'boolean':
    case 'enum':
      return word;
    default:
      return 'json';
  }
}

/** As it stands in the form. */
export function textOf(field: Field, value: Json | undefined): string {
  const shown = value === undefined ? field.default : value;
  if (field.kind === 'json') return JSON.stringify(shown ?? null, null, 2);
  return shown === null ? '' : String(shown);
}

/** The value a text stands for; throws a sentence naming the field. */
export function readValue(field: Field, text: string): Json {
  switch (field.kind) {
    case 'string':
    case 'enum':
      return text;
    case 'boolean':
      return text === 'true';
    case 'integer':
    case 'number': {
      const number = Number(text);
      if (text.trim() === '' || !Number.isFinite(number)) throw new Error(`${field.name} must be a number`);
      if (field.kind === 'integer' && !Number.isInteger(number))
        throw new Error(`${field.name} must be a whole number`);
      return number;
    }
    case 'json':
      return parseJson(field.name, text);
  }
}

/** An input written as JSON. */
export function parseInput(text: string): JsonMap {
  const value = parseJson('The input', text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('The input must be an object, as { "name": "value" }');
  return value as JsonMap;
}

export function parseJson(name: string, text: string): Json {
  try {
    // JSON.parse gives JSON.
    return JSON.parse(text) as Json;
  } catch (error) {
    throw new Error(`${name} is not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** All values of a form, in their own types. */
export function valuesOf(fields: readonly Field[], texts: Readonly<Record<string, string>>): JsonMap {
  return Object.fromEntries(
    fields.map((field) => {
      const text = texts[field.name];
      const isDefault = text === undefined || text === textOf(field, undefined);
      return [field.name, isDefault ? field.default : readValue(field, text)];
    }),
  );
}

/** Only what differs from the defaults is sent, and what has no field, so that a run says what was meant. */
export function changedValues(fields: readonly Field[], input: JsonMap): JsonMap {
  const defaults = new Map(fields.map((field) => [field.name, JSON.stringify(field.default)]));
  return Object.fromEntries(
    Object.entries(input).filter(([name, value]) => JSON.stringify(value) !== defaults.get(name)),
  );
}
