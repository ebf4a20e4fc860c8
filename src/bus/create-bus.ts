/** Which bus a server uses, by its settings. */
import type { Bus, Log, Meter } from '../../actors/ports.ts';
import { type Config, ConfigError } from '../config.ts';
import { createNoneBus } from './none-bus.ts';
import { createPostgresBus } from './postgres-bus.ts';

export interface BusParts {
  /** The service's database. */
  readonly databaseUrl: string;
  /** Where workers send their calls. */
  readonly serverUrl: () => string;
  readonly log: Log;
  readonly meter: Meter;
}

export type BusKind = 'postgres' | 'nats' | 'none';

/** Throws ConfigError when the settings do not belong together; to be asked before anything is changed. */
export function busKindOf({ bus, natsUrl }: Pick<Config, 'bus' | 'natsUrl'>): BusKind {
  const kind = bus ?? (natsUrl === null ? 'postgres' : 'nats');
  if (kind === 'nats' && natsUrl === null) throw new ConfigError(['SVC_NATS_URL must be set, since SVC_BUS is nats']);
  return kind;
}

/** Throws ConfigError when the settings do not belong together. Connects in the background. */
export async function createBus(config: Config, { databaseUrl, ...parts }: BusParts): Promise<Bus> {
  const kind = busKindOf(config);
  const coalesceMs = config.busCoalesceMs;
  if (kind === 'none') return createNoneBus();
  if (kind === 'postgres') {
    return createPostgresBus({ url: databaseUrl, listenUrl: config.listenUrl ?? databaseUrl, coalesceMs, ...parts });
  }
  const { natsUrl: urls } = config;
  if (urls === null) throw new Error('busKindOf lets none pass');
  const { createNatsBus } = await import('./nats-bus.ts');
  const { natsUser: user, natsPassword: password, natsToken: token, natsStream: stream } = config;
  return createNatsBus({ servers: { urls, user, password, token }, stream, coalesceMs, ...parts });
}
