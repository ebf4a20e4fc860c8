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

/** PostgreSQL refuses a payload of 8,000 bytes. */
const BYTES_MAX = 7_900;
/** Beyond this many, a reader is told a number only. */
const COMMANDS_MAX = 50;
const TOPIC = /^(executions|batches|workers|control|commands\.[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127})$/;

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
  if (text.length > BYTES_MAX * 2) return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isMap(value)) return null;
  const { topic, hints } = value;
  if (typeof topic !== 'string' || !isTopic(topic)) return null;
  if (!Array.isArray(hints) || !hints.every(isMap)) return null;
  return { topic, hints };
}

function isTopic(text: string): text is BusTopic {
  return TOPIC.test(text);
}
