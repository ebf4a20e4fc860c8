/**
 * Server, worker and database in this one process, for `dev`, `server` and `run`. Started from the inside out and
 * stopped in the reverse order, also when a later part fails to start.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Config } from '../config.ts';
import { openDoor } from '../host/door.ts';
import type { Log } from '../log.ts';
import { Unavailable } from './command.ts';
import { packageVersion } from './package-version.ts';
import { remedied } from './start-trouble.ts';

export interface Stack {
  readonly url: string;
  /** From now on the server answers that it is healthy, where `holdReadiness` kept it from doing so. */
  declareReady(): void;
  /** For the process that started it, of role operator; null in open mode, where nobody needs one. */
  readonly token: string | null;
  /** Lets running work end, then stops. Idempotent. */
  stop(): Promise<void>;
}

export interface StackParts {
  /** False starts the server alone. */
  readonly worker: boolean;
  readonly holdReadiness?: boolean;
  /** Ends a start that is under way. */
  readonly signal?: AbortSignal;
}

/** Throws Unavailable with the remedy, or the signal's reason. */
export async function startStack(config: Config, log: Log, parts: StackParts): Promise<Stack> {
  const { signal } = parts;
  const running: { readonly name: string; stop(): Promise<void> }[] = [];
  const stop = async (): Promise<void> => {
    for (let part = running.pop(); part !== undefined; part = running.pop()) {
      await part.stop();
      log.debug('A part has stopped', { part: part.name });
    }
  };
  try {
    const isStopping = () => signal?.aborted ?? false;
    const door = await openDoor(config, { version: packageVersion(), isStopping });
    running.push({ name: 'port', stop: () => door.close() });
    log.info('The port is open, the server starts', { host: config.host, port: door.port });
    const database = await databaseOf(config, log);
    if (database.stop !== null) running.push({ name: 'database', stop: database.stop });
    signal?.throwIfAborted();
    const { startServer } = await import('../server.ts');
    const own = config.authMode === 'enforce' && parts.worker ? ownTokens() : null;
    const server = await startServer(
      { ...config, databaseUrl: database.url, apiTokens: [...config.apiTokens, ...(own?.settings ?? [])] },
      {
        log,
        door,
        embedded: database.stop !== null,
        holdReadiness: parts.holdReadiness ?? false,
        ...(signal === undefined ? {} : { signal }),
      },
    );
    running.push({ name: 'server', stop: () => server.stop() });
    if (parts.worker) {
      const { startWorkerProcess } = await import('./worker-process.ts');
      const token = config.worker.token ?? own?.worker ?? null;
      const settings = { ...config, worker: { ...config.worker, serverUrl: server.url, token } };
      const worker = await startWorkerProcess(settings, log.child('worker'), { line: server.exchangeLine });
      running.push({ name: 'worker', stop: () => worker.stop() });
    }
    let stopping: Promise<void> | null = null;
    const leave = (): Promise<void> => {
      // The worker leaves before the server and may take its time; nobody is to begin anything meanwhile.
      server.drain();
      return stop();
    };
    return {
      url: server.url,
      declareReady: () => server.declareReady(),
      token: own?.operator ?? null,
      stop: () => {
        stopping ??= leave();
        return stopping;
      },
    };
  } catch (error) {
    await stop();
    throw remedied(error, config);
  }
}

/** Tokens that live as long as this process and are written nowhere, for the parts that talk to their own server. */
function ownTokens() {
  const newToken = () => randomBytes(32).toString('base64url');
  const worker = newToken();
  const operator = newToken();
  const setting = (role: 'worker' | 'operator', token: string) => ({
    name: `this-process-${role}`,
    role,
    digest: createHash('sha256').update(token, 'utf8').digest(),
  });
  return { worker, operator, settings: [setting('worker', worker), setting('operator', operator)] };
}

async function databaseOf(
  config: Config,
  log: Log,
): Promise<{ readonly url: string; readonly stop: (() => Promise<void>) | null }> {
  if (config.databaseUrl !== null) return { url: config.databaseUrl, stop: null };
  const { startEmbedded } = await import('../embedded/embedded-postgres.ts');
  const folder = resolve(config.dataDir);
  try {
    mkdirSync(folder, { recursive: true });
    const embedded = await startEmbedded(folder, log.child('database'));
    return { url: embedded.url, stop: () => embedded.stop() };
  } catch (error) {
    throw withoutTrace(error, folder);
  }
}

/** The embedded database says what to do in its sentences; a stack trace around them would hide it. */
function withoutTrace(error: unknown, folder: string): unknown {
  if (!(error instanceof Error)) return error;
  if ('syscall' in error && error.syscall === 'mkdir') {
    return new Unavailable(
      `the data directory ${folder} cannot be made (${error.message}); set SVC_DATA_DIR to a place this user may write`,
      { cause: error },
    );
  }
  const why = error.cause instanceof Error ? `: ${error.cause.message}` : '';
  return new Unavailable(`${error.message}${why}`, { cause: error });
}
