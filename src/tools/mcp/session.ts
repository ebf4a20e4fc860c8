/**
 * One conversation with a tool server over streamable HTTP: `initialize`, the session id it may give, the notice that
 * we are ready, then requests with rising ids. Nothing is kept between tries, so a session is ended when its try is.
 */
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { readMessage } from '../http/message.ts';
import type { Outbound, OutboundResponse } from '../http/outbound.ts';
import { createEventScan, isEventStream, type RpcAnswer, type RpcId, readRpcAnswer } from './answer.ts';

export interface SessionSettings {
  readonly endpoint: URL;
  /** Of the task; they win over those of the credential and of the protocol. */
  readonly headers: JsonMap;
  readonly secretHeaders: Readonly<Record<string, string>>;
  readonly userAgent: string;
  readonly firstId: RpcId;
  readonly initialize: JsonMap;
  readonly signal: AbortSignal;
}

export interface McpSession {
  /** The server's answer to `initialize`. */
  readonly initialize: Json;
  request(method: string, params: Json | undefined): Promise<RpcAnswer>;
  /** Tells the server that its session is over, for at most a moment. Never throws. */
  end(): Promise<void>;
}

/** The server answered with an HTTP status outside 200-299. */
export class StatusRefused extends Error {
  override readonly name = 'StatusRefused';
  readonly answer: OutboundResponse;
  constructor(answer: OutboundResponse) {
    super(`the server answered HTTP ${answer.status}`);
    this.answer = answer;
  }
}

/** The server answered a request with a JSON-RPC error. */
export class RpcRefused extends Error {
  override readonly name = 'RpcRefused';
  readonly code: string;
  readonly data: Json;
  constructor(error: { readonly code: string; readonly message: string; readonly data: Json }) {
    super(error.message);
    this.code = error.code;
    this.data = error.data;
  }
}

const endMs = 1_000;

/** Throws StatusRefused, RpcRefused, BadAnswer, SyntaxError and what the outbound client throws. */
export async function openSession(outbound: Outbound, settings: SessionSettings): Promise<McpSession> {
  const extra: Record<string, string> = {};
  let id = settings.firstId;

  const send = (method: string, body: JsonMap | null, signal: AbortSignal, awaited?: RpcId) => {
    const message = readMessage({
      url: settings.endpoint.href,
      method,
      headers: settings.headers,
      ...(body !== null && { json: body }),
    });
    const scan = awaited === undefined ? null : createEventScan(awaited);
    const decoder = new TextDecoder();
    return outbound.send({
      ...message,
      headers: {
        'user-agent': settings.userAgent,
        accept: 'application/json, text/event-stream',
        'accept-encoding': 'gzip, deflate, br',
        ...extra,
        ...settings.secretHeaders,
        ...message.headers,
      },
      secretHeaders: [...Object.keys(settings.secretHeaders), 'mcp-session-id'],
      followRedirects: true,
      verifySsl: true,
      signal,
      // A server may leave its stream open after the answer.
      ...(scan !== null && {
        enough: (headers, chunk) =>
          isEventStream(headers['content-type'] ?? '') && hasAnswer(scan, decoder.decode(chunk, { stream: true })),
      }),
    });
  };

  const ask = async (
    method: string,
    params: Json | undefined,
  ): Promise<{ said: RpcAnswer; from: OutboundResponse }> => {
    const own = id;
    id = nextId(id);
    const body = { jsonrpc: '2.0', id: own, method, ...(params !== undefined && { params }) };
    const from = await send('POST', body, settings.signal, own);
    if (from.status < 200 || from.status > 299) throw new StatusRefused(from);
    return { said: readRpcAnswer(from.headers['content-type'] ?? '', from.body.toString('utf8'), own), from };
  };

  const { said, from } = await ask('initialize', settings.initialize);
  if ('error' in said) throw new RpcRefused(said.error);
  const sessionId = from.headers['mcp-session-id'];
  if (sessionId !== undefined) extra['mcp-session-id'] = sessionId;
  const agreed = isMap(said.result) ? said.result['protocolVersion'] : undefined;
  if (typeof agreed === 'string' && /^[\w.-]{1,40}$/.test(agreed)) extra['mcp-protocol-version'] = agreed;
  const ready = await send('POST', { jsonrpc: '2.0', method: 'notifications/initialized' }, settings.signal);
  if (ready.status < 200 || ready.status > 299) throw new StatusRefused(ready);

  return {
    initialize: said.result,
    request: async (method, params) => (await ask(method, params)).said,
    async end() {
      if (sessionId === undefined || settings.signal.aborted) return;
      await send('DELETE', null, AbortSignal.any([settings.signal, AbortSignal.timeout(endMs)])).catch(() => {});
    },
  };
}

/** A bad event ends the reading, too; it is told when the body is read as a whole. */
function hasAnswer(scan: ReturnType<typeof createEventScan>, text: string): boolean {
  try {
    return scan.read(text) !== null;
  } catch {
    return true;
  }
}

function nextId(id: RpcId): RpcId {
  if (typeof id === 'number') return id + 1;
  const parts = /^(.*-)(\d{1,9})$/.exec(id);
  return parts === null ? `${id}-2` : `${parts[1]}${Number(parts[2]) + 1}`;
}
