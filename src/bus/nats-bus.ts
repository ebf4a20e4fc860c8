/**
 * The bus over NATS (api 5.4). Processes hear each other by plain subscriptions, which leave nothing behind; that
 * announcements of commands are also kept in a stream is for workers that subscribe. Like the one on PostgreSQL it
 * writes itself a note now and then: without an echo, or without the stream, it counts as degraded, polls take over, and the
 * connection is replaced. A connection never comes back by itself: each one starts with its subscriptions and a test.
 */
import { randomUUID } from 'node:crypto';
import type { Msg, NatsConnection } from '@nats-io/transport-node';
import type { Bus, BusTopic, Log, Meter } from '../../actors/ports.ts';
import type { JsonMap } from '../../machines/json.ts';
import { createListeners } from './listeners.ts';
import { decodeCommand, decodeMessage, encodeHints, family, MESSAGE_BYTES_MAX, stamped } from './message.ts';
import { type NatsServers, openConnection } from './nats-connection.ts';
import { commandPublisher, ensureStream, messageIdOf } from './nats-stream.ts';
import { COMMAND_SUBJECTS, EVENT_SUBJECTS, subjectOf, topicOf } from './nats-subjects.ts';
import { createOutbox } from './outbox.ts';

export interface NatsBusOptions {
  readonly servers: NatsServers;
  readonly stream: string;
  readonly coalesceMs: number;
  /** Where workers send their calls. */
  readonly serverUrl: () => string;
  readonly log: Log;
  readonly meter: Meter;
  /** Time between notes to itself; 15 s. */
  readonly echoEveryMs?: number;
  /** How long an echo may take; 2 s. */
  readonly echoWithinMs?: number;
  /** How long a server may take to let the bus in; 5 s. */
  readonly connectWithinMs?: number;
  /** Shortest and longest pause before a connection is tried again; 0.5 and 30 s. */
  readonly retryMs?: readonly [number, number];
}

/** Announcements the server has not confirmed; beyond them it does not keep up. */
const UNCONFIRMED_MAX = 10_000;
/** A stream that refuses is looked at after this. */
const LOOK_AGAIN_MS = 1_000;
const FLUSH_WITHIN_MS = 1_000;

