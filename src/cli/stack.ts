/**
 * Server, worker and database in this one process, for `dev`, `server` and `run`. Started from the inside out and
 * stopped in the reverse order, also when a later part fails to start.
 */
import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { Unavailable } from './command.ts';

export interface Stack {
  readonly url: string;
  /** Lets running work end, then stops. Idempotent. */
  stop(): Promise<void>;
}

/** Somebody else listens where this server was to listen. */
export class PortTaken extends Unavailable {}

/** Throws Unavailable with the remedy. `worker: false` starts the server alone. */
export async function startStack(config: Config, log: Log, parts: { readonly worker: boolean }): Promise<Stack> {
  const running: { readonly name: string; stop(): Promise<void> }[] = [];
  const stop = async (): Promise<void> => {
    for (let part = running.pop(); part !== undefined; part = running.pop()) {
      await part.stop();
      log.debug('A part has stopped', { part: part.name });
    }
  };
  try {
    const database = await databaseOf(config, log);
    if (database.stop !== null) running.push({ name: 'database', stop: database.stop });
    const { startServer } = await import('../server.ts');
    const server = await startServer(
      { ...config, databaseUrl: database.url },
      { log, embedded: database.stop !== null },
    );
    running.push({ name: 'server', stop: () => server.stop() });
    if (parts.worker) {
      const { startWorkerProcess } = await import('./worker-process.ts');
      const own = { ...config, worker: { ...config.worker, serverUrl: server.url } };
      const worker = await startWorkerProcess(own, log.child('worker'));
      running.push({ name: 'worker', stop: () => worker.stop() });
    }
    let stopping: Promise<void> | null = null;
    return {
      url: server.url,
      stop: () => {
        stopping ??= stop();
        return stopping;
      },
    };
  } catch (error) {
    await stop();
    throw remedied(error, config);
  }
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

/** What went wrong in words a newcomer can act on; anything unforeseen stays as it is. */
function remedied(error: unknown, config: Config): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  if (code === 'EADDRINUSE') {
    return new PortTaken(
      `port ${config.port} on ${config.host} is taken; set SVC_PORT to another one (0 takes a free one)`,
      { cause: error },
    );
  }
  if (code === 'EACCES' && error instanceof Error && 'syscall' in error && error.syscall === 'listen') {
    return new Unavailable(`this user may not listen on port ${config.port}; set SVC_PORT to one above 1023`, {
      cause: error,
    });
  }
  if (code === 'ECONNREFUSED' && config.databaseUrl !== null) {
    return new Unavailable('the database of SVC_DATABASE_URL refuses connections; is it running?', { cause: error });
  }
  return error;
}
