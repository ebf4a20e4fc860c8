/**
 * The inputs of a playbook as JSON Schema, for those who call it as a tool (api 2.14.4). The workload gives defaults,
 * not types: a default says what a caller may leave out and what a value looks like, so nothing is required and what is
 * not named is allowed.
 */
import type { Json, JsonMap } from '../json.ts';
import type { FormField } from './run-form.ts';

export function inputSchemaOf(fields: readonly FormField[]): JsonMap {
  return { type: 'object', properties: propertiesOf(fields) };
}

function propertiesOf(fields: readonly FormField[]): JsonMap {
  return Object.fromEntries(fields.map((field): [string, Json] => [field.name, schemaOf(field)]));
}

function schemaOf(field: FormField): JsonMap {
  return {
    ...typeOf(field),
    ...(field.description === null ? {} : { description: field.description }),
    // A default that is a secret, or the name of one, is nobody's business.
    ...(field.secret ? { writeOnly: true } : { default: field.default }),
  };
}

function typeOf(field: FormField): JsonMap {
  switch (field.kind) {
    case 'enum':
      return { enum: field.options };
    case 'null':
      return {};
    case 'object':
      return field.children.length === 0
        ? { type: 'object' }
        : { type: 'object', properties: propertiesOf(field.children) };
    default:
      return { type: field.kind };
  }
}
