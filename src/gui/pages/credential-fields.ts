/** The fields of a credential's form: by its schema, else by its type; and which problem belongs to which field. Pure. */
import type { Json, JsonMap } from '../core/wire.ts';
import { parseJson } from '../playbook/workload-fields.ts';

export interface SecretField {
  readonly name: string;
  readonly kind: 'text' | 'number' | 'boolean' | 'json';
  /** Hidden while it is typed. */
  readonly secret: boolean;
  readonly required: boolean;
}

/** What tools read of each type (docs/language/credentials.md); a star stands for what one needs. */
const TYPES: Readonly<Record<string, readonly string[]>> = {
  generic: ['value*'],
  bearer: ['token*'],
  basic: ['username*', 'password*'],
  api_key: ['api_key*', 'header'],
  oauth2: ['client_id*', 'client_secret*', 'token_url*', 'scope'],
  postgres: ['host*', 'port', 'database*', 'user*', 'password*'],
  nats: ['nats_url*', 'nats_user', 'nats_password', 'nats_token'],
  service_account: [],
  custom: [],
};
const NUMBERS: ReadonlySet<string> = new Set(['port']);
const SECRET = /pass|secret|token$|key|value|credential/i;
const KINDS: Readonly<Record<string, SecretField['kind']>> = {
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  array: 'json',
  object: 'json',
};

export const CREDENTIAL_TYPES: readonly string[] = Object.keys(TYPES);

export function fieldsFor(type: string, schema: JsonMap | null): readonly SecretField[] {
  const told = schema === null ? [] : [...textsOf(schema['required']), ...textsOf(schema['fields'])];
  if (told.length > 0) {
    const required = new Set(textsOf(schema?.['required']));
    const types = schema?.['types'];
    return [...new Set(told)].map((name) => {
      const kind = KINDS[String(isMap(types) ? types[name] : '')] ?? 'text';
      return { name, kind, secret: kind === 'text' && SECRET.test(name), required: required.has(name) };
    });
  }
  return (TYPES[type] ?? []).map((word) => {
    const name = word.replace('*', '');
    return fieldNamed(name, word.endsWith('*'));
  });
}

export function fieldNamed(name: string, required: boolean): SecretField {
  return { name, kind: NUMBERS.has(name) ? 'number' : 'text', secret: SECRET.test(name), required };
}

/** What the form holds as data; empty fields are left out. Throws a sentence naming the field. */
export function dataOf(fields: readonly SecretField[], texts: Readonly<Record<string, string>>): JsonMap {
  const data: Record<string, Json> = {};
  for (const { name, kind } of fields) {
    const text = texts[name] ?? '';
    if (text === '') continue;
    if (kind === 'number') {
      const value = Number(text);
      if (!Number.isFinite(value)) throw new Error(`${name} must be a number`);
      data[name] = value;
    } else if (kind === 'boolean') data[name] = text === 'true';
    else data[name] = kind === 'json' ? parseJson(name, text) : text;
  }
  return data;
}

/** Problems as the server tells them (api 4.5), laid beside the field each is about; null holds those about none. */
export function problemsByField(
  errors: readonly string[],
  names: readonly string[],
): ReadonlyMap<string | null, readonly string[]> {
  const found = new Map<string | null, string[]>();
  for (const error of errors) {
    const named = /^Missing required field: (.+)$/.exec(error)?.[1] ?? /^Field '(.+?)' must be /.exec(error)?.[1];
    const place = named !== undefined && names.includes(named) ? named : null;
    found.set(place, [...(found.get(place) ?? []), error]);
  }
  return found;
}

function textsOf(value: Json | undefined): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}

function isMap(value: Json | undefined): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
