/**
 * The line on which the server tells that a session has ended somewhere (api 2.19). It is opened at the start and again
 * whenever it ends; whoever asks is told whether it is open, because only then may an answer be believed for long.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Log } from '../log.ts';
import { createSseReader } from './sse.ts';

export interface Changes {
  /** Whether the server would tell. */
  isHeard(): boolean;
  /** Runs `listener` when something has ended, and when it can no longer be told. */
  onChange(listener: () => void): void;
  close(): Promise<void>;
}

const PATH = '/api/internal/sessions/changes';
/** The server says something at least each 15 s. */
const SILENCE_MAX_MS = 20_000;
const RETRY_FIRST_MS = 200;
const RETRY_LAST_MS = 5_000;
const FRAME_MAX = 4_096;

export function followChanges(serverUrl: string, internalToken: string, log: Log): Changes {
  const base = new URL(serverUrl);
  const pool = new Pool(base.origin, { connections: 1, bodyTimeout: SILENCE_MAX_MS, headersTimeout: 5_000 });
  const listeners: (() => void)[] = [];
  const closing = new AbortController();
  let isOpen = false;

  async function listen(): Promise<void> {
    const answer = await pool.request({
      method: 'GET',
      path: `${base.pathname.replace(/\/$/, '')}${PATH}`,
      headers: { authorization: `Bearer ${internalToken}`, accept: 'text/event-stream' },
      signal: closing.signal,
    });
    const isStream = String(answer.headers['content-type'] ?? '').startsWith('text/event-stream');
    if (answer.statusCode !== 200 || !isStream) {
      await answer.body.dump();
      throw new Error(`the server answers ${answer.statusCode}`);
    }
    const read = createSseReader(FRAME_MAX);
    for await (const chunk of answer.body.setEncoding('utf8')) {
      for (const { event } of read(String(chunk))) {
        if (event === 'listening') isOpen = true;
        if (event === 'changed') tell();
      }
    }
  }

  function tell(): void {
    for (const listener of listeners) listener();
  }

  async function keepListening(): Promise<void> {
    for (let wait = RETRY_FIRST_MS; !closing.signal.aborted; wait = Math.min(RETRY_LAST_MS, wait * 2)) {
      const error: unknown = await listen().catch((reason: unknown) => reason);
      if (isOpen) {
        isOpen = false;
        wait = RETRY_FIRST_MS;
        // What ended in between is told to nobody, so nothing from before counts any more.
        tell();
      }
      if (!closing.signal.aborted) log.debug('The server does not tell which sessions end', { error });
      await pause(wait, undefined, { signal: closing.signal }).catch(() => undefined);
    }
  }

  const done = keepListening();
  return {
    isHeard: () => isOpen,
    onChange: (listener) => listeners.push(listener),
    async close() {
      closing.abort();
      await done;
      await pool.destroy();
    },
  };
}
