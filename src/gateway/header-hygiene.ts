/**
 * Headers that cross the gateway (api 8.8.4). What says who the caller is, or how the connection works, ends here; the
 * gateway says it anew. The same holds for answers: cookies and CORS are the gateway's business alone.
 */
import type { IncomingHttpHeaders } from 'node:http';

const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
];
const ENDS_HERE = new Set([
  ...HOP_BY_HOP,
  'host',
  'expect',
  'authorization',
  'cookie',
  'x-session-token',
  'x-csrf-token',
  'x-request-id',
  'x-real-ip',
  'forwarded',
  'via',
  'origin',
  'referer',
]);
const ENDS_HERE_TOO = /^(x-forwarded|x-user|x-callboard|x-original|x-rewrite|x-http-method|sec-|access-control-)|_/;

export interface Caller {
  /** Sent as a bearer token; null: none. */
  readonly token: string | null;
  /** Beside the internal token, says who it is; null: nobody but the bearer. */
  readonly sessionToken?: string | null;
  readonly subject: string;
  readonly address: string;
  readonly requestId: string;
}

/** What the server gets. */
export function requestHeaders(given: IncomingHttpHeaders, caller: Caller): Record<string, string> {
  const kept = keep(given, (name) => !ENDS_HERE.has(name) && !ENDS_HERE_TOO.test(name));
  const headers = Object.fromEntries(Object.entries(kept).map(([name, value]) => [name, String(value)]));
  if (caller.token !== null) headers['authorization'] = `Bearer ${caller.token}`;
  if (caller.sessionToken != null) headers['x-session-token'] = caller.sessionToken;
  headers['x-forwarded-for'] = caller.address;
  headers['x-request-id'] = caller.requestId;
  // A header holds visible ASCII only; a subject may hold anything.
  headers['x-callboard-user'] = encodeURIComponent(caller.subject);
  return headers;
}

const NOT_THE_SERVERS = new Set([...HOP_BY_HOP, 'set-cookie', 'set-cookie2', 'x-request-id', 'vary', 'date', 'server']);

/** What the browser gets of the server's headers. */
export function responseHeaders(given: IncomingHttpHeaders): Record<string, string | string[]> {
  return keep(given, (name) => !NOT_THE_SERVERS.has(name) && !name.startsWith('access-control-'));
}

function keep(given: IncomingHttpHeaders, wanted: (name: string) => boolean): Record<string, string | string[]> {
  const listed = new Set(
    String(given.connection ?? '')
      .toLowerCase()
      .split(',')
      .map((name) => name.trim()),
  );
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(given)) {
    // The length is needed for the framing of the body, whatever the connection header says.
    const isListed = listed.has(name) && name !== 'content-length';
    if (value !== undefined && !isListed && wanted(name)) kept[name] = value;
  }
  return kept;
}
