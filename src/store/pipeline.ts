/**
 * One connection on which many statements may be under way: they leave in one write and are answered in order, so a
 * transaction of eight statements costs one round trip. Statements sent together stay together. After an error the
 * rest still runs inside the aborted transaction; the sender sees that from the first rejection.
 *
 * A broken connection fails what was under way and is replaced by the next use.
 */
import { Socket } from 'node:net';
import pg from 'pg';
import type { Log, Meter } from '../../actors/ports.ts';
import { UnavailableError } from '../../actors/ports.ts';
import { countFailure, refined } from './failure.ts';
import { PINNED_PLANS, sessionConfig } from './session.ts';

export interface Statement {
  /** Name of the prepared statement; one name, one text. */
  readonly name: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

export interface Pipeline {
  /**
   * Sends all in one write; the answers in order. Throws the first failure when all have been answered. `onAnswer` is
   * called for each good answer as it comes.
   */
  send(statements: readonly Statement[], onAnswer?: (index: number) => void): Promise<readonly pg.QueryResult[]>;
  close(): Promise<void>;
}

const CONNECT_WITHIN_MS = 5_000;
/** Beyond the statement time-out of the server: then the network is gone, not the server slow. */
const ANSWER_WITHIN_MS = 40_000;

interface Session {
  readonly client: pg.Client;
  readonly socket: Socket;
}

/** `rehearsal` is run once on each new connection, so that its statements are parsed and planned before they count. */
export function createPipeline(
  url: string,
  part: string,
  log: Log,
  rehearsal: readonly Statement[] = [],
  meter?: Meter,
): Pipeline {
  let session: Promise<Session> | null = null;
  let closed = false;

  function current(): Promise<Session> {
    if (closed) return Promise.reject(new UnavailableError());
    session ??= opened();
    return session;
  }

  function opened(): Promise<Session> {
    // A connection that breaks late must not take away the one that has replaced it.
    const forget = () => {
      if (session === own) session = null;
    };
    const own: Promise<Session> = open(forget).catch((error: unknown) => {
      forget();
      throw refined(error);
    });
    return own;
  }

  async function open(forget: () => void): Promise<Session> {
    const socket = new Socket();
    const client = new pg.Client({
      ...sessionConfig(url, part, PINNED_PLANS),
      connectionTimeoutMillis: CONNECT_WITHIN_MS,
      pipeline: true,
      stream: () => socket,
    });
    // The client takes no more statements from here on, though the end of the connection may not have been read yet.
    client.on('error', (error) => {
      log.warn('A database connection broke', { part, error });
      forget();
      socket.destroy();
    });
    client.once('end', forget);
    await client.connect();
    // Fails on a schema that is not migrated yet, and then only costs the head start.
    await Promise.allSettled(
      rehearsal.map(({ name, text, values }) => client.query({ name, text, values: [...values] })),
    );
    return { client, socket };
  }

  return {
    async send(statements, onAnswer) {
      const { client, socket } = await current();
      const timer = setTimeout(() => socket.destroy(), ANSWER_WITHIN_MS);
      socket.cork();
      const answers = statements.map(({ name, text, values }) => client.query({ name, text, values: [...values] }));
      socket.uncork();
      if (onAnswer !== undefined) {
        answers.forEach((answer, index) => {
          answer.then(
            () => onAnswer(index),
            () => {},
          );
        });
      }
      const settled = await Promise.allSettled(answers);
      clearTimeout(timer);
      const results: pg.QueryResult[] = [];
      for (const answer of settled) {
        if (answer.status === 'rejected') {
          countFailure(meter, answer.reason);
          throw refined(answer.reason);
        }
        results.push(answer.value);
      }
      return results;
    },
    async close() {
      closed = true;
      const open = await session?.catch(() => null);
      await open?.client.end();
    },
  };
}
