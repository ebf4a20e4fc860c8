/**
 * Requests drawn from the OpenAPI document: what it describes, and near misses of it. What comes back is held to the
 * document too: a declared status, a body of the declared form, and nothing of the inside in an error.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { Chance } from '../support/arbitraries.ts';

export interface Operation {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly JsonMap[];
  readonly body: JsonMap | null;
  /** Schema of the JSON answer by status; null where it is not JSON. */
  readonly answers: ReadonlyMap<number, JsonMap | null>;
}

export interface Request {
  readonly operation: Operation;
  readonly url: string;
  /** Text, so that it may be what no JSON writer writes. */
  readonly body: string | null;
}

/** What no schema describes and every endpoint may be sent. */
export const HOSTILE: readonly Json[] = [
  null,
  true,
  0,
  -1,
  1.5,
  9007199254740991,
  1e300,
  '',
  ' ',
  '\n',
  "'; drop table core.event; --",
  '../../etc/passwd',
  '{{ 7 * 7 }}',
  '${jndi:ldap://x}',
  '%00',
  '%2e%2e%2f',
  'x'.repeat(5_000),
  '٣',
  '﷽',
  '\u202e',
  'constructor',
  '__proto__ ',
  [],
  {},
  [[]],
  { constructor: { prototype: { x: 1 } } },
  { toString: 1, hasOwnProperty: null },
  [null, [true], { a: [] }],
];

export function operationsOf(document: JsonMap): readonly Operation[] {
  return Object.entries(mapAt(document, 'paths')).flatMap(([path, item]) =>
    Object.entries(isMap(item) ? item : {}).flatMap(([method, given]) => {
      if (!isMap(given) || !isMap(given['responses'])) return [];
      const answers = Object.entries(given['responses']).map(([status, answer]) => {
        const content = mapAt(mapAt(answer, 'content'), 'application/json');
        return [Number(status), isMap(content['schema']) ? content['schema'] : null] as const;
      });
      const schema = mapAt(mapAt(mapAt(given['requestBody'], 'content'), 'application/json'), 'schema');
      return [
        {
          name: `${method.toUpperCase()} ${path}`,
          method: method.toUpperCase(),
          path,
          parameters: (Array.isArray(given['parameters']) ? given['parameters'] : []).filter(isMap),
          body: given['requestBody'] === undefined ? null : schema,
          answers: new Map(answers),
        },
      ];
    }),
  );
}

/** `known` are values that exist, by the name of a parameter or field. */
export class Sender {
  readonly #chance: Chance;
  readonly #document: JsonMap;
  readonly #known: Readonly<Record<string, Json>>;

  constructor(document: JsonMap, known: Readonly<Record<string, Json>>, seed: number) {
    this.#document = document;
    this.#known = known;
    this.#chance = new Chance(seed);
  }

  draw(operation: Operation): Request {
    let url = operation.path;
    const query: string[] = [];
    for (const parameter of operation.parameters) {
      const name = String(parameter['name']);
      const isPath = parameter['in'] === 'path';
      if (parameter['in'] === 'header' || (!isPath && this.#chance.below(3) > 0)) continue;
      const drawn = this.#value(mapAt(parameter, 'schema'), name, 0);
      const text = typeof drawn === 'string' ? drawn : JSON.stringify(drawn);
      if (isPath)
        url = url.replace(new RegExp(`\\{${name}…?\\}`), () => encodeURIComponent(text.toWellFormed()) || 'x');
      else query.push(`${name}=${encodeURIComponent(text.toWellFormed())}`);
    }
    const search = query.length === 0 ? '' : `?${query.join('&')}`;
    const body = operation.body === null ? null : this.#body(operation.body);
    return { operation, url: `${url.replaceAll(/\{[^}]+\}/g, 'x')}${search}`, body };
  }

  #body(schema: JsonMap): string {
    const drawn = this.#value(schema, 'body', 0);
    const text = JSON.stringify(drawn);
    switch (this.#chance.below(24)) {
      case 0:
        return text.slice(0, -1);
      case 1:
        return text.replace(/"([^"]*)"/, '"$1\\u0000"');
      case 2:
        return text.replace(/\d+/, '1.0');
      case 3:
        return '';
      default:
        return text;
    }
  }

