/**
 * JSON-RPC over HTTP as the streamable transport has it (api 2.14.4): messages in one POST, answers as JSON, or as an
 * event stream where the client takes one and wants to hear of progress. A message that can be answered is answered
 * with 200; one that nobody could match to a request is also an HTTP refusal, in the common form beside its own.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { JsonMap } from '../../machines/json.ts';
import { answerOf, RequestError } from '../errors.ts';
import { errorMessage, type Message, RPC, RpcError, readMessage } from '../mcp/message.ts';
import { type Asker, isKnownVersion, type McpServer, progressTokenOf, takesBatches } from '../mcp/server.ts';
import type { BodyReading } from './body-reading.ts';
import type { ApiContext } from './context.ts';

const BATCH_MAX = 50;

export async function answerRpc(
  server: McpServer,
  reading: BodyReading,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
  { caller, waits, streams }: Pick<ApiContext, 'caller' | 'waits' | 'streams'>,
): Promise<unknown> {
  if (reading.refusal !== null) {
    const { code, message } = reading.refusal;
    const rpc = new RpcError(code === 'invalid_json' ? RPC.parse : RPC.request, message);
    return refuse(reply, request, 422, rpc, code === 'invalid_json' ? 'invalid_json' : 'validation_error');
  }
  const { json } = reading;
  const version = versionOf(request, json);
  if (version !== null && !isKnownVersion(version)) {
    const sentence = 'Mcp-Protocol-Version names no version this server speaks';
    return refuse(reply, request, 400, new RpcError(RPC.request, sentence), 'validation_error');
  }
  const messages = messagesOf(json, version);
  if (messages instanceof RpcError) return refuse(reply, request, 422, messages, 'validation_error');
  const [first] = messages;
  if (!Array.isArray(json) && first?.kind === 'bad' && first.id === null) {
    return refuse(reply, request, 422, first.error, 'validation_error');
  }
  if (messages.every((each) => each.kind === 'notice')) return reply.code(202).send();

  const asker = { isOperator: ['operator', 'admin'].includes(caller().role), signal: waits.signalFor(reply) };
  if (wantsStream(request, messages)) {
    const stream = streams.start(request, reply, 'mcp');
    // One frame after the other: the stream knows of one that waits for a slow client, not of two.
    let sent = Promise.resolve();
    const send = (data: JsonMap) => {
      sent = sent.then(() => stream.send({ event: 'message', data }));
      return sent;
    };
    await answerAll(server, messages, { ...asker, notify: send }, send);
    stream.end();
    return reply;
  }
  const answers: JsonMap[] = [];
  await answerAll(server, messages, { ...asker, notify: null }, (answer) => answers.push(answer));
  return reply.send(Array.isArray(json) ? answers : answers[0]);
}

/** Each answer as soon as it is there, all of them side by side. */
async function answerAll(
  server: McpServer,
  messages: readonly Message[],
  asker: Asker,
  send: (answer: JsonMap) => unknown,
): Promise<void> {
  await Promise.all(
    messages.map(async (message) => {
      const answer = await server.answer(message, asker);
      if (answer !== null) await send(answer);
    }),
  );
}

function messagesOf(json: unknown, version: string | null): readonly Message[] | RpcError {
  if (!Array.isArray(json)) return [readMessage(json)];
  if (!takesBatches(version)) return new RpcError(RPC.request, 'This protocol version has no batches');
  if (json.length === 0 || json.length > BATCH_MAX) {
    return new RpcError(RPC.request, `A batch must have 1 to ${BATCH_MAX} messages`);
  }
  return json.map((each: unknown): Message => {
    const message = readMessage(each);
    if (message.kind !== 'request' || message.method !== 'initialize') return message;
    return { kind: 'bad', id: message.id, error: new RpcError(RPC.request, 'initialize must stand alone') };
  });
}

/** The version both have agreed on; the request that agrees on one has none yet. */
function versionOf(request: FastifyRequest, json: unknown): string | null {
  const given = request.headers['mcp-protocol-version'];
  if (typeof given !== 'string' || given === '') return null;
  return Reflect.get(Object(json), 'method') === 'initialize' ? null : given;
}

function wantsStream(request: FastifyRequest, messages: readonly Message[]): boolean {
  const accepts = /\btext\/event-stream\b(?!\s*;\s*q=0(?:\.0*)?(?:,|\s|$))/i.test(request.headers.accept ?? '');
  return accepts && messages.some((each) => each.kind === 'request' && progressTokenOf(each.params) !== null);
}

function refuse(
  reply: FastifyReply,
  request: FastifyRequest,
  status: number,
  rpc: RpcError,
  code: 'invalid_json' | 'validation_error',
): FastifyReply {
  const common = { detail: rpc.message, code, errors: [rpc.message], request_id: request.id };
  return reply.code(status).send({ ...errorMessage(null, rpc), ...common });
}

/** What a client may read of an error; one that is a bug is logged, and says nothing. */
export function explainer(request: FastifyRequest, log: ApiContext['log']) {
  return (error: unknown): { readonly code: string; readonly sentence: string } => {
    const { code, body } = answerOf(error, request.id, { claimRetryAfterSeconds: 0 });
    if (code === 'internal_error') log.error('A tool server request failed', { request_id: request.id, error });
    const { detail } = body;
    if (typeof detail === 'string') return { code, sentence: detail };
    const sentence: unknown = Reflect.get(Object(detail), 'message');
    return { code, sentence: typeof sentence === 'string' ? sentence : code };
  };
}

/** Throws RequestError 403: a page of another origin may not drive the tools (api 2.14.4). */
export function refuseOrigin(request: FastifyRequest, isAllowed: (origin: string) => boolean): void {
  const { origin } = request.headers;
  if (origin === undefined || isAllowed(origin)) return;
  throw new RequestError('forbidden', 'Requests of this origin are not allowed');
}
