/**
 * The `js_…` operations (language 11.10). `js_consume` acknowledges before the task reports, so a worker that dies in
 * between has taken messages nobody saw; `ack: false` leaves them to be delivered again.
 */
import {
  AckPolicy,
  type Consumer,
  DeliverPolicy,
  type JetStreamManager,
  type JsMsg,
  jetstream,
  jetstreamManager,
} from '@nats-io/jetstream';
import type { Json, JsonMap } from '../../../machines/json.ts';
import { failure, ToolRefusal } from '../errors.ts';
import { FieldProblem, fieldOf, flagOf, requiredText, textOf } from '../fields.ts';
import { isNotFound, type NatsCall, notFound, numberOf } from './operation.ts';
import { type Encoding, encodingOf, fromBytes, headersOf, headersToJson, toBytes } from './payload.ts';

const maxBatch = 1_000;
/** The shortest wait a server accepts for a pull, in milliseconds. */
const minPullMs = 1_000;

export async function jsPublish({ connection, fields, limitMs }: NatsCall): Promise<JsonMap> {
  const subject = requiredText(fields, 'subject');
  const headers = headersOf(fields);
  const stream = textOf(fields, 'stream');
  const bytes = toBytes(fieldOf(fields, 'data', 'value') ?? '', encodingOf(fields));
  const ack = await jetstream(connection).publish(subject, bytes, {
    timeout: limitMs,
    ...(headers && { headers }),
    ...(stream !== undefined && stream !== '' && { expect: { streamName: stream } }),
  });
  return { status: 'success', stream: ack.stream, subject, seq: ack.seq, duplicate: ack.duplicate };
}

export async function jsGetMsg({ connection, fields }: NatsCall): Promise<JsonMap> {
  const stream = requiredText(fields, 'stream');
  const seq = numberOf(fields, 'seq', null, 1);
  const last = fieldOf(fields, 'last');
  const subject = textOf(fields, 'subject') ?? (typeof last === 'string' && !isFlag(last) ? last : undefined);
  const query = seq === null ? { last_by_subj: subject ?? '>' } : { seq };
  const manager = await jetstreamManager(connection);
  try {
    const message = await manager.streams.getMessage(stream, query);
    if (message === null) return notFound({ stream, seq: null, data: null });
    return {
      status: 'success',
      stream,
      seq: message.seq,
      subject: message.subject,
      ...fromBytes(message.data, encodingOf(fields), true),
      headers: headersToJson(message.header),
      time: message.time.toISOString(),
    };
  } catch (error) {
    if (isNotFound(error)) return notFound({ stream, seq: null, data: null });
    throw error;
  }
}

export async function jsStreamInfo({ connection, fields }: NatsCall): Promise<JsonMap> {
  const stream = requiredText(fields, 'stream');
  const manager = await jetstreamManager(connection);
  try {
    const { config, state, created } = await manager.streams.info(stream);
    const { messages, bytes, first_seq, last_seq, consumer_count } = state;
    const subjects: Json = [...(config.subjects ?? [])];
    const { retention, storage, description = null } = config;
    return {
      status: 'success',
      stream,
      created_at: String(created),
      config: { subjects, retention, storage, description, max_msgs: config.max_msgs, max_bytes: config.max_bytes },
      state: { messages, bytes, first_seq, last_seq, consumer_count },
    };
  } catch (error) {
    if (isNotFound(error)) return notFound({ stream });
    throw error;
  }
}

/** Up to `batch` messages that wait, or the first that come within the time. */
export async function jsConsume(call: NatsCall): Promise<JsonMap> {
  const { connection, fields, limitMs, maxBytes } = call;
  const stream = requiredText(fields, 'stream');
  const batch = numberOf(fields, 'batch', 1, 1) ?? 1;
  if (batch > maxBatch) throw new FieldProblem(`field 'batch' must be at most ${maxBatch}`);
  const durable = textOf(fields, 'consumer');
  const named = durable !== undefined && durable !== '';
  const ack = named && flagOf(fields, true, 'ack');
  const manager = await jetstreamManager(connection);
  const answer = { stream, consumer: named ? durable : null };
  const made = await consumerName(manager, stream, named ? durable : null, fields);
  if (made === null) return notFound({ ...answer, messages: [] });
  const consumer = await jetstream(connection).consumers.get(stream, made);
  try {
    const messages = await take(consumer, batch, limitMs, maxBytes);
    if (ack) await Promise.all(messages.map((message) => message.ackAck()));
    const encoding = encodingOf(fields);
    return {
      status: 'success',
      ...answer,
      messages: messages.map((each) => toJson(each, encoding)),
      count: messages.length,
    };
  } finally {
    if (!named) await consumer.delete().catch(() => {});
  }
}

/** The durable consumer, made where it is missing, or a passing one; null where the stream does not exist. */
async function consumerName(
  manager: JetStreamManager,
  stream: string,
  durable: string | null,
  fields: JsonMap,
): Promise<string | null> {
  try {
    if (durable !== null) {
      const known = await manager.consumers.info(stream, durable).catch((error: unknown) => {
        if (isNotFound(error)) return null;
        throw error;
      });
      if (known !== null) return known.name;
    }
    const subject = textOf(fields, 'subject');
    const { name } = await manager.consumers.add(stream, {
      ...(durable === null
        ? { ack_policy: AckPolicy.None, inactive_threshold: 30_000_000_000 }
        : { durable_name: durable, ack_policy: AckPolicy.Explicit }),
      ...(subject !== undefined && subject !== '' && { filter_subject: subject }),
      ...startOf(fields),
    });
    return name;
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}

function startOf(fields: JsonMap) {
  const seq = numberOf(fields, 'seq', null, 1);
  if (seq !== null) return { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: seq };
  return flagOf(fields, false, 'last') ? { deliver_policy: DeliverPolicy.Last } : { deliver_policy: DeliverPolicy.All };
}

async function take(consumer: Consumer, batch: number, limitMs: number, maxBytes: number): Promise<JsMsg[]> {
  const { num_pending: waiting } = await consumer.info();
  // Half of the time is for the way there and back.
  const patienceMs = Math.floor(limitMs / 2);
  if (waiting === 0 && patienceMs < minPullMs) return [];
  const options = {
    max_messages: waiting === 0 ? batch : Math.min(batch, waiting),
    expires: Math.max(patienceMs, minPullMs),
  };
  const messages: JsMsg[] = [];
  let size = 0;
  for await (const message of await consumer.fetch(options)) {
    size += message.data.length;
    if (size > maxBytes) {
      throw new ToolRefusal(failure('logic', 'RESULT_TOO_LARGE', `the messages have more than ${maxBytes} bytes`));
    }
    messages.push(message);
    // Those that come later are for whoever asks next.
    if (waiting === 0) break;
  }
  return messages;
}

function toJson(message: JsMsg, encoding: Encoding): JsonMap {
  return {
    subject: message.subject,
    seq: message.seq,
    ...fromBytes(message.data, encoding, true),
    headers: headersToJson(message.headers),
    redelivered: message.redelivered,
    time: message.time.toISOString(),
  };
}

function isFlag(text: string): boolean {
  return ['', 'true', 'false', 'yes', 'no', 'on', 'off', '0', '1'].includes(text.trim().toLowerCase());
}
