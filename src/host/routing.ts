/**
 * Registers the route table. A greedy `{path…}` becomes a wildcard whose rest is checked for the verb behind it, and a
 * path that exists with other methods answers 405 with `Allow`; both are worked out from the table alone.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import type { GenericSchema } from 'valibot';
import { type Caller, OPEN_CALLER } from '../../actors/audit.ts';
import type { ExecutionAccess } from '../../actors/execution-access.ts';
import type { Route } from '../api/route.ts';
import { RequestError } from '../errors.ts';
import { readPath } from './address.ts';
import { callerOf, checkRole } from './authentication.ts';
import type { Callers } from './caller.ts';
import { eitherPlaces, type IntegerPlaces, integerPlacesOf } from './integer-places.ts';
import { shadowedIds } from './shadowed-ids.ts';
import { type Part, type Validator, validatorOf } from './validation.ts';

/** For bodies that carry no payload (api 1.9): names, ids and a few words. */
const SMALL_BODY_BYTES = 256 * 1024;

const GREEDY = /^(?<before>.*)\{(?<name>\w+)…\}(?<after>(?:\/(?:\w+|\{\w+\}))+)?$/;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** May wait on purpose: no figure of its latency says anything. */
    waits?: boolean;
    /** The body may be any JSON, and one that is none is told the handler. */
    anyBody?: boolean;
    /** Where its body may hold integers. */
    integers?: IntegerPlaces | null;
  }
}

interface RegisterOptions {
  readonly callers: Callers;
  /** Rules of playbooks about their executions. */
  readonly access: ExecutionAccess;
  readonly isEnforced: boolean;
  readonly bodyLimitBytes: number;
}

/** `isEnforced`: callers have identities; else everyone is an admin. `bodyLimitBytes` is that of bodies of general size. */
export function registerRoutes(
  app: FastifyInstance,
  routes: readonly Route[],
  { callers, access, isEnforced, bodyLimitBytes }: RegisterOptions,
): void {
  const who: Who = {
    callers,
    access,
    isEnforced,
    of: isEnforced
      ? (request) => callerOf(request, request.identity)
      : (request) => ({ ...OPEN_CALLER, requestId: request.id, ip: request.ip }),
  };
  for (const rows of Map.groupBy(routes, (row) => `${row.method} ${urlOf(row.path)}`).values()) {
    if (rows.length > 1) registerVerbs(app, rows, who, bodyLimitBytes);
    else for (const row of rows) registerRow(app, row, who, bodyLimitBytes);
  }
  // A word of ours in the place of an id is an address of its own, for every method.
  for (const { method, path, allowed } of shadowedIds(routes)) {
    const onRequest = async () => {
      throw methodRefused(method, allowed);
    };
    app.route({ method, url: urlOf(path), config: { roles: ['P'] }, onRequest, handler: onRequest });
  }
}

/** How the services learn who asks. */
interface Who {
  readonly callers: Callers;
  readonly access: ExecutionAccess;
  readonly isEnforced: boolean;
  readonly of: (request: FastifyRequest) => Caller;
}

function registerRow(app: FastifyInstance, row: Route, who: Who, bodyLimitBytes: number): void {
  const schema = {
    ...(row.params === undefined ? {} : { params: row.params }),
    ...(row.query === undefined ? {} : { querystring: row.query }),
    ...(row.body === undefined || row.anyBody === true ? {} : { body: row.body }),
  };
  app.route({
    method: row.method,
    url: urlOf(row.path),
    schema,
    validatorCompiler,
    config: {
      waits: row.waits ?? false,
      anyBody: row.anyBody ?? false,
      roles: row.role,
      isStream: row.mediaType === 'text/event-stream',
      integers: integerPlacesOf(row.body),
    },
    bodyLimit: bodyLimitOf(row, bodyLimitBytes),
    handler: handlerOf(row, who),
    ...greedyHook(row.path),
  });
}

/**
 * Rows of one greedy path that differ in the verb behind it. The router sees one path, so the verb chooses the row here,
 * and the row's schemas are asked by hand.
 */
function registerVerbs(app: FastifyInstance, rows: readonly Route[], who: Who, bodyLimitBytes: number): void {
  const verbs = rows.map((row) => ({
    role: row.role,
    paramsIn: greedyReader(row.path),
    validate: validatorsOf(row),
    handle: handlerOf(row, who),
  }));
  const [first] = rows;
  if (first === undefined) return;
  app.route({
    method: first.method,
    url: urlOf(first.path),
    bodyLimit: Math.max(...rows.map((row) => bodyLimitOf(row, bodyLimitBytes))),
    config: {
      waits: rows.some((row) => row.waits === true),
      // What any of them lets in may come this far; the row that is meant looks again.
      roles: [...new Set(rows.flatMap((row) => row.role))],
      integers: rows.map((row) => integerPlacesOf(row.body)).reduce(eitherPlaces, null),
    },
    handler(request, reply) {
      const rest = restOf(request.params);
      for (const { role, paramsIn, validate, handle } of verbs) {
        const params = paramsIn(rest);
        if (params === null) continue;
        checkRole(request, role);
        request.params = params;
        validate(request);
        return handle.call(app, request, reply);
      }
      return reply.callNotFound();
    },
  });
}

/** What its route may hold, where it says so: a limit in bytes of its own is exact, others stay within the general one. */
function bodyLimitOf({ bodyLimit = SMALL_BODY_BYTES }: Route, general: number): number {
  if (bodyLimit === 'general') return general;
  return bodyLimit > SMALL_BODY_BYTES ? bodyLimit : Math.min(bodyLimit, general);
}

