/** How the bus reaches NATS: the servers of its settings, one connection that does not try to come back by itself. */
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { awaitGreeting } from '../nats-greeting.ts';

export interface NatsServers {
  /** `nats://host:port` or `tls://host:port`; any of them will do. */
  readonly urls: readonly string[];
  readonly user: string | null;
  readonly password: string | null;
  readonly token: string | null;
}

const CONNECT_WITHIN_MS = 5_000;
const PING_EVERY_MS = 10_000;

/** Rejects with an error that names no secret. */
export async function openConnection(
  servers: NatsServers,
  withinMs: number = CONNECT_WITHIN_MS,
): Promise<NatsConnection> {
  const urls = servers.urls.map((text) => new URL(text));
  const [first] = urls;
  const there = await answering(urls, withinMs);
  const user = servers.user ?? partOf(first?.username);
  const password = servers.password ?? partOf(first?.password);
  return connect({
    servers: there.map((url) => `${url.hostname}:${portOf(url)}`),
    name: 'callboard-bus',
    reconnect: false,
    ignoreClusterUpdates: true,
    noAsyncTraces: true,
    timeout: withinMs,
    pingInterval: PING_EVERY_MS,
    maxPingOut: 2,
    ...(urls.some((url) => url.protocol === 'tls:') && { tls: {} }),
    ...(user !== null && { user, pass: password ?? '' }),
    ...(servers.token !== null && { token: servers.token }),
  });
}

/** Those that greet; the others are not given to the client. */
async function answering(urls: readonly URL[], withinMs: number): Promise<readonly URL[]> {
  const tried = await Promise.allSettled(urls.map((url) => awaitGreeting(url.hostname, Number(portOf(url)), withinMs)));
  const there = urls.filter((_, index) => tried[index]?.status === 'fulfilled');
  if (there.length > 0) return there;
  throw tried.find((each) => each.status === 'rejected')?.reason ?? new Error('no server');
}

function portOf(url: URL): string {
  return url.port === '' ? '4222' : url.port;
}

function partOf(text = ''): string | null {
  if (text === '') return null;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
