/**
 * A way to PostgreSQL on which the answer to one commit is stolen: the database has done what it was told, the connection
 * breaks, and whoever waited for the answer will never know.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';

export interface ReplyThief {
  readonly port: number;
  /** Answers to commits stolen so far. */
  readonly stolen: number;
  /** From now on until it has stolen one; every write of the service counts, also those it makes by itself. */
  lieInWait(): void;
  giveUp(): void;
  close(): Promise<void>;
}

/** Something was written: tags of statements, in the bytes of the protocol. */
const WROTE = /C\0\0\0[^\0](?:INSERT 0 [1-9]|UPDATE [1-9]|DELETE [1-9]|COMMIT)/;
/** And it is committed: the answer ends with "ready for the next statement, and in no transaction". */
const COMMITTED = 'Z\0\0\0\u0005I';

/** `target` is a port of 127.0.0.1 or the path of a socket. */
export async function startReplyThief(
  target: { readonly port: number } | { readonly path: string },
): Promise<ReplyThief> {
  const sockets = new Set<Socket>();
  let isWaiting = false;
  let stolen = 0;
  const server = createServer((client) => {
    const upstream = dial(target);
    const cut = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket.setNoDelay(true));
      socket.on('error', cut).on('close', () => {
        sockets.delete(socket);
        cut();
      });
    }
    // Tags of a transaction of several round trips come before its end.
    let wrote = false;
    client.on('data', (chunk) => upstream.write(chunk));
    upstream.on('data', (chunk) => {
      const bytes = chunk.toString('latin1');
      wrote ||= WROTE.test(bytes);
      if (bytes.endsWith(COMMITTED)) {
        if (isWaiting && wrote) {
          isWaiting = false;
          stolen += 1;
          client.resetAndDestroy();
          return;
        }
        wrote = false;
      }
      client.write(chunk);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A TCP server that listens has an address with a port.
  const { port } = server.address() as AddressInfo;
  return {
    port,
    get stolen() {
      return stolen;
    },
    lieInWait() {
      isWaiting = true;
    },
    giveUp() {
      isWaiting = false;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Where a database lies, and its address through something that listens on `port`. */
export function reroute(url: string): {
  readonly target: { readonly port: number } | { readonly path: string };
  through(port: number): string;
} {
  const parsed = new URL(url.replace('@/', '@socket/'));
  const folder = parsed.searchParams.get('host');
  const port = parsed.searchParams.get('port') ?? (parsed.port === '' ? '5432' : parsed.port);
  return {
    target: folder === null ? { port: Number(port) } : { path: `${folder}/.s.PGSQL.${port}` },
    through: (other) => `postgres://${parsed.username}:${parsed.password}@127.0.0.1:${other}${parsed.pathname}`,
  };
}
