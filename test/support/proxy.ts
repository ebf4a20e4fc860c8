/**
 * A TCP proxy that breaks what passes, to put between server and database or worker and server. `forward and drop the
 * answer` is the cruel one: the other side did what was asked, and nobody will ever know.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';

/**
 * pass: everything goes through. drop: requests arrive, answers vanish, and the connection is reset a moment later.
 * stall: nothing moves in either direction, connections stay open. halfOpen: requests vanish, answers pass, nobody is told.
 * reset: connections are cut, new ones too.
 */
export type Fault = 'pass' | 'drop' | 'stall' | 'halfOpen' | 'reset';

export interface FaultyProxy {
  readonly port: number;
  /** Connections made so far. */
  readonly accepted: number;
  /** Bytes of answers that were swallowed. */
  readonly swallowed: number;
  /** From now on, for open connections too. Going back to `pass` cuts what was tampered with. */
  set(fault: Fault): void;
  close(): Promise<void>;
}

/** How long a caller of a dropped answer hears nothing before the reset. */
const RESET_AFTER_MS = 50;

/** `target` is a port of 127.0.0.1 or the path of a socket. */
export async function startProxy(target: { readonly port: number } | { readonly path: string }): Promise<FaultyProxy> {
  const links = new Set<Link>();
  let fault: Fault = 'pass';
  let accepted = 0;
  let swallowed = 0;
  const server = createServer((client) => {
    accepted += 1;
    const link: Link = { client, upstream: dial(target), isTampered: false };
    links.add(link);
    const cut = (): void => {
      links.delete(link);
      client.destroy();
      link.upstream.destroy();
    };
    for (const socket of [client, link.upstream]) socket.setNoDelay(true).on('error', cut).on('close', cut);
    if (fault === 'reset') {
      client.resetAndDestroy();
      return;
    }
    if (fault === 'stall') pauseLink(link);
    client.on('data', (chunk) => {
      if (fault === 'halfOpen') link.isTampered = true;
      else link.upstream.write(chunk);
    });
    link.upstream.on('data', (chunk) => {
      if (fault !== 'drop') {
        client.write(chunk);
        return;
      }
      swallowed += chunk.length;
      if (!link.isTampered) setTimeout(() => client.resetAndDestroy(), RESET_AFTER_MS);
      link.isTampered = true;
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A TCP server that listens has an address with a port.
  const { port } = server.address() as AddressInfo;
  return {
    port,
    get accepted() {
      return accepted;
    },
    get swallowed() {
      return swallowed;
    },
    set(next) {
      fault = next;
      for (const link of links) {
        if (next === 'reset' || (next === 'pass' && link.isTampered)) link.client.resetAndDestroy();
        else if (next === 'stall') pauseLink(link);
        else for (const socket of [link.client, link.upstream]) socket.resume();
      }
    },
    async close() {
      for (const { client, upstream } of links) {
        client.destroy();
        upstream.destroy();
      }
      server.close();
      await once(server, 'close');
    },
  };
}

interface Link {
  readonly client: Socket;
  readonly upstream: Socket;
  /** Something of it was swallowed, so its two ends do not agree any more. */
  isTampered: boolean;
}

function pauseLink({ client, upstream }: Link): void {
  client.pause();
  upstream.pause();
}