  #value(given: JsonMap, name: string, depth: number): Json {
    const schema = this.#resolved(given);
    if (this.#chance.below(10) === 0 && depth > 0) return this.#hostile();
    const known = this.#known[name];
    if (known !== undefined && this.#chance.below(5) > 0) return known;
    if (schema['const'] !== undefined) return schema['const'];
    for (const list of ['enum', 'anyOf', 'oneOf']) {
      const ways = schema[list];
      if (!Array.isArray(ways) || ways.length === 0) continue;
      const way = ways[this.#chance.below(ways.length)] ?? null;
      return list === 'enum' ? way : this.#value(isMap(way) ? way : {}, name, depth + 1);
    }
    return this.#typed(schema, depth);
  }

  #typed(schema: JsonMap, depth: number): Json {
    switch (schema['type']) {
      case 'integer':
      case 'number':
        return Number(schema['minimum'] ?? 0) + this.#chance.below(3);
      case 'boolean':
        return this.#chance.below(2) === 0;
      case 'string':
        return schema['format'] === 'date-time'
          ? '2026-11-20T10:15:02.113Z'
          : (['a', 'demo/greet', 'x_1', '7'][this.#chance.below(4)] ?? '');
      case 'array':
        return Array.from({ length: this.#chance.below(3) }, () => this.#value(mapAt(schema, 'items'), '', depth + 1));
      case 'object': {
        const required = Array.isArray(schema['required']) ? schema['required'] : [];
        const entries = Object.entries(mapAt(schema, 'properties')).filter(([key]) =>
          required.includes(key) ? this.#chance.below(12) > 0 : this.#chance.below(4) === 0,
        );
        return Object.fromEntries(
          entries.map(([key, each]) => [key, this.#value(isMap(each) ? each : {}, key, depth + 1)]),
        );
      }
      default:
        return schema['allOf'] === undefined ? this.#hostile() : this.#all(schema['allOf'], depth);
    }
  }

  #all(ways: Json, depth: number): Json {
    const drawn = (Array.isArray(ways) ? ways : []).map((way) => this.#value(isMap(way) ? way : {}, '', depth));
    return drawn.every(isMap) ? Object.assign({}, ...drawn) : (drawn[0] ?? null);
  }

  #hostile(): Json {
    return HOSTILE[this.#chance.below(HOSTILE.length)] ?? null;
  }

  #resolved(schema: JsonMap): JsonMap {
    const { $ref: ref } = schema;
    if (typeof ref !== 'string') return schema;
    return ref
      .slice(2)
      .split('/')
      .reduce<JsonMap>((at, key) => mapAt(at, key), this.#document);
  }
}

const INSIDE =
  /node_modules|\bat .+\.ts:\d+|\.ts:\d+:\d+|SQLSTATE|syntax error at or near|violates .* constraint|core\.[a-z_]+"/;
const SERVER_ERRORS_DECLARED = [501, 502, 503, 504];

/** What is wrong with an answer, as a sentence; null when it keeps to the document. */
export function judgeBy(document: JsonMap) {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: 'doc', ...document }, 'doc');
  const validators = new Map<JsonMap, ReturnType<Ajv2020['compile']>>();
  const validatorOf = (schema: JsonMap) => {
    const known = validators.get(schema);
    if (known !== undefined) return known;
    const text = JSON.stringify(schema).replaceAll('"#/', '"doc#/');
    const made = ajv.compile(JSON.parse(text) as JsonMap);
    validators.set(schema, made);
    return made;
  };

  return (
    { operation }: Request,
    answer: { readonly status: number; readonly type: string; readonly text: string },
  ): string | null => {
    const { status, type, text } = answer;
    if (status >= 500 && !SERVER_ERRORS_DECLARED.includes(status)) return `answers ${status}: ${text.slice(0, 300)}`;
    if (!operation.answers.has(status)) return `answers the undeclared status ${status}: ${text.slice(0, 300)}`;
    if (status >= 400 && INSIDE.test(text)) return `tells of its inside: ${text.slice(0, 300)}`;
    const schema = operation.answers.get(status) ?? null;
    if (schema === null || !type.startsWith('application/json')) {
      return status >= 400 ? `has no error body: ${type}` : null;
    }
    const validate = validatorOf(schema);
    if (validate(JSON.parse(text))) return null;
    const [first] = validate.errors ?? [];
    return `differs from the document at ${first?.instancePath}: ${first?.message}: ${text.slice(0, 300)}`;
  };
}

function mapAt(value: Json | undefined, key: string): JsonMap {
  const found = isMap(value) ? value[key] : undefined;
  return isMap(found) ? found : {};
}
