/**
 * A worker: takes commands from a server, runs their tools, reports. It knows the server by its address alone and
 * survives its restarts; what it cannot deliver it keeps until it can.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Json } from '../../machines/json.ts';
import { CallboardClient } from '../client/client.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import { noTracing, type Tracing } from '../telemetry/tracer.ts';
import { createTokenRequests } from '../tools/http/token-request.ts';
import type { Tool } from '../tools/tool.ts';
import type { Command } from '../wire/command.ts';
import type { Line } from '../wire/line.ts';
import { readCommand } from './command.ts';
import { type ExecuteDeps, executeCommand, type Outcome } from './execute.ts';
import { createKeychainReader } from './keychain.ts';
import { WorkerLoop } from './loop.ts';
import { WorkerSpans } from './spans.ts';
import { CachingTemplates } from './template-cache.ts';
import type { OutsideSlot } from './work.ts';

export type WorkerSettings = Pick<
  Config,
  | 'worker'
  | 'pipelineMaxTries'
  | 'resultInlineMaxBytes'
  | 'templateTimeoutMs'
  | 'templateMaxSteps'
  | 'templateMaxOutputBytes'
> &
  /** Renewals of keychain entries leave under these; without them under the default policy. */
  Partial<Pick<Config, 'egressPolicy' | 'egressAllow' | 'egressDeny'>>;

export interface WorkerOptions {
  readonly config: WorkerSettings;
  readonly log: Log;
  /** By kind; they stay the caller's, who closes them after `stop`. */
  readonly tools: ReadonlyMap<string, Tool>;
  /** By default a client of its own for `config.worker.serverUrl`. */
  readonly client?: CallboardClient;
  /** To a server in this process, for the default client. */
  readonly line?: Line | null;
  readonly tracer?: Tracing;
  readonly meter?: Metrics;
  /** Version of this build, shown to operators. */
  readonly version?: string;
}

export interface RunningWorker {
  readonly name: string;
  /** Resolves when the server knows the worker. */
  readonly registered: Promise<void>;
  /** Drains, reports, deregisters. Idempotent; never throws. */
  stop(): Promise<void>;
}

export async function startWorker(options: WorkerOptions): Promise<RunningWorker> {
  const { config, log, tools } = options;
  const { serverUrl, token, concurrency, heartbeatSeconds, drainSeconds, pools } = config.worker;
  const name = config.worker.name ?? `worker-${randomUUID().slice(0, 8)}`;
  const spans = new WorkerSpans(options.tracer ?? noTracing);
  const { meter, line = null } = options;
  const client = options.client ?? new CallboardClient({ serverUrl, token, line, traceHeaders: () => spans.headers() });
  const now = () => performance.now();
  const requests = createTokenRequests({
    policy: config.egressPolicy ?? 'no-metadata',
    allow: config.egressAllow ?? [],
    deny: config.egressDeny ?? [],
  });
  const measured = meter === undefined ? {} : { meter };
  const deps = {
    client,
    tools,
    templates: new CachingTemplates({
      steps: config.templateMaxSteps,
      outputBytes: config.templateMaxOutputBytes,
      timeoutMs: config.templateTimeoutMs,
      now,
    }),
    keychain: createKeychainReader({ client, requests, log, workerId: name, now: Date.now, spans, ...measured }),
    spans,
    ...measured,
    workerId: name,
    serverUrl,
    pipelineMaxTries: config.pipelineMaxTries,
    resultInlineMaxBytes: config.resultInlineMaxBytes,
    now,
  };
  const loop = new WorkerLoop({
    client,
    registration: {
      name,
      instance: randomUUID(),
      kind: 'worker_pool',
      runtime: { kind: 'node', version: process.version },
      capacity: concurrency,
      pools: [...pools],
      heartbeat_seconds: Math.max(1, heartbeatSeconds),
      pid: process.pid,
      hostname: hostname(),
      ...(options.version === undefined ? {} : { version: options.version }),
    },
    concurrency,
    heartbeatMs: heartbeatSeconds * 1000,
    drainMs: drainSeconds * 1000,
    run: (command, stop, outsideSlot) => runCommand(command, { ...deps, outsideSlot }, stop),
    log,
    now,
  });
  meter?.beforeScrape(() => {
    const { busy, free } = loop.slots();
    meter.gauge('svc_worker_slots', busy, { state: 'busy' });
    meter.gauge('svc_worker_slots', free, { state: 'free' });
  });
  loop.start();
  let stopping: Promise<void> | null = null;
  const stop = async () => {
    await loop.stop();
    await requests.close();
    if (options.client === undefined) await client.close();
  };
  return {
    name,
    registered: loop.registered,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

type RunDeps = ExecuteDeps & { readonly outsideSlot: OutsideSlot };

/** Whatever is wrong with a command itself is an outcome too: nobody else could run it either. */
async function runCommand(wire: Command, deps: RunDeps, stop: AbortSignal): Promise<Outcome> {
  const ref = wire.context.context_ref;
  const stored: Json = ref === null ? null : await deps.client.resolveResult(ref, { signal: stop });
  return executeCommand(readCommand(wire, stored), deps, stop);
}
