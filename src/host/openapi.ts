/**
 * The OpenAPI 3.1 document (api 1.16), generated from the table that is served: the schemas that validate are the
 * schemas that are shown. One operation a row, with level, roles and every code the operation can answer with.
 */
import type { GenericSchema } from 'valibot';
import { isMap, type JsonMap } from '../../machines/json.ts';
import type { Role, Route } from '../api/route.ts';
import { answerOf as answerOfError, ERRORS, type ErrorCode, RequestError } from '../errors.ts';
import { errorBody } from '../wire/error.ts';
import { jsonSchemaOf } from '../wire/json-schema.ts';
import { sampleOf } from './samples.ts';

/** Codes that any operation can give; an address, too, may be too long or come too slowly. */
const GENERAL: readonly ErrorCode[] = [
  'request_timeout',
  'payload_too_large',
  'misdirected_host',
  'rate_limited',
  'internal_error',
  'db_unavailable',
  'pool_saturated',
  'shutting_down',
];
const WITH_ROLE: readonly ErrorCode[] = ['unauthenticated', 'forbidden'];
const WITH_INPUT: readonly ErrorCode[] = ['validation_error', 'invalid_id'];
/** Some segments name nothing at all (api 1.1). */
const WITH_PATH: readonly ErrorCode[] = ['not_found'];
/** Also where no body is expected: one that comes has to be JSON. */
const WITH_BODY: readonly ErrorCode[] = ['invalid_json', 'unsupported_media_type'];

const REQUEST_ID = 'r-01JD3M0ZK7';

const ROLES: Readonly<Record<Role, string>> = { P: 'public', V: 'viewer', O: 'operator', A: 'admin', W: 'worker' };

/** Asked for in enforce mode; in open mode a token may be left out (api 1.13). */
const SCHEMES: JsonMap = {
  bearer: { type: 'http', scheme: 'bearer', description: 'A service token, a session token or the internal token.' },
  session: { type: 'apiKey', in: 'header', name: 'X-Session-Token', description: 'The same tokens.' },
};

export function createOpenApi(routes: readonly Route[], version: string): JsonMap {
  const paths: Record<string, Record<string, JsonMap>> = {};
  for (const row of routes.filter(({ part }) => part !== true)) {
    const path = pathOf(row.path);
    paths[path] ??= {};
    paths[path][row.method.toLowerCase()] = operationOf(row);
  }
  return plain({
    openapi: '3.1.0',
    info: {
      title: 'Callboard',
      version,
      summary: 'Workflow orchestration on plain PostgreSQL',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    tags: [...new Set(routes.map((row) => row.tag))].map((name) => ({ name })),
    paths,
    components: { schemas: { Error: jsonSchemaOf(errorBody, 'output') }, securitySchemes: SCHEMES },
  });
}

/** OpenAPI has no greedy parameters; the slash inside is told in the description. */
export function pathOf(path: string): string {
  return path.replaceAll('…', '');
}

function operationOf(row: Route): JsonMap {
  const parameters = [...parametersOf(row.params, 'path', row.path), ...parametersOf(row.query, 'query', row.path)];
  return {
    operationId: operationIdOf(row),
    tags: [row.tag],
    summary: row.summary,
    'x-level': row.level,
    'x-role': row.role.map((role) => ROLES[role]),
    security: securityOf(row),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(row.body === undefined ? {} : { requestBody: requestBodyOf(row.body, row) }),
    responses: { [String(row.status ?? 200)]: answerOf(row), ...withOthers(row, refusalsOf(row)) },
  };
}

function securityOf({ role }: Route): JsonMap[] {
  const roles = role.map((mark) => ROLES[mark]);
  return role.includes('P') ? [] : Object.keys(SCHEMES).map((scheme) => ({ [scheme]: roles }));
}

function operationIdOf(row: Route): string {
  const words = row.path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  return [row.method.toLowerCase(), ...words].join('_');
}

function parametersOf(schema: GenericSchema | undefined, place: 'path' | 'query', path: string): JsonMap[] {
  if (schema === undefined) return [];
  const { properties, required } = jsonSchemaOf(schema, 'input');
  return Object.entries(isMap(properties) ? properties : {}).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || (Array.isArray(required) && required.includes(name)),
    schema: property,
    ...(path.includes(`{${name}…}`) ? { description: 'May contain slashes.' } : {}),
  }));
}

function requestBodyOf(schema: GenericSchema, row: Route): JsonMap {
  const own = jsonSchemaOf(schema, 'input');
  return {
    content: {
      'application/json': { schema: own, example: row.example?.request ?? sampleOf(own, row.tag, 'request') },
    },
  };
}

function answerOf(row: Route): JsonMap {
  if (row.answer === undefined) {
    return { description: 'Answer', content: { [row.mediaType ?? 'application/json']: { schema: {} } } };
  }
  const schema = jsonSchemaOf(row.answer, 'output');
  const example = row.example?.answer ?? sampleOf(schema, row.tag, 'answer');
  const texts = (row.texts ?? []).map((type) => [type, { schema: { type: 'string' } }]);
  return {
    description: 'Answer',
    content: { 'application/json': plain({ schema, example }), ...Object.fromEntries(texts) },
  };
}

/** One response a status; its description and `x-codes` name the codes. */
function refusalsOf(row: Route): JsonMap {
  const hasInput = row.params !== undefined || row.query !== undefined || row.body !== undefined;
  const codes = [
    ...row.codes,
    ...GENERAL,
    ...(row.role.includes('P') ? [] : WITH_ROLE),
    ...(hasInput ? WITH_INPUT : []),
    ...(row.params === undefined ? [] : WITH_PATH),
    ...(row.method === 'GET' ? [] : WITH_BODY),
  ];
  const byStatus = Map.groupBy([...new Set(codes)], (code) => String(ERRORS[code].status));
  const entries = [...byStatus]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([status, each]) => [
      status,
      {
        description: each.join(', '),
        'x-codes': each,
        content: {
          'application/json': { schema: { $ref: '#/components/schemas/Error' }, example: refusalOf(each[0]) },
        },
      },
    ]);
  return Object.fromEntries(entries);
}

/** As the code is answered, with a sentence in general words. */
function refusalOf(code: ErrorCode | undefined): JsonMap {
  return answerOfError(new RequestError(code ?? 'internal_error', 'What is wrong, in a sentence'), REQUEST_ID, {
    claimRetryAfterSeconds: 2,
  }).body;
}

/** A status that is a refusal too carries either. */
function withOthers({ others = {} }: Route, refusals: JsonMap): JsonMap {
  const entries = Object.entries(others).map(([status, schema]) => {
    if (schema === null) return [status, { description: 'Nothing to say' }];
    const refusal = refusals[status];
    const own = jsonSchemaOf(schema, 'output');
    const either = isMap(refusal) ? { anyOf: [own, { $ref: '#/components/schemas/Error' }] } : own;
    return [
      status,
      {
        description: 'Answer',
        ...(isMap(refusal) ? refusal : {}),
        content: { 'application/json': { schema: either } },
      },
    ];
  });
  return { ...refusals, ...Object.fromEntries(entries) };
}

/** As it will be written: a deep copy without undefined members. */
function plain(value: unknown): JsonMap {
  // Called with objects only, and the text of an object parses to a map.
  return JSON.parse(JSON.stringify(value)) as JsonMap;
}
