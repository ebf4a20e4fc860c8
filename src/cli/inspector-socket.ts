/**
 * The connection to an inspector: a WebSocket client that sends text frames and does not run ahead of a slow reader. Which
 * end of the line is gone, and what to do about it, is in the message of the error.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Unavailable } from './command.ts';

/** Bytes that may wait in this process. */
const WAITING_MAX = 1_048_576;
const OPEN_WITHIN_MS = 10_000;
const LOOK_MS = 10;
const CLOSE_WITHIN_MS = 2_000;

export interface InspectorSocket {
  /** Resolves when there is room for more. Throws Unavailable when the inspector has gone. */
  send(message: unknown): Promise<void>;
  /** Resolves when everything has been sent. */
  close(): Promise<void>;
}

/** Throws Unavailable when nobody answers at that address. */
export async function openInspector(url: string): Promise<InspectorSocket> {
  const socket = new WebSocket(url);
  const gone = (what: string) =>
    new Unavailable(
      `${what} at ${url}; start one with createInspectorServer() of @statelyai/inspect/server, or name another with --to`,
    );
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(gone('no inspector answers'));
      socket.close();
    }, OPEN_WITHIN_MS);
    const settle = (end: () => void) => () => {
      clearTimeout(timer);
      end();
    };
    socket.addEventListener('open', settle(resolve), { once: true });
    const refused = settle(() => reject(gone('no inspector answers')));
    socket.addEventListener('error', refused, { once: true });
    socket.addEventListener('close', refused, { once: true });
  });
  const isOpen = () => socket.readyState === WebSocket.OPEN;
  const drained = async (most: number, signal?: AbortSignal): Promise<void> => {
    while (isOpen() && socket.bufferedAmount > most && signal?.aborted !== true) await pause(LOOK_MS);
  };
  return {
    async send(message) {
      await drained(WAITING_MAX);
      if (!isOpen()) throw gone('the inspector has closed the connection');
      socket.send(JSON.stringify(message));
    },
    async close() {
      await drained(0, AbortSignal.timeout(CLOSE_WITHIN_MS));
      const closed = new Promise<void>((resolve) => {
        if (socket.readyState === WebSocket.CLOSED) resolve();
        else socket.addEventListener('close', () => resolve(), { once: true });
      });
      socket.close(1000);
      await Promise.race([closed, pause(CLOSE_WITHIN_MS, undefined, { ref: false })]);
    },
  };
}
