import { describe, expect, it } from 'vitest';
import { fieldSchemaProblems, schemaErrors } from '../../../machines/schema/field-schema.ts';

describe('schema of credentials and entries', () => {
  it('reports missing, mistyped and unexpected fields in this order', () => {
    const schema = {
      fields: ['api_token', 'port', 'tags'],
      required: ['api_token', 'port'],
      types: { port: 'integer', tags: 'array' },
    };
    expect(schemaErrors(schema, { port: '80', tags: 'x', odd: 1 })).toEqual([
      'Missing required field: api_token',
      "Field 'port' must be integer, got string",
      "Field 'tags' must be array, got string",
      'Unexpected fields: odd',
    ]);
  });

  it('lists unexpected fields in the order of the data', () => {
    expect(schemaErrors({ fields: ['a'] }, { z: 1, a: 2, b: 3 })).toEqual(['Unexpected fields: z, b']);
  });

  it('takes whole numbers for integer and any number for number', () => {
    const types = { a: 'integer', b: 'integer', c: 'number', d: 'number' };
    expect(schemaErrors({ types }, { a: 1, b: 1.5, c: 1, d: 1.5 })).toEqual(["Field 'b' must be integer, got number"]);
  });

  it('does not take booleans for numbers', () => {
    expect(schemaErrors({ types: { a: 'integer', b: 'number' } }, { a: true, b: false })).toEqual([
      "Field 'a' must be integer, got boolean",
      "Field 'b' must be number, got boolean",
    ]);
  });

  it('calls a present null null, and does not miss it', () => {
    const schema = { required: ['a'], types: { a: 'string' } };
    expect(schemaErrors(schema, { a: null })).toEqual(["Field 'a' must be string, got null"]);
  });

  it('names every actual type', () => {
    const types = { a: 'string', b: 'string', c: 'string', d: 'string', e: 'string', f: 'boolean' };
    expect(schemaErrors({ types }, { a: 1, b: 1.5, c: true, d: [], e: {}, f: 's' })).toEqual([
      "Field 'a' must be string, got integer",
      "Field 'b' must be string, got number",
      "Field 'c' must be string, got boolean",
      "Field 'd' must be string, got array",
      "Field 'e' must be string, got object",
      "Field 'f' must be boolean, got string",
    ]);
  });

  it('accepts anything under an empty schema, and the types it names', () => {
    expect(schemaErrors({}, { a: 1 })).toEqual([]);
    expect(schemaErrors({ fields: [] }, { a: 1 })).toEqual([]);
    const types = { s: 'string', a: 'array', o: 'object', b: 'boolean' };
    expect(schemaErrors({ types }, { s: '', a: [], o: {}, b: false })).toEqual([]);
  });

  it('does not take what objects inherit for a field', () => {
    expect(schemaErrors({ required: ['constructor'], types: { toString: 'string' } }, {})).toEqual([
      'Missing required field: constructor',
    ]);
  });
});

describe('a schema itself', () => {
  it('is accepted in full and in part', () => {
    const schema = { fields: ['a'], required: ['a'], types: { a: 'string' }, description: 'text' };
    expect(fieldSchemaProblems(schema)).toEqual([]);
    expect(fieldSchemaProblems({})).toEqual([]);
    expect(fieldSchemaProblems({ fields: null, required: null, types: null, description: null })).toEqual([]);
  });

  it('is refused with everything that is wrong', () => {
    const schema = { fields: 'a', required: [1], types: { a: 'text', b: 7 }, description: 1, extra: true };
    expect(fieldSchemaProblems(schema)).toEqual([
      "Schema 'fields' must be an array of strings",
      "Schema 'required' must be an array of strings",
      "Unknown type for field 'a': text",
      "Unknown type for field 'b': 7",
      "Schema 'description' must be a string",
      'Unknown schema key: extra',
    ]);
  });

  it('is refused when it is no object', () => {
    expect(fieldSchemaProblems([])).toEqual(['Schema must be an object']);
    expect(fieldSchemaProblems(null)).toEqual(['Schema must be an object']);
    expect(fieldSchemaProblems({ types: ['a'] })).toEqual(["Schema 'types' must be an object"]);
  });
});
