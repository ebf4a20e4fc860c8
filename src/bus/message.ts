/**
 * A bus message on the wire: `{topic, hints}` as JSON text, at most what a NOTIFY may carry. Whatever does not fit is
 * cut into several messages; whatever does not read as one is dropped by the reader.
 */
import type { BusTopic } from '../../actors/ports.ts';
import { isMap, type JsonMap } from '../../machines/json.ts';

export interface BusMessage {
  readonly topic: BusTopic;
  readonly hints: readonly JsonMap[];
}

/** Nothing larger is read, whoever sent it (api 5.1). */
export const MESSAGE_BYTES_MAX = 8_192;
/** PostgreSQL refuses a payload of 8,000 bytes. */
const BYTES_MAX = 7_900;
/** Beyond this many, a reader is told a number only. */
const COMMANDS_MAX = 50;
const TOPIC = /^(executions|batches|workers|control|commands\.[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127})$/;

/** Announcements of commands say when they were made, and where a worker that hears one sends its calls. */
export function stamped(topic: BusTopic, hints: readonly JsonMap[], serverUrl: string, at: Date): readonly JsonMap[] {
  if (!topic.startsWith('commands.')) return hints;
  const stamp = { server_url: serverUrl, published_at: at.toISOString() };
  return hints.map((hint) => ({ ...hint, ...stamp }));
}

/** The messages for these hints, and how many hints are too large for any message. */
export function encodeHints(topic: BusTopic, hints: readonly JsonMap[]): { texts: readonly string[]; dropped: number } {
  if (topic.startsWith('commands.') && hints.length > COMMANDS_MAX) {
    return {
      texts: [JSON.stringify({ topic, hints: [{ pool: topic.slice('commands.'.length), count: hints.length }] })],
      dropped: 0,
    };
  }
  const text = JSON.stringify({ topic, hints });
  if (Buffer.byteLength(text) <= BYTES_MAX) return { texts: [text], dropped: 0 };
  if (hints.length === 1) return { texts: [], dropped: 1 };
  const middle = hints.length >> 1;
  const [left, right] = [encodeHints(topic, hints.slice(0, middle)), encodeHints(topic, hints.slice(middle))];
  return { texts: [...left.texts, ...right.texts], dropped: left.dropped + right.dropped };
}

/** Null for anything that is no message of ours. */
export function decodeMessage(text: string): BusMessage | null {
  const value = parsed(text);
  if (!isMap(value)) return null;
  const { topic, hints } = value;
  if (typeof topic !== 'string' || !isTopic(topic)) return null;
  if (!Array.isArray(hints) || !hints.every(isMap)) return null;
  return { topic, hints };
}

/** An announcement that travels alone, as on NATS; null for anything else. */
export function decodeCommand(text: string): readonly JsonMap[] | null {
  const value = parsed(text);
  return isMap(value) ? [value] : null;
}

/** Pools are many; the label of a metric names what they have in common. */
export function family(topic: BusTopic): string {
  return topic.startsWith('commands.') ? 'commands' : topic;
}

function parsed(text: string): unknown {
  if (Buffer.byteLength(text) > MESSAGE_BYTES_MAX) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function isTopic(text: string): text is BusTopic {
  return TOPIC.test(text);
}
