/** The schema for editors agrees with registration: what it refuses is refused there, and every example is accepted. */
import { readdirSync, readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { load } from 'js-yaml';
import { describe, expect, it } from 'vitest';
import { playbookSchema } from '../../../machines/playbook/json-schema.ts';
import { parsePlaybook } from '../../../machines/playbook/parse.ts';

const ROOT = new URL('../../../', import.meta.url);
const validate = new Ajv2020({ strict: false, allErrors: true }).compile(playbookSchema());

function problems(text: string): readonly string[] {
  return validate(load(text)) ? [] : (validate.errors ?? []).map((error) => `${error.instancePath} ${error.message}`);
}

const examples = readdirSync(new URL('examples/', ROOT))
  .filter((name) => name.endsWith('.yaml'))
  .map((name) => [`examples/${name}`, readFileSync(new URL(`examples/${name}`, ROOT), 'utf8')] as const);
const pages = readdirSync(new URL('docs/language/', ROOT))
  .filter((name) => name.endsWith('.md'))
  .flatMap((name) => {
    const source = readFileSync(new URL(`docs/language/${name}`, ROOT), 'utf8');
    return [...source.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(
      (match, index) => [`${name} #${index + 1}`, match[1] ?? ''] as const,
    );
  });

describe('the JSON Schema of a playbook', () => {
  it.each([...examples, ...pages])('accepts %s', (_name, text) => {
    expect(problems(text)).toEqual([]);
  });

  it.each([
    ['a document without steps', 'kind: Playbook\nmetadata: { name: a }\nworkflow: []\n'],
    [
      'vars at the root',
      'kind: Playbook\nmetadata: { name: a }\nvars: {}\nworkflow: [{ step: a, tool: { kind: noop } }]\n',
    ],
    [
      'an unknown kind of tool',
      'kind: Playbook\nmetadata: { name: a }\nworkflow: [{ step: a, tool: { kind: teleport } }]\n',
    ],
    ['a step without a tool', 'kind: Playbook\nmetadata: { name: a }\nworkflow: [{ step: a }]\n'],
    ['http without a url', 'kind: Playbook\nmetadata: { name: a }\nworkflow: [{ step: a, tool: { kind: http } }]\n'],
    [
      'an unknown mode',
      'kind: Playbook\nmetadata: { name: a }\nworkflow: [{ step: a, tool: { kind: noop }, next: { spec: { mode: both }, arcs: [] } }]\n',
    ],
    [
      'a loop without an iterator',
      'kind: Playbook\nmetadata: { name: a }\nworkflow: [{ step: a, tool: { kind: noop }, loop: { in: [1] } }]\n',
    ],
    [
      'an unknown action of a rule',
      'kind: Playbook\nmetadata: { name: a }\nworkflow: [{ step: a, tool: { kind: noop, spec: { policy: { rules: [{ when: true, then: { do: wait } }] } } } }]\n',
    ],
  ])('refuses %s, as registration does', (_name, text) => {
    expect(problems(text)).not.toEqual([]);
    expect(parsePlaybook(text).ok).toBe(false);
  });
});

describe('the words of the JSON Schema', () => {
  it('says of every key, and of every field of every tool, what it means', () => {
    expect(silentKeys(playbookSchema(), '')).toEqual([]);
  });
});

/** Places of keys that may be written and have no sentence. */
function silentKeys(schema: unknown, at: string): readonly string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  return Object.entries(schema).flatMap(([key, value]) => {
    // A condition of the schema itself, not a key of the document.
    if (key === 'if') return [];
    const here = `${at}/${key}`;
    if (key !== 'properties') return silentKeys(value, here);
    return Object.entries(value as Record<string, unknown>).flatMap(([name, inner]) => {
      const silent = inner !== false && !Object.hasOwn(inner as object, 'description');
      return [...(silent ? [`${here}/${name}`] : []), ...silentKeys(inner, `${here}/${name}`)];
    });
  });
}
