/**
 * The body of a JSON-RPC answer, which a tool server may send as JSON or as an event stream (streamable HTTP). In a
 * stream, and in a JSON batch, only the message with our own id is the answer; requests and notices of the server in
 * between are passed over. Whatever the server sends is a claim: its shape is checked here.
 */
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { parseJson } from '../json-text.ts';

export type RpcId = string | number;

/** What a server said to one request: a result, or its own error. */
export type RpcAnswer =
  | { readonly result: Json }
  | { readonly error: { readonly code: string; readonly message: string; readonly data: Json } };

/** The body is no answer to this request. */
export class BadAnswer extends Error {
  override readonly name = 'BadAnswer';
}

/** Throws BadAnswer, and SyntaxError for text that is no JSON. */
export function readRpcAnswer(type: string, text: string, id: RpcId): RpcAnswer {
  if (isEventStream(type)) {
    const scan = createEventScan(id);
    return scan.read(text) ?? scan.read('\n\n') ?? throwBad('the event stream ended without an answer');
  }
  const body = parseJson(text);
  const found = (Array.isArray(body) ? body : [body]).map((message) => answerIn(message, id)).find(isThere);
  return found ?? throwBad(`the answer has another id than the request`);
}

export function isEventStream(type: string): boolean {
  return /^text\/event-stream\b/i.test(type.trim());
}

export interface EventScan {
  /** Takes the next piece of the stream; the answer once it was seen. Throws SyntaxError for data that is no JSON. */
  read(text: string): RpcAnswer | null;
}

/** Finds the answer in a stream that arrives in pieces; keeps no more than the event that is not complete. */
export function createEventScan(id: RpcId): EventScan {
  let line = '';
  let data: string[] = [];
  let found: RpcAnswer | null = null;
  const take = (complete: string) => {
    if (complete.startsWith('data:')) data.push(complete.slice(complete[5] === ' ' ? 6 : 5));
    if (complete !== '') return;
    const text = data.join('\n');
    data = [];
    if (text.trim() === '') return;
    const body = parseJson(text);
    for (const message of Array.isArray(body) ? body : [body]) found ??= answerIn(message, id) ?? null;
  };
  return {
    read(text) {
      const lines = (line + text).split(/\r\n|\n|\r(?!$)/);
      line = lines.pop() ?? '';
      for (const complete of lines) if (found === null) take(complete);
      return found;
    },
  };
}

/** Undefined for a message that is not the answer to this id. An error without an id is about the request, too. */
function answerIn(message: Json, id: RpcId): RpcAnswer | undefined {
  if (!isMap(message)) throw new BadAnswer('the answer is no JSON-RPC message');
  const { error } = message;
  const own = message['id'];
  if (Object.hasOwn(message, 'method')) return undefined;
  if (isMap(error) && (own === id || own === null || own === undefined)) return { error: readError(error) };
  if (own !== id) return undefined;
  if (!Object.hasOwn(message, 'result')) throw new BadAnswer('the answer has neither a result nor an error');
  return { result: message['result'] ?? null };
}

function readError(error: JsonMap): { code: string; message: string; data: Json } {
  const { code, message } = error;
  return {
    code: typeof code === 'number' || typeof code === 'string' ? String(code).slice(0, 40) : 'UNKNOWN',
    message: typeof message === 'string' && message !== '' ? message : 'the server gave no message',
    data: error['data'] ?? null,
  };
}

function isThere<T>(value: T | undefined): value is T {
  return value !== undefined;
}

function throwBad(sentence: string): never {
  throw new BadAnswer(sentence);
}
