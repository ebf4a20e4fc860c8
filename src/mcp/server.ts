/**
 * The service as a tool server: one request in, one answer out (api 2.14.3, 2.14.4). It keeps no session, so every
 * request brings what it needs, and any process of the service can answer it.
 */
import { DomainError } from '../../actors/errors.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { errorMessage, type Message, noticeMessage, RPC, RpcError, type RpcId, resultMessage } from './message.ts';
import type { Resources } from './resources.ts';
import { type ServedTool, type Toolbox, type ToolCaller, toolResult } from './tool.ts';

/** Newest first; the first is offered to a client that asks for one we do not know. */
export const PROTOCOL_VERSIONS = ['2025-06-18', '2025-03-26', '2024-11-05'] as const;
/** Since this one a message stands alone. */
const WITHOUT_BATCHES = '2025-06-18';

export interface McpServerParts {
  readonly toolbox: Toolbox;
  /** Null: this server has none. */
  readonly resources: Resources | null;
  readonly name: string;
  readonly version: string;
  /** The error as a client may see it; what is a bug is logged there. */
  readonly explain: (error: unknown) => { readonly code: string; readonly sentence: string };
}

export interface Asker {
  readonly isOperator: boolean;
  readonly signal: AbortSignal;
  /** Sends a notice before the answer; null where the answer is all that is sent. */
  readonly notify: ((message: JsonMap) => void) | null;
}

export interface McpServer {
  /** Never rejects. Null: there is nothing to answer. */
  answer(message: Message, asker: Asker): Promise<JsonMap | null>;
}

export function isKnownVersion(version: string): boolean {
  return PROTOCOL_VERSIONS.some((known) => known === version);
}

/** Clients of old do not tell their version, and may send several messages at once. */
export function takesBatches(version: string | null): boolean {
  return version !== WITHOUT_BATCHES;
}

export function createMcpServer({ toolbox, resources, name, version, explain }: McpServerParts): McpServer {
  async function call(params: JsonMap, asker: Asker): Promise<JsonMap> {
    const { name: wanted, arguments: args = {} } = params;
    if (typeof wanted !== 'string') throw new RpcError(RPC.params, 'name must be text');
    if (!isMap(args)) throw new RpcError(RPC.params, 'arguments must be an object');
    const caller = callerOf(params, asker);
    const tool = await toolbox.find(wanted, caller);
    if (tool === null) throw new RpcError(RPC.params, `Unknown tool: ${wanted.slice(0, 100)}`);
    try {
      return await tool.call(args, caller);
    } catch (error) {
      // What the service refuses is for the model that called to read; everything else is not its doing.
      if (!(error instanceof DomainError)) throw error;
      const { code, message, data } = error;
      return toolResult({ status: 'refused', code, error: message, ...data }, true);
    }
  }

  function resourcesOr(method: string): Resources {
    if (resources !== null) return resources;
    throw new RpcError(RPC.method, `Unknown method: ${method}`);
  }

  async function perform(method: string, params: JsonMap, asker: Asker): Promise<JsonMap> {
    switch (method) {
      case 'initialize':
        return {
          protocolVersion: agreedVersion(params['protocolVersion']),
          capabilities: { tools: {}, ...(resources === null ? {} : { resources: {} }) },
          serverInfo: { name, title: 'Callboard', version },
        };
      case 'ping':
        return {};
      case 'tools/list': {
        const { tools, nextCursor } = await toolbox.list(asker, cursorOf(params));
        return { tools: tools.map(descriptorOf), ...(nextCursor === null ? {} : { nextCursor }) };
      }
      case 'tools/call':
        return call(params, asker);
      case 'resources/list':
        return resourcesOr(method).list(cursorOf(params));
      case 'resources/templates/list':
        return resourcesOr(method).templates();
      case 'resources/read': {
        const { uri } = params;
        if (typeof uri !== 'string') throw new RpcError(RPC.params, 'uri must be text');
        return resourcesOr(method).read(uri);
      }
      default:
        throw new RpcError(RPC.method, `Unknown method: ${method}`);
    }
  }

  function errorOf(error: unknown): RpcError {
    if (error instanceof RpcError) return error;
    const { code, sentence } = explain(error);
    return new RpcError(error instanceof DomainError ? RPC.params : RPC.internal, sentence, { code });
  }

  return {
    async answer(message, asker) {
      if (message.kind === 'notice') return null;
      if (message.kind === 'bad') return errorMessage(message.id, message.error);
      try {
        return resultMessage(message.id, await perform(message.method, message.params, asker));
      } catch (error) {
        return errorMessage(message.id, errorOf(error));
      }
    },
  };
}

/** The token by which a client of this request wants to hear of its progress; null when it does not. */
export function progressTokenOf(params: JsonMap): RpcId | null {
  const token = metaOf(params)['progressToken'];
  return typeof token === 'string' || typeof token === 'number' ? token : null;
}

function callerOf(params: JsonMap, { isOperator, signal, notify }: Asker): ToolCaller {
  const progressToken = progressTokenOf(params);
  const key = metaOf(params)['idempotencyKey'];
  if (key !== undefined && (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key))) {
    throw new RpcError(RPC.params, '_meta.idempotencyKey must be 1 to 255 visible ASCII characters');
  }
  return {
    isOperator,
    signal,
    idempotencyKey: key ?? null,
    progress:
      progressToken === null || notify === null
        ? null
        : (progress, message) =>
            notify(noticeMessage('notifications/progress', { progressToken, progress, total: 100, message })),
  };
}

function descriptorOf(tool: ServedTool): JsonMap {
  return tool.descriptor;
}

function cursorOf({ cursor }: JsonMap): string | null {
  if (cursor === undefined || cursor === null) return null;
  if (typeof cursor === 'string') return cursor;
  throw new RpcError(RPC.params, 'cursor must be text');
}

function metaOf({ _meta: meta }: JsonMap): JsonMap {
  return isMap(meta) ? meta : {};
}

function agreedVersion(wanted: Json | undefined): string {
  return PROTOCOL_VERSIONS.find((known) => known === wanted) ?? PROTOCOL_VERSIONS[0];
}
