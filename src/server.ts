/** A server process: its port, services over a database, the HTTP host between them, and the order in which they end. */
import { readFileSync } from 'node:fs';
import { SourceError } from '../actors/keychain-preparation.ts';
import { type Config, ConfigError } from './config.ts';
import { warnOfAccess } from './host/access.ts';
import { createCallers } from './host/caller.ts';
import { type Door, openDoor } from './host/door.ts';
import { createExchangeLine } from './host/exchange-line.ts';
import { loadGui } from './host/gui.ts';
import { createHost } from './host/host.ts';
import { startServices } from './host/services.ts';
import type { Log } from './log.ts';
import { createMeter } from './metrics.ts';
import { createTracing } from './telemetry/tracer.ts';
import { FieldProblem } from './tools/fields.ts';
import type { EgressOptions } from './tools/http/egress.ts';
import { createTokenRequests, TokenRequestFailed } from './tools/http/token-request.ts';
import { createToolLister } from './tools/mcp/listing.ts';
import { createSecretAsker } from './tools/secret-managers/asker.ts';
import { SecretUnavailable } from './tools/secret-managers/provider.ts';
import type { Line } from './wire/line.ts';

export interface ServerOptions {
  readonly log: Log;
  /** The database comes with the package. */
  readonly embedded?: boolean;
  /** It counts as ready when its owner says so, and not as soon as it has started. */
  readonly holdReadiness?: boolean;
  /** Open already; by default it opens one of its own. It is closed with the server. */
  readonly door?: Door;
  /** Ends a start that is under way: it throws the signal's reason. */
  readonly signal?: AbortSignal;
}

export interface RunningServer {
  /** Where it listens; with SVC_PORT=0 the port that was given. */
  readonly url: string;
  /** For a worker in this process; null where it calls like any other. */
  readonly exchangeLine: Line | null;
  /** From now on it answers that it is healthy. */
  declareReady(): void;
  /** From now on it is not ready, and nothing new begins; what is under way goes on. */
  drain(): void;
  /** Readiness off, long polls answered, accepted work written, everything closed. Idempotent. */
  stop(): Promise<void>;
}

/** How long an answer under way may take once the process is asked to stop. */
const CLOSE_WITHIN_MS = 10_000;

export async function startServer(config: Config, options: ServerOptions): Promise<RunningServer> {
  const { signal } = options;
  const isStopping = () => signal?.aborted ?? false;
  const door = options.door ?? (await openDoor(config, { version: packageVersion(), isStopping }));
  try {
    return await startBehind(door, config, options);
  } catch (error) {
    await door.close();
    throw error;
  }
}

async function startBehind(door: Door, config: Config, options: ServerOptions): Promise<RunningServer> {
  const { log, signal } = options;
  const url = urlOf(config.host, door.port);
  const metrics = createMeter({ processMetrics: true });
  const callers = createCallers();
  const stopping = new AbortController();
  const version = packageVersion();
  const tracer = createTracing(config, { service: 'callboard-server', version, meter: metrics });
  const { tokens, secrets, toolServers } = askersOf(config, version);
  const running = await startServices(config, {
    log,
    metrics,
    tracer,
    callers,
    version,
    embedded: options.embedded ?? false,
    serverUrl: () => config.publicUrl ?? url,
    signal,
    requestToken: (request, signal) => tokens.send(request, signal).catch(asSourceError),
    askForSecret: (request, signal) => secrets.ask(request, signal).catch(asSourceError),
    listTools: (endpoint) => toolServers.list(endpoint),
  });
  let isReady = false;
  let app: ReturnType<typeof createHost>;
  try {
    app = createHost(running.services, {
      config,
      version,
      log: log.child('http'),
      metrics,
      tracer,
      clock: running.clock,
      callers,
      gui: config.uiEnabled ? loadGui(config.dataDir, log.child('gui'), stopping.signal) : undefined,
      lifecycle: {
        ready: () => isReady,
        draining: () => stopping.signal.aborted || running.draining(),
        stopping: stopping.signal,
        parts: () => ({ bus: running.bus.state(), jobs: running.jobs() }),
        uptimeSeconds: () => (performance.now() - door.openedAt) / 1000,
      },
    });
  } catch (error) {
    // What runs already would keep the process alive.
    await running.stop();
    await tracer.close();
    await Promise.all([tokens.close(), secrets.close(), toolServers.close()]);
    throw error;
  }
  const close = async (): Promise<void> => {
    stopping.abort();
    running.drain();
    await door.close(CLOSE_WITHIN_MS);
    await app.close();
    await running.stop();
    await tracer.close();
    await Promise.all([tokens.close(), secrets.close(), toolServers.close()]);
  };
  try {
    await warnOfAccess(config, running.services.tokens, log);
    await app.ready();
    door.handOver(app.routing);
    await running.start();
    signal?.throwIfAborted();
    isReady = options.holdReadiness !== true;
  } catch (error) {
    await close();
    throw error;
  }
  log.info('The server listens', { url, version });
  let ending: Promise<void> | null = null;
  return {
    url,
    exchangeLine: createExchangeLine(running.services, {
      ...config,
      isTraced: tracer.isOn,
      log: log.child('http'),
      clock: running.clock,
      stopping: stopping.signal,
    }),
    declareReady() {
      isReady = true;
    },
    drain: () => running.drain(),
    stop() {
      ending ??= close();
      return ending;
    },
  };
}

function urlOf(host: string, port: number): string {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** What the server itself asks of others goes out under the egress rules that hold for tasks. */
function askersOf(config: Config, version: string) {
  const egress: EgressOptions = { policy: config.egressPolicy, allow: config.egressAllow, deny: config.egressDeny };
  try {
    return {
      tokens: createTokenRequests(egress),
      secrets: createSecretAsker({
        egress,
        endpoints: {
          aws: config.awsSecretsEndpoint,
          gcp: config.gcpSecretsEndpoint,
          azureVault: config.azureVaultEndpoint,
          azureLogin: config.azureLoginEndpoint,
        },
        metadataUrl: config.gcpMetadataEndpoint,
      }),
      toolServers: createToolLister({ ...egress, version }),
    };
  } catch (error) {
    if (error instanceof RangeError) throw new ConfigError([`SVC_EGRESS_ALLOW or SVC_EGRESS_DENY: ${error.message}`]);
    throw error;
  }
}

function asSourceError(error: unknown): never {
  if (error instanceof TokenRequestFailed || error instanceof SecretUnavailable || error instanceof FieldProblem)
    throw new SourceError(error.message);
  throw error;
}

function packageVersion(): string {
  const parsed: unknown = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  return typeof parsed === 'object' && parsed !== null && 'version' in parsed ? String(parsed.version) : '0.0.0';
}
