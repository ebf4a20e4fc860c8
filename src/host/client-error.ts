/** Answers for what is no request at all: broken HTTP, a block of headers too large, a peer too slow (api 1.9). */
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { ErrorOptions } from '../errors.ts';
import { answerOf, RequestError } from '../errors.ts';

/** Node's `clientError`. The connection cannot be used any further. */
export function createClientErrorHandler(nextRequestId: () => string, options: ErrorOptions) {
  return (error: Error & { readonly code?: string }, socket: Socket): void => {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    const requestId = nextRequestId();
    const answer = answerOf(refusalOf(error.code), requestId, options);
    const body = JSON.stringify(answer.body);
    socket.end(
      [
        `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ''}`,
        'Content-Type: application/json; charset=utf-8',
        `Content-Length: ${Buffer.byteLength(body)}`,
        `X-Request-Id: ${requestId}`,
        'X-Content-Type-Options: nosniff',
        'Cache-Control: no-store',
        'Referrer-Policy: no-referrer',
        'Connection: close',
        '',
        body,
      ].join('\r\n'),
    );
  };
}

function refusalOf(code: string | undefined): RequestError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new RequestError('request_timeout', 'The request took too long to arrive');
    case 'HPE_HEADER_OVERFLOW':
      return new RequestError('payload_too_large', 'The headers are larger than 16384 bytes');
    default:
      return new RequestError('validation_error', 'This is not a valid HTTP request');
  }
}
