/** Tool servers on the wire: lifecycle dispatch and discovery (api 2.14.1, 2.14.2), and JSON-RPC as the OpenAPI document shows it. */
import * as v from 'valibot';
import type { Discovery, LifecycleReceipt } from '../../actors/services.ts';
import { described } from './described.ts';
import { flag, map, maybe } from './fields.ts';
import { idOut } from './ids.ts';
import { version } from './start.ts';

const ACTION = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/;

export const action = described(
  v.custom<string>(
    (value) => typeof value === 'string' && ACTION.test(value),
    'must be the name of an action: at most 64 letters, digits, _ . -',
  ),
  { type: 'string', pattern: ACTION.source },
);

export const lifecycleBody = v.object({ workload_overrides: maybe(map), version: maybe(version) });

const receiptFields = {
  status: v.literal('started'),
  verb: v.string(),
  mcp_path: v.string(),
  mcp_version: v.number(),
  agent_path: v.string(),
  execution_id: idOut,
};

export const lifecycleAnswer = v.object(receiptFields);

export function lifecycleToWire(receipt: LifecycleReceipt): v.InferOutput<typeof lifecycleAnswer> {
  return {
    status: 'started',
    verb: receipt.verb,
    mcp_path: receipt.path,
    mcp_version: receipt.version,
    agent_path: receipt.agentPath,
    execution_id: receipt.executionId,
  };
}

export const discoverBody = v.object({ version: maybe(version), force: maybe(flag) });

export const discoverAnswer = v.union([
  v.object({
    status: v.picklist(['updated', 'unchanged']),
    strategy: v.literal('direct'),
    mcp_path: v.string(),
    mcp_version_old: v.number(),
    mcp_version_new: v.number(),
    tool_count_before: v.number(),
    tool_count_after: v.number(),
    execution_id: v.null(),
  }),
  v.object({ ...receiptFields, strategy: v.literal('agent') }),
]);

export function discoveryToWire(found: Discovery): v.InferOutput<typeof discoverAnswer> {
  if (found.strategy === 'agent') return { ...lifecycleToWire(found.receipt), strategy: 'agent' };
  return {
    status: found.isNew ? 'updated' : 'unchanged',
    strategy: 'direct',
    mcp_path: found.path,
    mcp_version_old: found.versionBefore,
    mcp_version_new: found.versionAfter,
    tool_count_before: found.toolsBefore,
    tool_count_after: found.toolsAfter,
    execution_id: null,
  };
}

const rpcId = v.union([v.string(), v.number()]);

/** What a client sends; older protocol versions also take lists of these. */
export const rpcRequest = v.object({
  jsonrpc: v.literal('2.0'),
  id: v.optional(rpcId),
  method: v.string(),
  params: v.optional(map),
});

/** Either `result` or `error`. */
export const rpcAnswer = v.object({
  jsonrpc: v.literal('2.0'),
  id: v.nullable(rpcId),
  result: v.optional(map),
  error: v.optional(v.object({ code: v.number(), message: v.string(), data: v.optional(map) })),
});
