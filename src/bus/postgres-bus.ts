/**
 * The bus over LISTEN and NOTIFY: one connection listens, another one speaks, neither ever inside a transaction of the
 * engine (a queued NOTIFY takes a lock that serialises commits). A connection that is open is no proof that messages
 * arrive, so the bus writes itself a note now and then; without an echo it counts as degraded, polls take over, and the
 * connection is replaced.
 */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import type { Bus, BusTopic, Log, Meter } from '../../actors/ports.ts';
import type { JsonMap } from '../../machines/json.ts';
import { createPipeline } from '../store/pipeline.ts';
import { sessionConfig } from '../store/session.ts';
import { createListeners } from './listeners.ts';
import { decodeMessage, encodeHints, family, stamped } from './message.ts';
import { createOutbox } from './outbox.ts';

export interface PostgresBusOptions {
  /** For NOTIFY; may lead through a transaction pooler. */
  readonly url: string;
  /** For LISTEN; must not. */
  readonly listenUrl: string;
  readonly coalesceMs: number;
  /** Where workers send their calls. */
  readonly serverUrl: () => string;
  readonly log: Log;
  readonly meter: Meter;
  /** Time between notes to itself; 15 s. */
  readonly echoEveryMs?: number;
  /** How long an echo may take; 2 s. */
  readonly echoWithinMs?: number;
}

const CHANNEL = 'callboard';
const ECHO = 'echo:';
const RETRY_FIRST_MS = 100;
const RETRY_LAST_MS = 5_000;

/** Connects in the background; `state()` is `degraded` until the first echo. */
export function createPostgresBus(options: PostgresBusOptions): Bus {
  const { log, meter, echoEveryMs = 15_000, echoWithinMs = 2_000 } = options;
  const listeners = createListeners(log);
  const speaker = createPipeline(options.url, 'notify', log);
  const outbox = createOutbox(options.coalesceMs, send, (count) => drop('full', count));
  let state: 'ok' | 'degraded' | 'down' = 'degraded';
  let client: pg.Client | null = null;
  let timer: NodeJS.Timeout | null = null;
  let failures = 0;
  let echo: { readonly nonce: string; readonly sentAt: number } | null = null;

  connect();

  function connect(): void {
    const mine = new pg.Client({ ...sessionConfig(options.listenUrl, 'listen'), connectionTimeoutMillis: 5_000 });
    client = mine;
    echo = null;
    const replace = (reason: string) => {
      if (client === mine) retry(reason);
    };
    mine.on('error', () => replace('The connection of the bus broke'));
    mine.on('end', () => replace('The connection of the bus ended'));
    mine.on('notification', (message) => {
      if (client === mine) receive(message.payload ?? '');
    });
    mine
      .connect()
      .then(() => mine.query(`listen ${CHANNEL}`))
      .then(
        () => client === mine && testItself(),
        () => replace('The bus cannot connect'),
      );
  }

  /** Lets go of the connection and makes another after a pause that grows. */
  function retry(reason: string): void {
    const old = client;
    client = null;
    old?.end().catch(() => {});
    if (state === 'down') return;
    become('degraded', reason);
    const pause = Math.min(RETRY_LAST_MS, RETRY_FIRST_MS * 2 ** Math.min(failures, 10)) * (0.5 + Math.random());
    failures += 1;
    schedule(connect, pause);
  }

  function testItself(): void {
    echo = { nonce: randomUUID(), sentAt: performance.now() };
    notify([`${ECHO}${echo.nonce}`]);
    schedule(() => retry('The bus does not hear itself'), echoWithinMs);
  }

  function receive(payload: string): void {
    if (payload.startsWith(ECHO)) {
      if (echo === null || payload !== ECHO + echo.nonce) return;
      meter.observe('svc_bus_echo_seconds', (performance.now() - echo.sentAt) / 1000);
      echo = null;
      failures = 0;
      become('ok', 'The bus hears itself');
      schedule(testItself, echoEveryMs);
      return;
    }
    const message = decodeMessage(payload);
    if (message === null) {
      drop('malformed', 1);
      return;
    }
    meter.count('svc_bus_received_total', { topic: family(message.topic) });
    listeners.deliver(message.topic, message.hints);
  }

  function send(waiting: ReadonlyMap<BusTopic, readonly JsonMap[]>): void {
    const texts: string[] = [];
    for (const [topic, hints] of waiting) {
      const encoded = encodeHints(topic, hints);
      if (encoded.dropped > 0) drop('oversized', encoded.dropped);
      texts.push(...encoded.texts);
      meter.count('svc_bus_published_total', { topic: family(topic) }, encoded.texts.length);
    }
    notify(texts);
  }

  function notify(texts: readonly string[]): void {
    const statements = texts.map((text) => ({
      name: 'notify',
      text: 'select pg_notify($1, $2)',
      values: [CHANNEL, text],
    }));
    speaker.send(statements).catch(() => drop('unavailable', texts.length));
  }

  function drop(reason: string, count: number): void {
    meter.count('svc_bus_dropped_total', { reason }, count);
  }

  function become(next: 'ok' | 'degraded', because: string): void {
    if (state === next) return;
    state = next;
    if (next === 'ok') log.info(because);
    else log.warn(because);
  }

  function schedule(work: () => void, ms: number): void {
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(work, ms);
    timer.unref();
  }

  return {
    publish: (topic, hints) => {
      if (state !== 'down') outbox.add(topic, stamped(topic, hints, options.serverUrl(), new Date()));
    },
    subscribe: listeners.add,
    state: () => state,
    async close() {
      if (state === 'down') return;
      outbox.flush();
      state = 'down';
      if (timer !== null) clearTimeout(timer);
      const last = client;
      client = null;
      listeners.clear();
      await Promise.all([last?.end().catch(() => {}), speaker.close()]);
    },
  };
}
