/** Stands between a server and PostgreSQL and writes down what each connection asks for when it begins. */
import { once } from 'node:events';
import { createServer, connect as dial, type Socket } from 'node:net';

export interface StartupRecorder extends AsyncDisposable {
  /** The same database, reached through here. */
  readonly url: string;
  /** The parameters of every connection so far: `user`, `application_name`, `options` … */
  readonly startups: readonly ReadonlyMap<string, string>[];
}

export async function recordStartups(databaseUrl: string): Promise<StartupRecorder> {
  const target = new URL(databaseUrl.replace('@/', '@socket/'));
  const folder = target.searchParams.get('host');
  const port = Number(target.searchParams.get('port') || target.port || 5432);
  const startups: ReadonlyMap<string, string>[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream =
      folder === null ? dial({ host: target.hostname, port }) : dial({ path: `${folder}/.s.PGSQL.${port}` });
    client.once('data', (first: Buffer) => startups.push(parametersOf(first)));
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  const through = new URL(target);
  through.hostname = '127.0.0.1';
  through.port = String(address.port);
  through.searchParams.delete('host');
  through.searchParams.delete('port');
  return {
    url: through.href,
    startups,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** StartupMessage: length, protocol version, then names and values, each ended by a zero byte. */
function parametersOf(message: Buffer): ReadonlyMap<string, string> {
  const texts = message.subarray(8, message.readInt32BE(0)).toString('utf8').split('\0');
  const found = new Map<string, string>();
  for (let at = 0; at + 1 < texts.length && texts[at] !== ''; at += 2) found.set(texts[at] ?? '', texts[at + 1] ?? '');
  return found;
}
