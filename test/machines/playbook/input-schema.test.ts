import { expect, test } from 'vitest';
import { inputSchemaOf } from '../../../machines/playbook/input-schema.ts';
import { runFormOf } from '../../../machines/playbook/run-form.ts';

const schemaOf = (text: string) => inputSchemaOf(runFormOf(text).fields);

test('a workload is an object schema of its defaults', () => {
  const text = `
workload:
  who: world # description=Whom to greet
  times: 3
  ratio: 0.5
  loud: true
  tags: [a]
  mode: soft # enum=[soft, loud]
  anything: null
  nested: { depth: 1 }
  empty: {}
`;
  expect(schemaOf(text)).toEqual({
    type: 'object',
    properties: {
      who: { type: 'string', description: 'Whom to greet', default: 'world' },
      times: { type: 'integer', default: 3 },
      ratio: { type: 'number', default: 0.5 },
      loud: { type: 'boolean', default: true },
      tags: { type: 'array', default: ['a'] },
      mode: { enum: ['soft', 'loud'], default: 'soft' },
      anything: { default: null },
      nested: { type: 'object', properties: { depth: { type: 'integer', default: 1 } }, default: { depth: 1 } },
      empty: { type: 'object', default: {} },
    },
  });
});

test('a default that is a secret is not told', () => {
  expect(schemaOf('workload:\n  token: abc # ui:secret\n')).toEqual({
    type: 'object',
    properties: { token: { type: 'string', writeOnly: true } },
  });
});

test('without a workload anything may be given', () => {
  expect(schemaOf('kind: Playbook\n')).toEqual({ type: 'object', properties: {} });
});
