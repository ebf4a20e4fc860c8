/** A server that tells what it was sent, in place of the API behind the gateway. */
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';

export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface FakeServer {
  readonly url: string;
  readonly seen: Seen[];
  stop(): Promise<void>;
}

/** `special` answers a request itself and returns true, or leaves it. */
export async function startFakeServer(
  special: (seen: Seen, ...rest: Parameters<RequestListener>) => boolean = () => false,
): Promise<FakeServer> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const told = { method, url, headers, body: Buffer.concat(chunks).toString('utf8') };
      seen.push(told);
      if (special(told, request, response)) return;
      response.writeHead(200, {
        'content-type': 'application/json',
        'x-total-count': '7',
        'set-cookie': 'upstream=1',
        'access-control-allow-origin': '*',
        'x-request-id': 'r-upstream-1',
      });
      response.end(JSON.stringify({ ok: true }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the server has no port');
  return {
    url: `http://127.0.0.1:${address.port}`,
    seen,
    stop() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
