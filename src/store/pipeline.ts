/**
 * One connection on which many statements may be under way: they leave in one write and are answered in order, so
 * eight of them cost one round trip. Statements sent together stay together. `transact` makes them one transaction;
 * otherwise each stands for itself, and after a failure the rest still runs.
 *
 * A broken connection fails what was under way and is replaced by the next use.
 */
import { Socket } from 'node:net';
import pg from 'pg';
import type { Log, Meter } from '../../actors/ports.ts';
import { UnavailableError } from '../../actors/ports.ts';
import { despiteConflicts } from './conflict.ts';
import { countFailure, refined } from './failure.ts';
import { PINNED_PLANS, sessionConfig } from './session.ts';
import { type Prepared, type Statement, Transaction } from './transaction.ts';

export type { Statement } from './transaction.ts';

export interface Pipeline {
  /** Sends all in one write; the answers in order. Throws the first failure when all have been answered. */
  send(statements: readonly Statement[]): Promise<readonly pg.QueryResult[]>;
  /**
   * All of them or none, resolved when they are committed. `onAnswer` is called for each statement that has been done,
   * as soon as it is when `timed`, otherwise before the end is told. Throws what the database refused, or
   * UnavailableError: then the outcome is not known.
   */
  transact(
    statements: readonly Statement[],
    onAnswer: (index: number) => void,
    options?: { readonly timed?: boolean },
  ): Promise<void>;
  close(): Promise<void>;
}

const CONNECT_WITHIN_MS = 5_000;
/** Beyond the statement time-out of the server: then the network is gone, not the server slow. */
const ANSWER_WITHIN_MS = 40_000;

interface Session {
  readonly client: pg.Client;
  readonly socket: Socket;
  readonly prepared: Prepared;
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
    const opened: Session = { client, socket, prepared: { names: new Set(), doubtful: new Set() } };
    // Fails on a schema that is not migrated yet, and then only costs the head start.
    if (rehearsal.length > 0) await transacted(opened, rehearsal, () => {}, false).catch(() => {});
    return opened;
  }

  async function answered<T>(socket: Socket, answers: () => Promise<T>): Promise<T> {
    const timer = setTimeout(() => socket.destroy(), ANSWER_WITHIN_MS);
    try {
      socket.cork();
      const pending = answers();
      socket.uncork();
      return await pending;
    } finally {
      clearTimeout(timer);
    }
  }

  function transacted(
    { client, socket, prepared }: Session,
    statements: readonly Statement[],
    onAnswer: (index: number) => void,
    timed: boolean,
  ): Promise<void> {
    return answered(
      socket,
      () =>
        new Promise((resolve, reject) => {
          const done = (error: Error | null) => (error === null ? resolve() : reject(error));
          client.query(new Transaction(statements, prepared, { timed, onAnswer }, done));
        }),
    );
  }

  function failed(error: unknown): unknown {
    countFailure(meter, error);
    return refined(error);
  }

  async function sent(statements: readonly Statement[]): Promise<readonly pg.QueryResult[]> {
    const { client, socket } = await current();
    const settled = await answered(socket, () =>
      Promise.allSettled(statements.map(({ name, text, values }) => client.query({ name, text, values: [...values] }))),
    );
    const results: pg.QueryResult[] = [];
    for (const answer of settled) {
      if (answer.status === 'rejected') throw failed(answer.reason);
      results.push(answer.value);
    }
    return results;
  }

  return {
    send: (statements) => despiteConflicts(() => sent(statements)),
    transact: (statements, onAnswer, { timed = false } = {}) =>
      despiteConflicts(async () => {
        const session = await current();
        await transacted(session, statements, onAnswer, timed).catch((error: unknown) => {
          throw failed(error);
        });
      }),
    async close() {
      closed = true;
      const open = await session?.catch(() => null);
      await open?.client.end();
    },
  };
}
