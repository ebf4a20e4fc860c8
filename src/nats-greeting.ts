/**
 * Whether a NATS server is there at all: it greets whoever connects. The client of NATS never lets go of a socket on which no
 * greeting came, and a server that hangs would collect one with each try and keep the process from ending; so nothing that is
 * silent is given to it.
 */
import { connect as dial } from 'node:net';

/** It took the connection and said nothing. */
export class NatsSilent extends Error {
  readonly code = 'ETIMEDOUT';
}

/** Resolves when the server greets. Rejects with what the network says, or NatsSilent. */
export function awaitGreeting(host: string, port: number, withinMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = dial({ host: host.replace(/^\[|\]$/g, ''), port });
    const stop = (): void => end(new Error('stopped', { cause: signal?.reason }));
    const timer = setTimeout(() => end(new NatsSilent(`${host} says nothing`)), withinMs);
    const end = (error: Error | null): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
      socket.destroy();
      if (error === null) resolve();
      else reject(error);
    };
    socket.on('error', end);
    socket.once('close', () => end(new Error(`${host} ends the connection`)));
    socket.once('data', () => end(null));
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
    timer.unref();
    socket.unref();
  });
}
