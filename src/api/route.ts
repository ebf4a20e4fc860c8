/**
 * A row of the route table (api 2): everything that is known about one operation, in one place. The host registers it,
 * the OpenAPI document describes it, and the handler is a service call between two conversions.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { GenericSchema, InferOutput } from 'valibot';
import type { RoleMark } from '../../machines/access.ts';
import type { JsonMap } from '../../machines/json.ts';
import type { ErrorCode } from '../errors.ts';

export type Level = 'seed' | 'client' | 'plus';
/** (P) public, (V) viewer, (O) operator, (A) admin, (W) worker (api 1.13). */
export type Role = RoleMark;

export interface Call<P, Q, B> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** OpenAPI spelling; `{path…}` takes the rest, slashes included, up to what follows it. */
  readonly path: string;
  readonly level: Level;
  readonly role: readonly Role[];
  readonly tag: string;
  readonly summary: string;
  readonly params?: GenericSchema;
  readonly query?: GenericSchema;
  readonly body?: GenericSchema;
  /** Of the good answer; 200 by default. */
  readonly status?: number;
  /** What the good answer carries; absent where `mediaType` is not JSON. */
  readonly answer?: GenericSchema;
  readonly mediaType?: string;
  /** Media types the good answer may have instead, when it is asked for as text. */
  readonly texts?: readonly string[];
  /** Answers beside the good one and the refusals, by status: what they carry, or null for nothing. */
  readonly others?: Readonly<Record<number, GenericSchema | null>>;
  /** Codes beyond the general ones. */
  readonly codes: readonly ErrorCode[];
  readonly example?: { readonly request?: JsonMap; readonly answer?: JsonMap | readonly unknown[] };
  /** Bytes; `general` is SVC_BODY_LIMIT_BYTES, for bodies that carry a payload. By default 256 KiB (host/routing.ts). */
  readonly bodyLimit?: number | 'general';
  /** May wait on purpose: left out of latency figures and the log of slow requests. */
  readonly waits?: boolean;
  /** The handler gets a BodyReading whatever the body is; `body` only describes it. */
  readonly anyBody?: boolean;
  /** Called for every worker report: nothing is added to its path. */
  readonly hot?: boolean;
  /** A file that a page needs, or a line between processes of the service; no operation of its own. */
  readonly part?: boolean;
  readonly handle: (call: Call<unknown, unknown, unknown>) => unknown;
}

type OutputOf<S extends GenericSchema | undefined> = S extends GenericSchema
  ? InferOutput<S>
  : Readonly<Record<string, never>>;

/** Types the handler by its schemas. */
export function route<
  P extends GenericSchema | undefined = undefined,
  Q extends GenericSchema | undefined = undefined,
  B extends GenericSchema | undefined = undefined,
>(
  definition: Omit<Route, 'params' | 'query' | 'body' | 'handle' | 'codes'> & {
    readonly params?: P;
    readonly query?: Q;
    readonly body?: B;
    readonly codes?: readonly ErrorCode[];
    readonly handle: (call: Call<OutputOf<P>, OutputOf<Q>, OutputOf<B>>) => unknown;
  },
): Route {
  const { params, query, body, handle } = definition;
  return {
    ...definition,
    ...(params === undefined ? {} : { params }),
    ...(query === undefined ? {} : { query }),
    ...(body === undefined ? {} : { body }),
    codes: definition.codes ?? [],
    // The host calls this with the outputs of these three schemas and with nothing else (host/routing.ts).
    handle: handle as Route['handle'],
  } as Route;
}
