/**
 * What holds for every kind: a tool's throw becomes a failure, a result that could not be stored becomes one too, and
 * logs and messages are made storable. So tools stay free of that, and a worker can rely on it.
 */
import { isMap, type JsonMap } from '../../machines/json.ts';
import { ScriptUnavailable } from './code.ts';
import { classifyHttpStatus, classifyNetwork, failure, ToolRefusal } from './errors.ts';
import { FieldProblem } from './fields.ts';
import { EgressDenied } from './http/egress.ts';
import { BodyTooLarge } from './http/outbound.ts';
import { TokenRefused } from './http/tokens.ts';
import { checkResult, cleanJson, cleanText } from './sanitize.ts';
import type { Tool, ToolCall, ToolFailure, ToolOutcome } from './tool.ts';

const maxMessage = 4096;

/** The tool with its promises kept: `run` never rejects and answers only with what can travel. */
export function guarded(tool: Tool): Tool {
  return {
    kind: tool.kind,
    run: async (call) => storable(await attempt(tool, call)),
    ...(tool.close && { close: () => tool.close?.() ?? Promise.resolve() }),
  };
}

async function attempt(tool: Tool, call: ToolCall): Promise<ToolOutcome> {
  if (call.signal.aborted) return failure('unknown', 'CANCELLED', 'the try was stopped before it began');
  try {
    return await tool.run(call);
  } catch (error) {
    if (error instanceof ToolRefusal) return error.failure;
    if (error instanceof FieldProblem) return failure('config', 'TOOL_FIELD', error.message);
    if (error instanceof ScriptUnavailable)
      return failure(classifyHttpStatus(error.status), `HTTP_${error.status}`, error.message);
    if (error instanceof BodyTooLarge) return failure('client_error', 'BODY_TOO_LARGE', error.message);
    if (error instanceof TokenRefused)
      return failure(classifyHttpStatus(error.status), `HTTP_${error.status}`, error.message);
    if (error instanceof EgressDenied)
      return failure('connection', 'EGRESS_DENIED', error.message, { retryable: false });
    if (error instanceof Error && 'code' in error && typeof error.code === 'string' && /^(?:E|UND_)/.test(error.code)) {
      const { kind, code, reason } = classifyNetwork(error);
      return failure(kind, code, reason);
    }
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return failure('unknown', 'TOOL_DEFECT', `the ${tool.kind} tool failed: ${text}`);
  }
}

function storable(outcome: ToolOutcome): ToolOutcome {
  const extras = {
    ...(outcome.log && { log: { stdout: cleanText(outcome.log.stdout), stderr: cleanText(outcome.log.stderr) } }),
    ...(outcome.warnings && { warnings: outcome.warnings.map(cleanText) }),
    ...(outcome.http && { http: cleanMap(outcome.http) }),
    ...(outcome.pg && { pg: cleanMap(outcome.pg) }),
    ...(outcome.py && { py: cleanMap(outcome.py) }),
    ...(outcome.js && { js: cleanMap(outcome.js) }),
  };
  const problem = checkResult(outcome.data);
  if (outcome.ok) {
    if (problem === null) return { ok: true, data: outcome.data, ...extras };
    return { ...failure('schema', 'RESULT_NOT_STORABLE', problem), ...extras };
  }
  const { error } = outcome;
  const cleaned: ToolFailure = {
    ok: false,
    error: {
      ...error,
      code: cleanText(error.code),
      message: cleanText(error.message.slice(0, maxMessage)),
      ...(error.details === undefined ? {} : { details: cleanJson(error.details) }),
    },
    data: problem === null ? outcome.data : null,
    ...extras,
  };
  if (problem === null) return cleaned;
  return { ...cleaned, warnings: [...(cleaned.warnings ?? []), `the data of the failure was dropped: ${problem}`] };
}

function cleanMap(map: JsonMap): JsonMap {
  const cleaned = cleanJson(map);
  return isMap(cleaned) ? cleaned : {};
}
