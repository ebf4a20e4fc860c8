/**
 * Schemas of credentials and keychain entries (api 4.5): which fields data may have, must have, and of which type. The
 * sentences and their order are part of the contract.
 */
import { isMap, type Json, type JsonMap } from '../json.ts';

const TYPES = ['string', 'integer', 'boolean', 'number', 'array', 'object'] as const;
type FieldType = (typeof TYPES)[number];

/** What is wrong with the schema itself, in the order of its keys in api 4.5; empty for a schema that may be stored. */
export function fieldSchemaProblems(schema: unknown): string[] {
  if (!isMap(schema)) return ['Schema must be an object'];
  const problems: string[] = [];
  for (const key of ['fields', 'required']) {
    const names = schema[key];
    if (names === undefined || names === null) continue;
    if (!Array.isArray(names) || !names.every((name) => typeof name === 'string')) {
      problems.push(`Schema '${key}' must be an array of strings`);
    }
  }
  const { types, description } = schema;
  if (types !== undefined && types !== null && !isMap(types)) problems.push("Schema 'types' must be an object");
  for (const [field, type] of Object.entries(mapOf(types))) {
    if (!isFieldType(type)) problems.push(`Unknown type for field '${field}': ${spelled(type)}`);
  }
  if (description !== undefined && description !== null && typeof description !== 'string') {
    problems.push("Schema 'description' must be a string");
  }
  for (const key of Object.keys(schema)) {
    if (!['fields', 'required', 'types', 'description'].includes(key)) problems.push(`Unknown schema key: ${key}`);
  }
  return problems;
}

/** What is wrong with data under a schema that has no problems of its own: missing, mistyped, unexpected, in this order. */
export function schemaErrors(schema: JsonMap, data: JsonMap): string[] {
  const required = textsOf(schema['required']);
  const fields = textsOf(schema['fields']);
  const missing = required.filter((field) => !Object.hasOwn(data, field));
  const mistyped = Object.entries(mapOf(schema['types'])).flatMap(([field, type]) => {
    const value = Object.hasOwn(data, field) ? data[field] : undefined;
    if (value === undefined || !isFieldType(type) || hasType(value, type)) return [];
    return [`Field '${field}' must be ${type}, got ${typeName(value)}`];
  });
  const unexpected = fields.length === 0 ? [] : Object.keys(data).filter((field) => !fields.includes(field));
  return [
    ...missing.map((field) => `Missing required field: ${field}`),
    ...mistyped,
    ...(unexpected.length === 0 ? [] : [`Unexpected fields: ${unexpected.join(', ')}`]),
  ];
}

function hasType(value: Json, type: FieldType): boolean {
  const actual = typeName(value);
  return actual === type || (type === 'number' && actual === 'integer');
}

/** The word for the type of a value; a whole number is an integer. */
function typeName(value: Json): FieldType | 'null' {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  switch (typeof value) {
    case 'string':
      return 'string';
    case 'boolean':
      return 'boolean';
    case 'number':
      return Number.isInteger(value) ? 'integer' : 'number';
    default:
      return 'object';
  }
}

function isFieldType(type: unknown): type is FieldType {
  return TYPES.some((known) => known === type);
}

function spelled(type: Json): string {
  return typeof type === 'string' ? type : JSON.stringify(type);
}

function mapOf(value: Json | undefined): JsonMap {
  return isMap(value) ? value : {};
}

function textsOf(value: Json | undefined): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}
