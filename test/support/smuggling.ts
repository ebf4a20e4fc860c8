/** Requests whose end two readers could see in two places (HT-05), each with a second one hidden behind that. */
export const SMUGGLED = '/api/smuggled';

/** `head` are lines that the reader wants besides, each with its end. */
export function ambiguousRequests(head: string): readonly (readonly [name: string, bytes: string])[] {
  const smuggled = `GET ${SMUGGLED} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  const post = `POST /api/execute HTTP/1.1\r\n${head}`;
  return [
    ['a length and chunks', `${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ['two lengths', `${post}Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}${smuggled}`],
    ['a list of lengths', `${post}Content-Length: 2, 60\r\n\r\n{}${smuggled}`],
    ['a signed length', `${post}Content-Length: +2\r\n\r\n{}${smuggled}`],
    ['a folded header', `${post}X-A: a\r\n b\r\nContent-Length: 2\r\n\r\n{}${smuggled}`],
    ['a bare line feed', `${post.replaceAll('\r\n', '\n')}Content-Length: 2\n\n{}${smuggled}`],
    ['a bare carriage return', `${post}X-A: a\rContent-Length: 60\r\n\r\n${smuggled}`],
    ['chunks under another name', `${post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ['a space before the colon', `${post}Content-Length : 60\r\n\r\n{}${smuggled}`],
    ['a chunk with a wrong size', `${post}Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n${smuggled}`],
  ];
}
