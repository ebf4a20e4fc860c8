/**
 * The event streams of clients (api 2.19, `GET /events`): JSON-RPC notices to whoever holds a session. A stream belongs to
 * a client of a session; it ends when the session does, when a newer stream of the same client comes, and when its
 * reader is too slow. Counted by user, so that no user takes the room of others.
 */
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { Misfits, Refusal } from './refusal.ts';
import type { Session, Sessions } from './session.ts';

export interface Notice {
  readonly method: 'playbook/state' | 'playbook/progress' | 'playbook/result' | 'ping';
  readonly params: object;
}

export interface EventHub {
  /** Takes over the reply. Throws Refusal when there are too many, or the client id is somebody else's. */
  open(
    clientId: string | null,
    session: Session,
    response: ServerResponse,
    headers: Readonly<Record<string, string>>,
  ): void;
  /** To one client; false: it is not connected here. */
  toClient(clientId: string, notice: Notice): boolean;
  /** To every stream of a session; false: it has none. */
  toSession(key: string, notice: Notice): boolean;
  hasStreams(key: string): boolean;
  /** Asks again about every session that has streams here. */
  recheck(): Promise<void>;
  /** Runs `listener` with the key of a session when its first stream begins and when its last one has ended. */
  onSession(listener: (key: string, isListening: boolean) => void): void;
  close(): void;
}

const OPEN_MAX = 10_000;
const OPEN_PER_USER_MAX = 64;
const PING_MS = 15_000;
const LINGER_MS = 5_000;
const UNREAD_BYTES_MAX = 1_048_576;
const CLIENT_ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

interface Stream {
  readonly clientId: string;
  readonly session: Session;
  send(message: object): void;
  end(): void;
}

/** What streams of one session have in common. */
export function sessionKey({ token, user }: Pick<Session, 'token' | 'user'>): string {
  return token ?? `user ${user.userId}`;
}

export function createEventHub(sessions: Pick<Sessions, 'byToken'>): EventHub {
  const byClient = new Map<string, Stream>();
  const bySession = new Map<string, Set<Stream>>();
  const perUser = new Map<string, number>();
  const listeners: ((key: string, isListening: boolean) => void)[] = [];

  const pinging = setInterval(() => {
    const params = { timestamp: new Date().toISOString() };
    for (const stream of byClient.values()) stream.send({ jsonrpc: '2.0', method: 'ping', params });
    void recheck();
  }, PING_MS);
  pinging.unref();

  async function recheck(): Promise<void> {
    for (const streams of [...bySession.values()]) {
      const [first] = streams;
      const token = first?.session.token ?? null;
      if (token === null) continue;
      // Where the server cannot be asked the streams stay; the next look decides.
      const isAlive = await sessions.byToken(token).then(
        (session) => session !== null,
        () => true,
      );
      if (!isAlive) for (const stream of [...streams]) stream.end();
    }
  }

  function add(stream: Stream): void {
    const key = sessionKey(stream.session);
    const { userId } = stream.session.user;
    byClient.set(stream.clientId, stream);
    bySession.set(key, (bySession.get(key) ?? new Set()).add(stream));
    perUser.set(userId, (perUser.get(userId) ?? 0) + 1);
  }

  function remove(stream: Stream): void {
    const key = sessionKey(stream.session);
    const streams = bySession.get(key);
    if (streams?.delete(stream) !== true) return;
    if (byClient.get(stream.clientId) === stream) byClient.delete(stream.clientId);
    const { userId } = stream.session.user;
    const left = (perUser.get(userId) ?? 1) - 1;
    if (left > 0) perUser.set(userId, left);
    else perUser.delete(userId);
    if (streams.size > 0) return;
    bySession.delete(key);
    for (const listener of listeners) listener(key, false);
  }

  return {
    open(wanted, session, response, headers) {
      if (wanted !== null && !CLIENT_ID.test(wanted)) {
        throw new Misfits(['client_id: must be letters, digits and . _ : - (at most 128)']);
      }
      const clientId = wanted ?? randomUUID();
      const before = byClient.get(clientId);
      if (before !== undefined && before.session.user.userId !== session.user.userId) {
        throw new Refusal('forbidden', 'This client_id is in use');
      }
      before?.end();
      if (byClient.size >= OPEN_MAX || (perUser.get(session.user.userId) ?? 0) >= OPEN_PER_USER_MAX) {
        throw new Refusal('pool_saturated', 'Too many open streams');
      }
      const stream = takeOver(clientId, session, response, headers);
      add(stream);
      response.once('close', () => remove(stream));
      const serverInfo = { name: 'callboard' };
      stream.send({ jsonrpc: '2.0', result: { protocolVersion: '1', serverInfo, clientId, capabilities: {} } });
      const key = sessionKey(session);
      if (bySession.get(key)?.size === 1) for (const listener of listeners) listener(key, true);
    },
    toClient(clientId, notice) {
      const stream = byClient.get(clientId);
      stream?.send({ jsonrpc: '2.0', ...notice });
      return stream !== undefined;
    },
    toSession(key, notice) {
      const streams = bySession.get(key);
      for (const stream of streams ?? []) stream.send({ jsonrpc: '2.0', ...notice });
      return streams !== undefined;
    },
    hasStreams: (key) => bySession.has(key),
    recheck,
    onSession: (listener) => listeners.push(listener),
    close() {
      clearInterval(pinging);
      for (const stream of [...byClient.values()]) stream.end();
    },
  };
}

function takeOver(
  clientId: string,
  session: Session,
  response: ServerResponse,
  headers: Readonly<Record<string, string>>,
): Stream {
  response.writeHead(200, {
    ...headers,
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  });
  response.socket?.setNoDelay(true);
  response.on('error', () => response.destroy());
  response.write('retry: 2000\n\n');
  return {
    clientId,
    session,
    send(message) {
      if (response.destroyed || response.writableEnded) return;
      response.write(`data: ${JSON.stringify(message)}\n\n`);
      if (response.writableLength > UNREAD_BYTES_MAX) response.destroy();
    },
    end() {
      response.end();
      // A client that does not read would keep the connection for ever.
      setTimeout(() => response.destroy(), LINGER_MS).unref();
    },
  };
}
