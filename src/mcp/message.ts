/**
 * JSON-RPC 2.0 messages of a client, told apart and checked. What has an id is answered under it, whatever is wrong
 * with the rest; what has none, or one that is no id, can only be answered under `null`.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';

export type RpcId = string | number;

/** Codes of api 2.14.4. */
export const RPC = { parse: -32700, request: -32600, method: -32601, params: -32602, internal: -32603 } as const;

/** A request the server answers with an error; `data` says more to a program. */
export class RpcError extends Error {
  override readonly name = 'RpcError';
  readonly code: number;
  readonly data: JsonMap | null;
  constructor(code: number, message: string, data: JsonMap | null = null) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export type Message =
  | { readonly kind: 'request'; readonly id: RpcId; readonly method: string; readonly params: JsonMap }
  /** A notice, or an answer to a request this server never sends: taken, and nothing follows. */
  | { readonly kind: 'notice' }
  | { readonly kind: 'bad'; readonly id: RpcId | null; readonly error: RpcError };

const METHOD_LENGTH_MAX = 200;

export function readMessage(value: unknown): Message {
  if (!isMap(value)) return bad(null, 'A message must be an object');
  const id = isId(value['id']) ? value['id'] : null;
  if (Object.hasOwn(value, 'id') && id === null) return bad(null, 'id must be text or a number');
  if (value['jsonrpc'] !== '2.0') return bad(id, "jsonrpc must be '2.0'");
  const { method, params = {} } = value;
  if (method === undefined && id !== null && (Object.hasOwn(value, 'result') || Object.hasOwn(value, 'error'))) {
    return { kind: 'notice' };
  }
  if (typeof method !== 'string' || method === '' || method.length > METHOD_LENGTH_MAX) {
    return bad(id, 'method must be text');
  }
  if (id === null) return { kind: 'notice' };
  if (!isMap(params)) return { kind: 'bad', id, error: new RpcError(RPC.params, 'params must be an object') };
  return { kind: 'request', id, method, params };
}

function isId(value: unknown): value is RpcId {
  return typeof value === 'string' || (typeof value === 'number' && Number.isFinite(value));
}

function bad(id: RpcId | null, sentence: string): Message {
  return { kind: 'bad', id, error: new RpcError(RPC.request, sentence) };
}

export function resultMessage(id: RpcId, result: JsonMap): JsonMap {
  return { jsonrpc: '2.0', id, result };
}

export function errorMessage(id: RpcId | null, { code, message, data }: RpcError): JsonMap {
  return { jsonrpc: '2.0', id, error: { code, message, ...(data === null ? {} : { data }) } };
}

export function noticeMessage(method: string, params: Readonly<Record<string, Json>>): JsonMap {
  return { jsonrpc: '2.0', method, params };
}
