/**
 * Turns whatever was thrown into the one error form (api 1.7). Errors of the framework are given our codes; what nobody
 * knows is answered with a constant sentence and logged with its request id.
 */
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Log } from '../../actors/ports.ts';
import { answerOf, type ErrorAnswer, type ErrorOptions, RequestError } from '../errors.ts';
import { traceFields } from './request-span.ts';

const CUT_SHORT = 'body: ended before all of it was there';

export interface ErrorHandlerOptions extends ErrorOptions {
  /** The process ends, and so does every connection with its answer. */
  readonly stopping: AbortSignal;
}

export function createErrorHandler(log: Log, options: ErrorHandlerOptions) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const known = fromFramework(error) ?? (hasLeft(request) ? new RequestError('invalid_json', CUT_SHORT) : error);
    const answer = answerOf(known, request.id, options);
    noteFailure(log, answer, {
      request_id: request.id,
      ...traceFields(request),
      method: request.method,
      route: request.routeOptions.url ?? null,
      error: known,
    });
    // A stream that has begun cannot turn into an error any more.
    if (reply.raw.headersSent) {
      reply.raw.destroy();
      return;
    }
    // The framework would close the connection under a body it refused, and whoever still sends it never reads the answer.
    // The rest of it is thrown away instead, for as long as a request may take.
    if (!options.stopping.aborted) reply.removeHeader('connection');
    reply
      .code(answer.status)
      .headers(answer.headers)
      .type('application/json; charset=utf-8')
      .send(JSON.stringify(answer.body));
  };
}

/** A line in the log about an answer that says so; what was the caller's mistake needs none. */
export function noteFailure(log: Log, { status, code }: ErrorAnswer, fields: Readonly<Record<string, unknown>>): void {
  if (status < 500) return;
  const say = code === 'internal_error' ? log.error : log.warn;
  say('A request failed', { ...fields, code });
}

/** The connection ended within the body: nobody reads the answer, and it is no failure of ours. */
function hasLeft({ raw }: FastifyRequest): boolean {
  return raw.destroyed && !raw.complete;
}

/** The framework's own refusals; null for anything else. */
export function fromFramework(error: unknown): RequestError | null {
  if (!(error instanceof Error) || !('code' in error)) return null;
  const { code } = error as FastifyError;
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new RequestError('payload_too_large', 'The body is larger than this endpoint takes');
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_EMPTY_TYPE':
      return new RequestError('unsupported_media_type', 'The body must be application/json');
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new RequestError('invalid_json', 'body: does not have the length that was told');
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_ASYNC_CONSTRAINT':
      return new RequestError('not_found', 'No such resource');
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new RequestError('not_found', 'No such resource');
    default:
      return null;
  }
}
