/**
 * `/metrics` of a worker process (api 7.1), for loopback only: a worker has no other door, and this one tells how busy it is
 * to whoever scrapes the machine.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Metrics } from '../metrics.ts';

export interface MetricsServer {
  readonly port: number;
  close(): Promise<void>;
}

const LOOPBACK = /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?$/i;

/** Rejects when the port is taken. */
export async function serveMetrics(port: number, metrics: Metrics): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    // A page in a browser on this machine must not read it under a name of its own.
    if (!LOOPBACK.test(request.headers.host ?? '')) return void response.writeHead(421).end();
    if (request.method !== 'GET' || request.url !== '/metrics') return void response.writeHead(404).end();
    metrics.exposition().then(
      (text) => response.writeHead(200, { 'content-type': metrics.contentType, 'cache-control': 'no-store' }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  server.requestTimeout = 10_000;
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  // A TCP server's address is an object once it listens.
  const address = server.address() as AddressInfo;
  return {
    port: address.port,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
