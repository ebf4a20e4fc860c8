/**
 * Kind `nats` (language 11.10): one operation on a key-value bucket, an object bucket or a stream, over a connection of
 * its own and within five seconds.
 */
import { JetStreamApiError } from '@nats-io/jetstream';
import {
  AuthorizationError,
  ClosedConnectionError,
  ConnectionError,
  type NatsConnection,
  PermissionViolationError,
  RequestError,
  TimeoutError,
  UserAuthenticationExpiredError,
} from '@nats-io/transport-node';
import type { JsonMap } from '../../../machines/json.ts';
import { NatsSilent } from '../../nats-greeting.ts';
import { spellSeconds, startDeadline } from '../deadline.ts';
import { classifyNetwork, failure, ToolRefusal } from '../errors.ts';
import { FieldProblem, requiredText } from '../fields.ts';
import type { Tool, ToolFailure } from '../tool.ts';
import { type NatsAddress, openConnection, readAddress } from './connection.ts';
import { kvDelete, kvGet, kvKeys, kvPurge, kvPut } from './key-value.ts';
import { objectDelete, objectGet, objectInfo, objectList, objectPut } from './objects.ts';
import { numberOf, type Operation } from './operation.ts';
import { jsConsume, jsGetMsg, jsPublish, jsStreamInfo } from './streams.ts';

export interface NatsOptions {
  /** Cap of what one try may read, in bytes. */
  readonly maxBytes: number;
}

const maxTimeoutMs = 5_000;

const operations: Readonly<Record<string, Operation>> = {
  kv_get: kvGet,
  kv_put: kvPut,
  kv_delete: kvDelete,
  kv_keys: kvKeys,
  kv_purge: kvPurge,
  object_get: objectGet,
  object_put: objectPut,
  object_delete: objectDelete,
  object_list: objectList,
  object_info: objectInfo,
  js_publish: jsPublish,
  js_consume: jsConsume,
  js_get_msg: jsGetMsg,
  js_stream_info: jsStreamInfo,
};

/** A nats tool. */
export function createNats({ maxBytes }: NatsOptions): Tool {
  return {
    kind: 'nats',
    async run({ fields, auth, timeoutMs, signal }) {
      const name = requiredText(fields, 'operation').trim().toLowerCase();
      const operation = Object.hasOwn(operations, name) ? operations[name] : undefined;
      if (operation === undefined) {
        throw new FieldProblem(
          `unknown operation '${name.slice(0, 60)}'; known are ${Object.keys(operations).join(', ')}`,
        );
      }
      const address = readAddress(fields, auth);
      const asked = numberOf(fields, 'timeout_ms', maxTimeoutMs, 1) ?? maxTimeoutMs;
      const limitMs = Math.min(asked, timeoutMs ?? maxTimeoutMs, maxTimeoutMs);
      using deadline = startDeadline(limitMs, signal);
      try {
        const data = await stoppable(deadline.signal, address, limitMs, (connection) =>
          operation({ connection, fields, limitMs, maxBytes }),
        );
        return { ok: true, data };
      } catch (error) {
        if (error instanceof FieldProblem || error instanceof ToolRefusal) throw error;
        if (deadline.why() === 'cancelled') return failure('unknown', 'CANCELLED', 'the operation was stopped');
        const isLate = [error, causeOf(error)].some(
          (each) => each instanceof TimeoutError || each instanceof NatsSilent,
        );
        if (deadline.why() === 'timeout' || isLate) {
          return failure('timeout', 'TOOL_TIMEOUT', `${name} timed out after ${spellSeconds(limitMs)}`);
        }
        return explain(error, name, address);
      }
    },
  };
}

/** The server was not reached, or it did not let us in. */
class NotConnected extends Error {
  override readonly name = 'NotConnected';
}

/** Closing the connection ends whatever waits on it. A connection that comes too late is closed, too. */
async function stoppable(
  signal: AbortSignal,
  address: NatsAddress,
  limitMs: number,
  work: (connection: NatsConnection) => Promise<JsonMap>,
): Promise<JsonMap> {
  signal.throwIfAborted();
  const { promise: stopped, reject: stop } = Promise.withResolvers<never>();
  const abort = () => stop(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  const opening = openConnection(address, limitMs, signal).catch((cause: unknown) => {
    throw new NotConnected(cause instanceof Error ? cause.message : 'the connection failed', { cause });
  });
  try {
    return await Promise.race([opening.then(work), stopped]);
  } finally {
    signal.removeEventListener('abort', abort);
    const closing = opening.then((connection) => connection.close()).catch(() => {});
    if (!signal.aborted) await closing;
  }
}

function explain(error: unknown, name: string, { server }: NatsAddress): ToolFailure {
  const message = error instanceof Error ? error.message : 'the operation failed';
  if (error instanceof JetStreamApiError) {
    return failure('tool_error', `NATS_${error.code}`, `${name}: ${message}`, { details: { status: error.status } });
  }
  const refused = [AuthorizationError, UserAuthenticationExpiredError, PermissionViolationError];
  if (refused.some((type) => error instanceof type || causeOf(error) instanceof type)) {
    return failure('auth', 'NATS_AUTH', `${name}: the server at ${server} does not let this user in or do this`);
  }
  if (error instanceof Error && /^(?:InvalidArgument|InvalidSubject|InvalidName)Error$/.test(error.name)) {
    throw new FieldProblem(message);
  }
  const asked = [error, causeOf(error)].find((each) => each instanceof RequestError);
  if (asked?.isNoResponders() === true) {
    return failure('tool_error', 'NATS_NO_RESPONDERS', `${name}: no stream takes this, or JetStream is off`);
  }
  if (error instanceof Error && /bucket name|invalid key|invalid/i.test(message) && error.name === 'Error') {
    throw new FieldProblem(message);
  }
  const lost =
    error instanceof NotConnected || error instanceof ConnectionError || error instanceof ClosedConnectionError;
  if (!lost && !(error instanceof Error && 'code' in error)) throw error;
  const { kind, code, reason } = classifyNetwork(error);
  return failure(kind, code, `the server at ${server}: ${reason}`);
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined;
}
