/** A TCP proxy that can break what passes: drop answers, cut connections, refuse new ones. */

import { once } from 'node:events';
import { createServer, connect as dial, type Socket } from 'node:net';

export interface TcpProxy {
  readonly port: number;
  /** Answers of the server from now on go nowhere. */
  dropAnswers(): void;
  /** Cuts every connection and lets answers through again. */
  cut(): void;
  close(): Promise<void>;
}

/** `target` is a port of 127.0.0.1 or the path of a socket. */
export async function startTcpProxy(target: { port: number } | { path: string }): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let dropping = false;
  const server = createServer((client) => {
    const upstream = dial(target);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', (chunk) => upstream.write(chunk));
    upstream.on('data', (chunk) => {
      if (!dropping) client.write(chunk);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  const cut = () => {
    for (const socket of sockets) socket.destroy();
    dropping = false;
  };
  return {
    port: address.port,
    dropAnswers() {
      dropping = true;
    },
    cut,
    async close() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
