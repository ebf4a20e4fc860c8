/**
 * Kind `mcp` (language 11.9): one request to a tool server per try, in a session of its own. Every failure keeps the
 * shape that success has, so a rule can read `output.data.text` either way.
 */
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { type Deadline, startDeadline } from '../deadline.ts';
import { failure, ToolRefusal } from '../errors.ts';
import { FieldProblem, fieldOf, mapOf, requiredText, textOf } from '../fields.ts';
import type { TokenSource } from '../http/authorization.ts';
import { authorize, decodeText, explainExchange, refusedStatus } from '../http/http.ts';
import { readMessage } from '../http/message.ts';
import type { Outbound } from '../http/outbound.ts';
import { parseJson } from '../json-text.ts';
import type { Tool, ToolCall, ToolFailure, ToolOutcome } from '../tool.ts';
import { BadAnswer, type RpcId } from './answer.ts';
import { findEndpoint, healthUrl } from './endpoint.ts';
import { type McpSession, openSession, RpcRefused, StatusRefused } from './session.ts';

export interface McpOptions {
  readonly outbound: Outbound;
  readonly tokens: TokenSource;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The server of tasks whose own is known nowhere. */
  readonly defaultUrl: string | null;
  readonly version: string;
}

const defaultTimeoutMs = 60_000;
const maxTimeoutMs = 180_000;
/** Pages of one `tools/list`. */
const maxPages = 50;

/** What the task asks for, said again in every answer. */
interface Request {
  readonly server: string;
  readonly method: string;
  readonly tool: string | null;
  readonly arguments: JsonMap;
}

/** An mcp tool; closing it is the owner of `outbound`'s business. */
export function createMcp(options: McpOptions): Tool {
  return {
    kind: 'mcp',
    async run(call) {
      const limitMs = Math.min(call.timeoutMs ?? defaultTimeoutMs, maxTimeoutMs);
      using deadline = startDeadline(limitMs, call.signal);
      const about: Record<string, Json> = { server: nameOf(call.fields), endpoint: null, method: null, tool: null };
      try {
        return await new Conversation(call, options, deadline, limitMs, about).run();
      } catch (error) {
        const failed = explainField(error);
        return { ...failed, data: errorData(about, failed.error.message) };
      }
    },
  };
}

class Conversation {
  readonly #call: ToolCall;
  readonly #options: McpOptions;
  readonly #deadline: Deadline;
  readonly #limitMs: number;
  readonly #about: Record<string, Json>;

  constructor(call: ToolCall, options: McpOptions, deadline: Deadline, limitMs: number, about: Record<string, Json>) {
    this.#call = call;
    this.#options = options;
    this.#deadline = deadline;
    this.#limitMs = limitMs;
    this.#about = about;
  }

