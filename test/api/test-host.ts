/** A host over fake services, ready for `inject`. */
import type { FastifyInstance, InjectOptions } from 'fastify';
import type { Services } from '../../actors/services.ts';
import { createHost, type HostConfig, type HostOptions } from '../../src/host/host.ts';
import { createMeter } from '../../src/metrics.ts';
import { fakeServices, NOW_MS } from './fake-services.ts';

export const CONFIG: HostConfig = {
  host: '127.0.0.1',
  publicUrl: null,
  allowedHosts: [],
  corsAllowedOrigins: ['loopback'],
  bodyLimitBytes: 10_485_760,
  requestTimeoutSeconds: 30,
  trustProxy: [],
  docsEnabled: true,
  claimRetryAfterSeconds: 2,
  runtimeOfflineSeconds: 60,
  workerHeartbeatStaleSeconds: 30,
  authMode: 'open',
  rateLimitPerSecond: 0,
  rateLimitBurst: 100,
  internalToken: null,
  mcpExpose: 'marked',
  aiPlaybook: null,
  mcpCallTimeoutSeconds: 90,
};

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface TestHost {
  readonly app: FastifyInstance;
  readonly lines: LogLine[];
  readonly stop: AbortController;
}

export function hostOptions(
  change: Partial<HostOptions> = {},
): HostOptions & { lines: LogLine[]; stop: AbortController } {
  const lines: LogLine[] = [];
  const stop = new AbortController();
  const say =
    (level: string) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}) => {
      lines.push({ level, message, fields });
    };
  return {
    config: CONFIG,
    version: '1.0.0',
    log: { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') },
    metrics: createMeter(),
    clock: { now: () => NOW_MS },
    lifecycle: {
      ready: () => true,
      draining: () => false,
      stopping: stop.signal,
      parts: () => ({ bus: 'ok', jobs: 'ok' }),
      uptimeSeconds: () => 83.2,
    },
    lines,
    stop,
    ...change,
  };
}

export function testHost(services: Services = fakeServices(), change: Partial<HostOptions> = {}): TestHost {
  const options = hostOptions(change);
  return { app: createHost(services, options), lines: options.lines, stop: options.stop };
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
  /** Read without ceremony: a test says what it expects of it. */
  readonly json: ReturnType<typeof JSON.parse>;
}

export async function ask(
  app: FastifyInstance,
  method: string,
  url: string,
  more: Omit<InjectOptions, 'method' | 'url'> = {},
): Promise<Answer> {
  // Node's list of methods is longer than the type of the injector.
  const response = await app.inject({ method: method as 'GET', url, ...more });
  const headers = Object.fromEntries(
    Object.entries(response.headers).map(([name, value]) => [name, value === undefined ? undefined : String(value)]),
  );
  const isJson = String(headers['content-type']).startsWith('application/json') && response.body !== '';
  return {
    status: response.statusCode,
    headers,
    text: response.body,
    json: isJson ? JSON.parse(response.body) : undefined,
  };
}

/** A body as text, exactly as given. */
export function raw(text: string | Buffer, type = 'application/json') {
  return { payload: text, headers: { 'content-type': type } };
}
