/**
 * The stream that keeps announcements of commands for workers that subscribe (api 5.4). It lives in the memory of the
 * NATS server: what it loses, the database still knows. One that is there is used as it is, whatever its settings.
 */
import {
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamClient,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
} from '@nats-io/jetstream';
import type { NatsConnection } from '@nats-io/transport-node';
import type { JsonMap } from '../../machines/json.ts';
import { COMMAND_SUBJECTS } from './nats-subjects.ts';

/** NATS counts in nanoseconds. */
const SECOND = 1_000_000_000;
const MAX_AGE = 3_600 * SECOND;
const DUPLICATE_WINDOW = 30 * SECOND;
const MAX_MESSAGES = 1_000_000;
const API_WITHIN_MS = 2_000;
const STREAM_NOT_FOUND = 10_059;
const STREAM_NAME_IN_USE = 10_058;

/** Makes the stream if it is missing. Rejects when the server has no JetStream, or does not let us. */
export async function ensureStream(connection: NatsConnection, name: string): Promise<void> {
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: API_WITHIN_MS });
  try {
    await manager.streams.info(name);
    return;
  } catch (error) {
    if (!isApiError(error, STREAM_NOT_FOUND)) throw error;
  }
  try {
    await manager.streams.add({
      name,
      subjects: [COMMAND_SUBJECTS],
      storage: StorageType.Memory,
      retention: RetentionPolicy.Limits,
      discard: DiscardPolicy.Old,
      max_age: MAX_AGE,
      max_msgs: MAX_MESSAGES,
      duplicate_window: DUPLICATE_WINDOW,
    });
  } catch (error) {
    // Another server was faster, with settings of another version.
    if (!isApiError(error, STREAM_NAME_IN_USE)) throw error;
  }
}

export function commandPublisher(connection: NatsConnection): JetStreamClient {
  return jetstream(connection, { timeout: API_WITHIN_MS });
}

/** One announcement is kept once, however often it is sent within the window. Undefined where it names no command. */
export function messageIdOf(hint: JsonMap): string | undefined {
  const { command_id: commandId, attempt = 0, republish_count: republishCount = 0 } = hint;
  return typeof commandId === 'number' ? `${commandId}:${attempt}:${republishCount}` : undefined;
}

function isApiError(error: unknown, code: number): boolean {
  return error instanceof JetStreamApiError && error.code === code;
}