  async run(): Promise<ToolOutcome> {
    const request = readRequest(this.#call.fields);
    const { server, method, tool } = request;
    Object.assign(this.#about, { server, method, tool });
    const { environment, defaultUrl } = this.#options;
    const { catalogDocument } = this.#call.host;
    const endpoint = await findEndpoint(this.#call.fields, server, { environment, defaultUrl, catalogDocument });
    this.#about['endpoint'] = endpoint.href;
    const target = method === 'health' ? healthUrl(endpoint) : endpoint;
    try {
      const { tokens } = this.#options;
      const { headers, warnings } = await authorize(this.#call, target, tokens, this.#deadline.signal);
      const outcome = await (method === 'health'
        ? this.#health(target, headers)
        : this.#converse(request, endpoint, headers));
      return warnings.length === 0 ? outcome : { ...outcome, warnings };
    } catch (error) {
      return this.#explain(error, method === 'health' ? 'GET' : 'POST', target);
    }
  }

  async #health(url: URL, secretHeaders: Readonly<Record<string, string>>): Promise<ToolOutcome> {
    const message = readMessage({ url: url.href, headers: this.#headers() });
    const answer = await this.#options.outbound.send({
      ...message,
      headers: { 'user-agent': this.#userAgent(), accept: '*/*', ...secretHeaders, ...message.headers },
      secretHeaders: Object.keys(secretHeaders),
      followRedirects: true,
      verifySsl: true,
      signal: this.#deadline.signal,
    });
    if (answer.status < 200 || answer.status > 299) throw new StatusRefused(answer);
    const { server, endpoint = null, method = null } = this.#about;
    return {
      ok: true,
      data: { status: 'ok', server: server ?? null, endpoint, method, healthy: true, text: decodeText(answer) },
    };
  }

  async #converse(request: Request, endpoint: URL, secretHeaders: Record<string, string>): Promise<ToolOutcome> {
    const { fields } = this.#call;
    const session = await openSession(this.#options.outbound, {
      endpoint,
      headers: this.#headers(),
      secretHeaders,
      userAgent: this.#userAgent(),
      firstId: idOf(fields),
      initialize: {
        protocolVersion: textOf(fields, 'protocol_version') ?? '2025-03-26',
        capabilities: mapOf(fields, 'capabilities') ?? {},
        clientInfo: {
          name: textOf(fields, 'client_name') ?? 'callboard',
          version: textOf(fields, 'client_version') ?? this.#options.version,
        },
      },
      signal: this.#deadline.signal,
    });
    try {
      const result = await ask(session, request, fieldOf(fields, 'params'));
      const text = spell(result);
      if (isMap(result) && result['isError'] === true) {
        const message = `the tool '${request.tool ?? request.method}' reports an error: ${text.slice(0, 500)}`;
        return failure('tool_error', 'MCP_TOOL_ERROR', message, { data: errorData(this.#about, message, text) });
      }
      const tools = request.method === 'tools/list' && isMap(result) ? { tools: result['tools'] ?? [] } : {};
      const { server, method, tool } = request;
      const data: JsonMap = {
        status: 'ok',
        server,
        endpoint: endpoint.href,
        method,
        tool,
        arguments: request.arguments,
        text,
        result,
        initialize: session.initialize,
        ...tools,
      };
      return { ok: true, data };
    } finally {
      await session.end();
    }
  }

  #headers(): JsonMap {
    return mapOf(this.#call.fields, 'headers') ?? {};
  }

  #userAgent(): string {
    return `callboard/${this.#options.version}`;
  }

  #explain(error: unknown, method: string, url: URL): ToolFailure {
    const with_ = (failed: ToolFailure, text = failed.error.message): ToolFailure => ({
      ...failed,
      data: errorData(this.#about, failed.error.message, text),
    });
    if (this.#deadline.why() === null) {
      if (error instanceof StatusRefused) {
        return with_(refusedStatus({ method, url }, error.answer), decodeText(error.answer).slice(0, 64 * 1024));
      }
      if (error instanceof RpcRefused) {
        const details = error.data === null ? {} : { details: error.data };
        return with_(failure('tool_error', `MCP_${error.code}`, error.message, details));
      }
      if (error instanceof BadAnswer) return with_(failure('tool_error', 'MCP_BAD_ANSWER', error.message));
      if (error instanceof SyntaxError) {
        return with_(failure('parse', 'MCP_PARSE', 'the tool server answered with something that is no JSON'));
      }
      if (error instanceof ToolRefusal || error instanceof FieldProblem) return with_(explainField(error));
    }
    return with_(explainExchange(error, { method, url }, this.#deadline, this.#limitMs));
  }
}

/** The result of the request; `tools/list` is read to its last page. */
async function ask(session: McpSession, request: Request, given: Json | undefined): Promise<Json> {
  const params = request.method === 'tools/call' ? { name: request.tool, arguments: request.arguments } : given;
  const first = await result(session, request.method, params);
  if (request.method !== 'tools/list' || !isMap(first) || !Array.isArray(first['tools'])) return first;
  const tools = [...first['tools']];
  let { nextCursor } = first;
  for (let page = 1; typeof nextCursor === 'string' && nextCursor !== '' && page < maxPages; page += 1) {
    const more = await result(session, request.method, { ...(isMap(params) ? params : {}), cursor: nextCursor });
    if (!isMap(more) || !Array.isArray(more['tools'])) throw new BadAnswer('a page of the list of tools has no tools');
    tools.push(...more['tools']);
    nextCursor = more['nextCursor'];
  }
  const { nextCursor: _, ...rest } = first;
  return { ...rest, tools };
}

async function result(session: McpSession, method: string, params: Json | undefined): Promise<Json> {
  const said = await session.request(method, params);
  if ('error' in said) throw new RpcRefused(said.error);
  return said.result;
}

function readRequest(fields: JsonMap): Request {
  const method = filled(textOf(fields, 'method', 'action')) ?? 'tools/call';
  const given = readArguments(fieldOf(fields, 'arguments', 'args'));
  const tool =
    method === 'tools/call' ? requiredText(fields, 'tool', 'tool_name') : (textOf(fields, 'tool', 'tool_name') ?? null);
  return { server: nameOf(fields), method, tool, arguments: given };
}

function nameOf(fields: JsonMap): string {
  const name = fieldOf(fields, 'server');
  return typeof name === 'string' && name.trim() !== '' ? name.trim() : 'kubernetes';
}

function readArguments(value: Json | undefined): JsonMap {
  if (value === undefined || value === '') return {};
  const read = typeof value === 'string' ? parsedOrNull(value) : value;
  if (!isMap(read)) throw new FieldProblem(`field 'arguments' must be a map or the JSON text of one`);
  return read;
}

function parsedOrNull(text: string): Json {
  try {
    return parseJson(text);
  } catch {
    return null;
  }
}

function idOf(fields: JsonMap): RpcId {
  const id = fieldOf(fields, 'request_id') ?? 1;
  if (typeof id === 'number' && Number.isSafeInteger(id)) return id;
  if (typeof id === 'string' && id !== '') return /^\d{1,15}$/.test(id) ? Number(id) : id;
  throw new FieldProblem(`field 'request_id' must be a whole number or text`);
}

/** The texts among the contents, else the result as JSON. */
function spell(result: Json): string {
  const contents = isMap(result) && Array.isArray(result['content']) ? result['content'] : [];
  const texts = contents.flatMap((each) => (isMap(each) && typeof each['text'] === 'string' ? [each['text']] : []));
  return texts.length > 0 ? texts.join('\n') : JSON.stringify(result);
}

function errorData(about: JsonMap, error: string, text = error): JsonMap {
  const { server = null, endpoint = null, method = null, tool = null } = about;
  return { status: 'error', server, endpoint, method, tool, error, text };
}

function explainField(error: unknown): ToolFailure {
  if (error instanceof ToolRefusal) return error.failure;
  if (error instanceof FieldProblem) return failure('config', 'TOOL_FIELD', error.message);
  throw error;
}

function filled(text: string | undefined): string | undefined {
  return text === undefined || text.trim() === '' ? undefined : text.trim();
}