/** Connects in the background; `state()` is `degraded` until the first echo. */
export function createNatsBus(options: NatsBusOptions): Bus {
  const { log, meter, echoEveryMs = 15_000, echoWithinMs = 2_000, retryMs = [500, 30_000] } = options;
  const listeners = createListeners(log);
  const outbox = createOutbox(options.coalesceMs, send, (count) => drop('full', count));
  const echoSubject = `svc.events.echo.${randomUUID()}`;
  let state: 'ok' | 'degraded' | 'down' = 'degraded';
  let told: 'ok' | 'degraded' | null = null;
  let connection: NatsConnection | null = null;
  let timer: NodeJS.Timeout | null = null;
  let failures = 0;
  let unconfirmed = 0;
  let streamTrouble: unknown = null;
  let echo: { readonly nonce: string; readonly sentAt: number } | null = null;

  connect();

  function connect(): void {
    openConnection(options.servers, options.connectWithinMs).then(begin, (error: unknown) =>
      retry('The bus cannot connect', error),
    );
  }

  function begin(mine: NatsConnection): void {
    if (state === 'down') {
      mine.close().catch(() => {});
      return;
    }
    connection = mine;
    mine.closed().then((error) => {
      if (connection === mine) retry('The connection of the bus ended', error);
    });
    const hear = (work: (message: Msg) => void) => ({
      callback: (error: Error | null, message: Msg) => {
        if (connection !== mine) return;
        if (error === null) work(message);
        else retry('The NATS server refuses a subscription of the bus', error);
      },
    });
    try {
      mine.subscribe(COMMAND_SUBJECTS, hear(receive));
      mine.subscribe(EVENT_SUBJECTS, hear(receive));
      mine.subscribe(echoSubject, hear(receiveEcho));
    } catch (error) {
      retry('The connection of the bus ended', error);
      return;
    }
    testItself();
  }

  /** Lets go of the connection and makes another after a pause that may grow, different for every process. */
  function retry(reason: string, error: unknown): void {
    const old = connection;
    connection = null;
    echo = null;
    old?.close().catch(() => {});
    if (state === 'down') return;
    become('degraded', reason, error);
    const [first, last] = retryMs;
    failures += 1;
    const longest = Math.min(last, first * 2 ** Math.min(failures, 10));
    schedule(connect, first + Math.random() * (longest - first));
  }

  function testItself(): void {
    const mine = connection;
    if (mine === null) return;
    schedule(() => retry('The NATS server does not answer the bus', null), 3 * echoWithinMs);
    ensureStream(mine, options.stream)
      .then(
        () => null,
        (error: unknown) => error ?? 'unknown',
      )
      .then((trouble) => {
        if (connection !== mine) return;
        streamTrouble = trouble;
        echo = { nonce: randomUUID(), sentAt: performance.now() };
        schedule(() => retry('The bus does not hear itself', null), echoWithinMs);
        mine.publish(echoSubject, echo.nonce);
      })
      .catch((error: unknown) => retry('The connection of the bus ended', error));
  }

  function receiveEcho(message: Msg): void {
    if (echo === null || message.data.length > MESSAGE_BYTES_MAX || message.string() !== echo.nonce) return;
    meter.observe('svc_bus_echo_seconds', (performance.now() - echo.sentAt) / 1000);
    echo = null;
    failures = 0;
    if (streamTrouble === null) become('ok', 'The bus hears itself', null);
    else become('degraded', 'The stream of the bus cannot be used; is JetStream on?', streamTrouble);
    schedule(testItself, echoEveryMs);
  }

  function receive(message: Msg): void {
    if (message.data.length > MESSAGE_BYTES_MAX) {
      drop('oversized', 1);
      return;
    }
    const topic = topicOf(message.subject);
    if (topic === null) {
      drop('foreign', 1);
      return;
    }
    const text = message.string();
    const hints = topic.startsWith('commands.') ? decodeCommand(text) : hintsIn(topic, text);
    if (hints === null) {
      drop('malformed', 1);
      return;
    }
    if (
      hints.some(
        ({ pool }) => typeof pool === 'string' && topic.startsWith('commands.') && topic !== `commands.${pool}`,
      )
    ) {
      drop('foreign', 1);
      return;
    }
    meter.count('svc_bus_received_total', { topic: family(topic) });
    listeners.deliver(topic, hints);
  }

  function send(waiting: ReadonlyMap<BusTopic, readonly JsonMap[]>): void {
    const mine = connection;
    for (const [topic, hints] of waiting) {
      if (mine === null) drop('unavailable', hints.length);
      else if (topic.startsWith('commands.')) announce(mine, topic, hints);
      else tell(mine, topic, hints);
    }
  }

  /** A message for each command, so that a subscriber can claim it by its number. */
  function announce(mine: NatsConnection, topic: BusTopic, hints: readonly JsonMap[]): void {
    const publisher = commandPublisher(mine);
    const subject = subjectOf(topic);
    for (const hint of hints) {
      const text = JSON.stringify(hint);
      if (Buffer.byteLength(text) > MESSAGE_BYTES_MAX) {
        drop('oversized', 1);
        continue;
      }
      if (unconfirmed >= UNCONFIRMED_MAX) {
        drop('full', 1);
        continue;
      }
      const msgID = messageIdOf(hint);
      unconfirmed += 1;
      meter.count('svc_bus_published_total', { topic: family(topic) });
      publisher
        .publish(subject, text, { retries: 0, ...(msgID !== undefined && { msgID }) })
        .catch((error: unknown) => {
          drop('unavailable', 1);
          if (connection === mine) doubtStream(error);
        })
        .finally(() => {
          unconfirmed -= 1;
        });
    }
  }

  function tell(mine: NatsConnection, topic: BusTopic, hints: readonly JsonMap[]): void {
    const { texts, dropped } = encodeHints(topic, hints);
    if (dropped > 0) drop('oversized', dropped);
    try {
      for (const text of texts) mine.publish(subjectOf(topic), text);
      meter.count('svc_bus_published_total', { topic: family(topic) }, texts.length);
    } catch {
      drop('unavailable', texts.length);
    }
  }

  /** Other servers still hear; workers that subscribe may not. The stream may be gone with a restart of NATS. */
  function doubtStream(error: unknown): void {
    if (state !== 'ok') return;
    become('degraded', 'The stream of the bus took no announcement', error);
    schedule(testItself, LOOK_AGAIN_MS);
  }

  function drop(reason: string, count: number): void {
    meter.count('svc_bus_dropped_total', { reason }, count);
  }

  function become(next: 'ok' | 'degraded', because: string, error: unknown): void {
    state = next;
    if (told === next) return;
    told = next;
    if (next === 'ok') log.info(because);
    else log.warn(because, error === null || error === undefined ? {} : { error });
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
      const last = connection;
      connection = null;
      listeners.clear();
      if (last === null) return;
      await Promise.race([last.flush().catch(() => {}), pause(FLUSH_WITHIN_MS)]);
      await last.close().catch(() => {});
    },
  };
}

function hintsIn(topic: BusTopic, text: string): readonly JsonMap[] | null {
  const message = decodeMessage(text);
  return message?.topic === topic ? message.hints : null;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
