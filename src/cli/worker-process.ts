/** A worker with its tools, composed from the configuration: what `callboard worker` is, and a part of `dev` and `run`. */
import { type Config, ConfigError } from '../config.ts';
import type { Log } from '../log.ts';
import { createMeter } from '../metrics.ts';
import { createTracing } from '../telemetry/tracer.ts';
import { createTools, type Tools } from '../tools/registry.ts';
import type { Line } from '../wire/line.ts';
import { startWorker } from '../worker/main.ts';
import { serveMetrics } from '../worker/metrics-server.ts';
import { packageVersion } from './package-version.ts';

export interface WorkerProcess {
  readonly name: string;
  /** Resolves when the server knows the worker. */
  readonly registered: Promise<void>;
  /** Takes nothing new, lets running work end, then closes the tools. */
  stop(): Promise<void>;
}

/** `line` leads to a server in this process. Throws ConfigError for an egress rule that cannot be read. */
export async function startWorkerProcess(
  config: Config,
  log: Log,
  { line = null }: { readonly line?: Line | null } = {},
): Promise<WorkerProcess> {
  const version = packageVersion();
  const tools = toolsOf(config, version);
  const meter = createMeter({ processMetrics: true });
  meter.gauge('svc_up', 1);
  meter.gauge('svc_process_start_time_seconds', performance.timeOrigin / 1000);
  const tracer = createTracing(config, { service: 'callboard-worker', version, meter });
  const { metricsPort } = config.worker;
  const door = metricsPort === null ? null : await serveMetrics(metricsPort, meter);
  if (door !== null) log.info('The worker shows its metrics', { port: door.port });
  const worker = await startWorker({ config, log, tools, version, meter, tracer, line });
  return {
    name: worker.name,
    registered: worker.registered,
    stop: async () => {
      await worker.stop();
      await tools.close();
      await tracer.close();
      await door?.close();
    },
  };
}

function toolsOf(config: Config, version: string): Tools {
  try {
    return createTools({
      httpMaxResponseBytes: config.httpMaxResponseBytes,
      toolTimeoutSeconds: config.toolTimeoutSeconds,
      pythonBin: config.pythonBin,
      scriptDir: config.scriptDir,
      jsMemoryMb: config.jsMemoryMb,
      jsAllowedModules: config.jsAllowedModules,
      mcpUrl: config.mcpUrl,
      duckdbMemoryMb: config.duckdbMemoryMb,
      duckdbExternalAccess: config.duckdbExternalAccess,
      egress: { policy: config.egressPolicy, allow: config.egressAllow, deny: config.egressDeny },
      secretEndpoints: {
        aws: config.awsSecretsEndpoint,
        gcp: config.gcpSecretsEndpoint,
        azureVault: config.azureVaultEndpoint,
        azureLogin: config.azureLoginEndpoint,
      },
      metadataUrl: config.gcpMetadataEndpoint,
      version,
    });
  } catch (error) {
    if (error instanceof RangeError) throw new ConfigError([`SVC_EGRESS_ALLOW or SVC_EGRESS_DENY: ${error.message}`]);
    throw error;
  }
}
