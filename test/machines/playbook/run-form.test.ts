import { expect, test } from 'vitest';
import { runFormOf } from '../../../machines/playbook/run-form.ts';

const TEXT = `metadata:
  name: greet
  description: Says *hello*.
  exposed_in_ui: false
workload:
  who: world   # description=Whom to greet, if anyone
  # ui:secret
  # description="The key # of it"
  key: "a # b"
  tone: warm # enum=[warm, cold, 1]
  login: pg   # credential=pg_* ui:secret
  count: 3
  share: 0.5
  loud: true
  nothing:
  list: [1, 2] # description=Numbers
  nested:  # description=A map
    inner: {a: 1}

  # far away, not of the next key

  plain: 'x' #no directive
workflow: []
`;

test('a field for each key, in document order, with the kind of its value', () => {
  const { fields, title, description, isExposed } = runFormOf(TEXT);
  expect({ title, description, isExposed }).toEqual({ title: 'greet', description: 'Says *hello*.', isExposed: false });
  expect(fields.map(({ name, kind }) => `${name} ${kind}`)).toEqual([
    'who string',
    'key string',
    'tone enum',
    'login string',
    'count integer',
    'share number',
    'loud boolean',
    'nothing null',
    'list array',
    'nested object',
    'plain string',
  ]);
  expect(fields.find(({ name }) => name === 'nested')?.children).toMatchObject([
    { name: 'inner', kind: 'object', default: { a: 1 }, children: [{ name: 'a', kind: 'integer', default: 1 }] },
  ]);
});

test('comments behind a key and above it direct the form', () => {
  const fields = new Map(runFormOf(TEXT).fields.map((field) => [field.name, field]));
  expect(fields.get('who')).toMatchObject({ description: 'Whom to greet, if anyone', secret: false });
  expect(fields.get('key')).toMatchObject({ secret: true, description: 'The key # of it', default: 'a # b' });
  expect(fields.get('tone')).toMatchObject({ options: ['warm', 'cold', 1] });
  expect(fields.get('login')).toMatchObject({ credentialGlob: 'pg_*', secret: true });
  expect(fields.get('list')).toMatchObject({ description: 'Numbers', default: [1, 2] });
  expect(fields.get('nested')).toMatchObject({ description: 'A map' });
  expect(fields.get('plain')).toMatchObject({ description: null, secret: false, options: [] });
});

test.each(['', 'just text', '[1]', 'workload: 4', 'workload: [a]', '{', 'a: 1'])('%j has no fields', (text) => {
  expect(runFormOf(text).fields).toEqual([]);
});

test('a comment behind a text with an escaped quote is one, and options that cannot be read are none', () => {
  const text = 'workload:\n  a: "x \\" # y" # ui:secret\n  "b c": 1 # enum=["]\nworkflow: []\n';
  expect(runFormOf(text).fields).toMatchObject([
    { name: 'a', secret: true },
    { name: 'b c', options: [] },
  ]);
});
