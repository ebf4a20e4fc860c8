/** A tool the service offers, as it is listed and as it is called. */
import type { Json, JsonMap } from '../../machines/json.ts';

export interface ToolCaller {
  /** May start and end executions. */
  readonly isOperator: boolean;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** Tells a client that asked for it how far the call is: percent, never less than before. */
  readonly progress: ((percent: number, message: string) => void) | null;
  readonly idempotencyKey: string | null;
}

export interface ServedTool {
  readonly name: string;
  /** What `tools/list` says of it. */
  readonly descriptor: JsonMap;
  /** Throws RpcError for arguments that do not fit; a DomainError becomes a result that says so. */
  call(args: JsonMap, caller: ToolCaller): Promise<JsonMap>;
}

export interface Toolbox {
  /** One page, and the cursor of the next. Throws RpcError for a cursor it did not give. */
  list(caller: Pick<ToolCaller, 'isOperator'>, cursor: string | null): Promise<ToolPage>;
  find(name: string, caller: Pick<ToolCaller, 'isOperator'>): Promise<ServedTool | null>;
}

export interface ToolPage {
  readonly tools: readonly ServedTool[];
  readonly nextCursor: string | null;
}

/** A result as programs read it, and the same as text for models that read nothing else. */
export function toolResult(structured: JsonMap, isError = false): JsonMap {
  return { ...textContent(structured), structuredContent: structured, isError };
}

function textContent(value: Json): JsonMap {
  return { content: [{ type: 'text', text: JSON.stringify(value) }] };
}
