/**
 * The words of the playbook language that the editor offers and explains, by where they stand. They come from the JSON
 * Schema of a playbook, which is made from the tables that the server checks with: the editor never offers what would
 * be refused, and says of a key what other editors say of it.
 */
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { playbookSchema } from '../../../machines/playbook/json-schema.ts';
import { KIND_WORDS } from '../../../machines/playbook/schema-words.ts';
import { KNOWN_KINDS } from '../../../machines/playbook/tool-fields.ts';

export interface Word {
  readonly word: string;
  /** What it means, in a sentence. */
  readonly info: string;
  /** What it takes: `text`, `list`, `one of …`, with `required` in front where it is. */
  readonly detail: string;
}

const SCHEMA = playbookSchema();
const DEFINITIONS = mapAt(SCHEMA, '$defs');
/** Values that the schema leaves open and people look for. */
const OPEN_VALUES: Readonly<Record<string, readonly string[]>> = {
  apiVersion: ['callboard/v2'],
  backoff: ['none', 'fixed', 'linear', 'exponential'],
};
/** Behind these keys stands the name of a step. */
const STEP_KEYS: Readonly<Record<string, string>> = { step: 'arcs', entry_step: 'spec', final_step: 'spec' };

/** Keys that fit below `path`, the keys around the cursor from the outside in; `kind` is that of the tool around it. */
export function keysAt(path: readonly string[], kind: string | null): readonly Word[] {
  const found = new Map<string, Word>();
  for (const schema of schemasAt(path, kind)) {
    const required = textsOf(schema['required']);
    for (const [word, property] of Object.entries(mapAt(schema, 'properties'))) {
      if (property === false || found.has(word)) continue;
      found.set(word, wordOf(word, property, required.includes(word)));
    }
  }
  return [...found.values()];
}

/** Values that fit behind a key. */
export function valuesAt(key: string, path: readonly string[], steps: readonly string[]): readonly Word[] {
  const holder = path.at(-1);
  if (Object.hasOwn(STEP_KEYS, key) && STEP_KEYS[key] === holder) {
    return steps.map((word) => ({ word, info: 'A step of this playbook.', detail: 'step' }));
  }
  if (key === 'kind' && (holder === 'tool' || path.includes('tool'))) {
    return KNOWN_KINDS.map((word) => ({ word, info: KIND_WORDS[word] ?? '', detail: 'kind of tool' }));
  }
  const open = OPEN_VALUES[key] ?? [];
  const closed = propertyAt(key, path, null).flatMap(choicesOf);
  return [...new Set([...open, ...closed])].map((word) => ({ word, info: '', detail: '' }));
}

/** What a key means where it stands; null for names that people gave. */
export function meaningOf(key: string, path: readonly string[], kind: string | null): Word | null {
  return keysAt(path, kind).find((each) => each.word === key) ?? null;
}

function propertyAt(key: string, path: readonly string[], kind: string | null): readonly Json[] {
  return schemasAt(path, kind).flatMap((schema) => {
    const property = mapAt(schema, 'properties')[key];
    return property === undefined || property === false ? [] : [property];
  });
}

function schemasAt(path: readonly string[], kind: string | null): readonly JsonMap[] {
  let at = alternatives(SCHEMA, kind);
  for (const key of path) {
    at = at.flatMap((schema) => {
      const property = mapAt(schema, 'properties')[key] ?? schema['additionalProperties'];
      return alternatives(property, kind);
    });
  }
  return at;
}

/** The schemas a value may follow: references are looked up, items stand for their list, a kind adds its fields. */
function alternatives(schema: Json | undefined, kind: string | null): readonly JsonMap[] {
  if (!isMap(schema)) return [];
  const reference = schema['$ref'];
  if (typeof reference === 'string') return alternatives(DEFINITIONS[reference.split('/').at(-1) ?? ''], kind);
  const inner = [...listOf(schema['anyOf']), ...(schema['items'] === undefined ? [] : [schema['items']])];
  const ofKind = listOf(schema['allOf']).flatMap((clause) => {
    if (!isMap(clause) || kind === null) return [];
    const asked = mapAt(mapAt(mapAt(clause, 'if'), 'properties'), 'kind')['const'];
    return asked === kind ? [mapAt(clause, 'then')] : [];
  });
  const own = schema['properties'] === undefined && schema['additionalProperties'] === undefined ? [] : [schema];
  return [...own, ...ofKind, ...inner.flatMap((each) => alternatives(each, kind))];
}

function wordOf(word: string, property: Json, required: boolean): Word {
  const schema = isMap(property) ? property : {};
  const info = schema['description'];
  const takes = [required ? 'required' : '', typeText(schema)].filter((each) => each !== '');
  return { word, info: typeof info === 'string' ? info : '', detail: takes.join(', ') };
}

function typeText(schema: JsonMap): string {
  const choices = choicesOf(schema);
  if (choices.length > 0 && choices.length <= 4) return choices.join(' | ');
  if (schema['$ref'] !== undefined) return '';
  const types = schema['type'] ?? listOf(schema['anyOf']).map((each) => (isMap(each) ? (each['type'] ?? null) : null));
  const words = [types]
    .flat()
    .filter((each) => typeof each === 'string')
    .map((each) => TYPES[each] ?? each);
  return [...new Set(words)].join(' or ');
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  object: 'map',
  array: 'list',
  integer: 'whole number',
  boolean: 'true | false',
};

function choicesOf(schema: Json): readonly string[] {
  if (!isMap(schema)) return [];
  if (schema['type'] === 'boolean') return ['true', 'false'];
  return [...textsOf(schema['enum']), ...listOf(schema['anyOf']).flatMap(choicesOf)];
}

function mapAt(schema: JsonMap, key: string): JsonMap {
  const value = schema[key];
  return isMap(value) ? value : {};
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function textsOf(value: Json | undefined): readonly string[] {
  return listOf(value).filter((each) => typeof each === 'string');
}