/** Checks the parts of a request by the schemas of a row. Throws RequestError; outputs take the places of the inputs. */
function validatorsOf(row: Route): (request: FastifyRequest) => void {
  const parts = [
    ['params', 'path', row.params],
    ['query', 'query', row.query],
    ['body', 'body', row.body],
  ] as const;
  const checks = parts.flatMap(([key, part, schema]) =>
    schema === undefined ? [] : [{ key, validate: validatorOf(schema, part) }],
  );
  return (request) => {
    for (const { key, validate } of checks) {
      const checked = validate(request[key]);
      if ('error' in checked) throw checked.error;
      request[key] = checked.value;
    }
  };
}

function validatorCompiler(given: { readonly schema: unknown; readonly httpPart?: string }): Validator {
  // The schemas of a route are those of its row, and a row holds valibot schemas only.
  return validatorOf(given.schema as GenericSchema, partOf(given.httpPart));
}

/** Fastify's spelling of a path of the table. */
export function urlOf(path: string): string {
  const greedy = GREEDY.exec(path);
  return (greedy?.groups === undefined ? path : `${greedy.groups['before']}*`).replaceAll(/\{(\w+)\}/g, ':$1');
}

/** Methods by which a path can be asked for; empty: there is no such path. */
export function createAllowedMethods(routes: readonly Route[]): (url: string) => readonly string[] {
  const withPattern = ({ method, path }: Pick<Route, 'method' | 'path'>) => ({ method, pattern: patternOf(path) });
  const patterns = routes.map(withPattern);
  const shadowed = shadowedIds(routes).map(withPattern);
  return (url) => {
    const path = readPath(url);
    if (path === null) return [];
    const hidden = shadowed.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
    const methods = patterns.filter(({ method, pattern }) => pattern.test(path) && !hidden.includes(method));
    return withHead(methods.map(({ method }) => method));
  };
}

function withHead(methods: readonly Route['method'][]): readonly string[] {
  return [...new Set(methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])))];
}

function patternOf(path: string): RegExp {
  const source = path
    .replaceAll('.', '\\.')
    .replaceAll(/\{\w+…\}/g, '.+')
    .replaceAll(/\{\w+\}/g, '[^/]+');
  return new RegExp(`^${source}/?$`);
}

function partOf(httpPart: string | undefined): Part {
  if (httpPart === 'querystring') return 'query';
  return httpPart === 'params' ? 'path' : 'body';
}

function handlerOf(row: Route, { callers, access, isEnforced, of }: Who): RouteHandlerMethod {
  const { handle } = row;
  const call = (request: FastifyRequest, reply: FastifyReply) =>
    handle({ params: request.params, query: request.query, body: request.body, request, reply });
  // In open mode there is nobody to be told apart, and a report shall pay nothing for it.
  if (row.hot === true && !isEnforced) return call;
  if (!isEnforced) return (request, reply) => callers.run(of(request), () => call(request, reply));
  const permission = row.role.includes('V') ? 'view' : 'execute';
  return (request, reply) =>
    callers.run(of(request), () => {
      const named = executionsOf(request);
      const parent = numberAt(request.body, 'parent_execution_id');
      if (named.length === 0 && parent === null) return call(request, reply);
      const checks = named.map((id) => access.check(id, permission));
      // A child shares what its parent's tree shares.
      if (parent !== null) checks.push(access.check(parent, 'execute'));
      return Promise.all(checks).then(() => call(request, reply));
    });
}

/** The executions a request names, after its schemas have read it: in the path, the query, the body or its events. */
function executionsOf({ params, query, body }: FastifyRequest): readonly number[] {
  const events: unknown = Reflect.get(Object(body), 'events');
  const parts = [params, query, body, ...(Array.isArray(events) ? events : [])];
  return [...new Set(parts.flatMap((part) => numberAt(part, 'execution_id') ?? []))];
}

function numberAt(part: unknown, name: string): number | null {
  const value: unknown = Reflect.get(Object(part), name);
  return typeof value === 'number' ? value : null;
}

/** Puts the rest of the path under its name, without the verb; another verb is another path, and unknown. */
function greedyHook(path: string) {
  if (!GREEDY.test(path)) return {};
  const paramsIn = greedyReader(path);
  return {
    preValidation: (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
      const params = paramsIn(restOf(request.params));
      if (params === null) return reply.callNotFound();
      request.params = params;
      return done();
    },
  };
}

/** Reads the rest of a greedy path under its name, and what follows it; null where it does not end as the row says. */
function greedyReader(path: string): (rest: string) => { readonly [name: string]: string } | null {
  const { name = '', after = '' } = GREEDY.exec(path)?.groups ?? {};
  const end = after.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)');
  const pattern = new RegExp(`^(?<${name}>.+)${end}$`, 's');
  return (given) => {
    const found = pattern.exec(given.replace(/\/+$/, ''))?.groups;
    return found === undefined ? null : { ...found };
  };
}

function restOf(params: unknown): string {
  const rest: unknown = Reflect.get(Object(params), '*');
  return typeof rest === 'string' ? rest : '';
}

/** The answer for a path or method that is not in the table. */
export function refuseUnknown(allowed: readonly string[], method: string, path: string): RequestError {
  if (allowed.length === 0) return new RequestError('not_found', `No such resource: ${method} ${path}`);
  return methodRefused(method, allowed);
}

function methodRefused(method: string, allowed: readonly string[]): RequestError {
  return new RequestError('method_not_allowed', `${method} is not possible here`, {
    headers: { allow: allowed.join(', ') },
  });
}
