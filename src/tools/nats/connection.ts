/**
 * How a nats task reaches its server: the fields of the task over those of its credential (language 12.2), and one
 * connection per try that never tries to come back.
 */
import { connect, type NatsConnection } from '@nats-io/transport-node';
import type { JsonMap } from '../../../machines/json.ts';
import { awaitGreeting } from '../../nats-greeting.ts';
import { checkMeantFor, unusableCredential } from '../credentials.ts';
import { FieldProblem, textOf } from '../fields.ts';
import type { ResolvedAuth } from '../tool.ts';

export interface NatsAddress {
  /** `host:port`, with no user in it. */
  readonly server: string;
  readonly tls: boolean;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly token: string | undefined;
}

const usable = new Set(['nats', 'bearer', 'basic', 'custom', 'generic', 'none']);

/** Throws FieldProblem when there is no usable address. */
export function readAddress(fields: JsonMap, auth: ResolvedAuth | null): NatsAddress {
  const type = auth?.type.toLowerCase() ?? 'none';
  if (auth !== null && !usable.has(type)) throw unusableCredential(auth, 'nats');
  const data = auth?.data ?? {};
  const text = textOf(fields, 'url') ?? textOf(data, 'nats_url', 'url', 'server');
  if (text === undefined || text.trim() === '')
    throw new FieldProblem(`field 'url' or a credential with one is needed`);
  const written = /^[a-z]+:\/\//i.test(text.trim()) ? text.trim() : `nats://${text.trim()}`;
  // The problem is told without the text, which may hold a password.
  if (!URL.canParse(written)) throw new FieldProblem(`field 'url' cannot be read`);
  const url = new URL(written);
  if (url.protocol !== 'nats:' && url.protocol !== 'tls:')
    throw new FieldProblem(`field 'url' must begin with nats://`);
  if (url.hostname === '') throw new FieldProblem(`field 'url' names no host`);
  checkMeantFor(auth, url.hostname, url.port === '' ? '4222' : url.port);
  const user = textOf(data, 'nats_user', 'user', 'username') ?? part(url.username);
  return {
    server: `${url.hostname}:${url.port === '' ? '4222' : url.port}`,
    tls: url.protocol === 'tls:',
    user,
    password: textOf(data, 'nats_password', 'password') ?? part(url.password),
    token: textOf(data, 'nats_token', 'token', ...(type === 'bearer' ? ['access_token', 'bearer_token'] : [])),
  };
}

function part(text: string): string | undefined {
  if (text === '') return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Rejects with the error of the client, or that of a server that does not greet. */
export async function openConnection(
  address: NatsAddress,
  limitMs: number,
  signal: AbortSignal,
): Promise<NatsConnection> {
  const { server, tls, user, password, token } = address;
  const colon = server.lastIndexOf(':');
  await awaitGreeting(server.slice(0, colon), Number(server.slice(colon + 1)), limitMs, signal);
  return connect({
    servers: server,
    name: 'callboard-task',
    reconnect: false,
    ignoreClusterUpdates: true,
    noAsyncTraces: true,
    timeout: limitMs,
    ...(tls && { tls: {} }),
    ...(user !== undefined && { user, pass: password ?? '' }),
    ...(token !== undefined && { token }),
  });
}
