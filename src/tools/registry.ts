/**
 * The tools of a worker by kind. `playbook` and `workbook` are not here: they start work instead of doing it, and the
 * worker handles them itself.
 */
import { createArtifact } from './artifact.ts';
import { childEnvironment } from './child.ts';
import { createScriptLoader } from './code.ts';
import { createDuckdb } from './duckdb/duckdb.ts';
import { guarded } from './guard.ts';
import { createEgress, type EgressOptions } from './http/egress.ts';
import { createHttp } from './http/http.ts';
import { createOutbound } from './http/outbound.ts';
import { createTokens } from './http/tokens.ts';
import { createJavascript } from './javascript/javascript.ts';
import { createMcp } from './mcp/mcp.ts';
import { createNats } from './nats/nats.ts';
import { createNoop } from './noop.ts';
import { createPostgres } from './postgres/postgres.ts';
import { createPython } from './python/python.ts';
import { createSecretManagers, PUBLIC_ENDPOINTS, type SecretEndpoints } from './secret-managers/providers.ts';
import { createSecrets } from './secrets.ts';
import { createShell } from './shell.ts';
import type { Tool } from './tool.ts';
import { createTransfer } from './transfer/transfer.ts';

/** Values of the worker's configuration (language 15, api 8.4). */
export interface ToolOptions {
  /** Cap of a decoded HTTP body and of a query's rows, in bytes. */
  readonly httpMaxResponseBytes: number;
  /** Limit of one try where the task names none (all kinds but http), in seconds. */
  readonly toolTimeoutSeconds: number;
  readonly pythonBin: string;
  readonly scriptDir: string;
  readonly jsMemoryMb: number;
  readonly jsAllowedModules: readonly string[];
  readonly egress: EgressOptions;
  /** Tool server of mcp tasks that name none. */
  readonly mcpUrl?: string | null;
  /** Addresses of secret managers; the public ones when absent. */
  readonly secretEndpoints?: SecretEndpoints;
  /** The platform's metadata service; the well-known address when absent. */
  readonly metadataUrl?: string | null;
  readonly duckdbMemoryMb?: number;
  /** Whether statements of duckdb tasks may reach files and load extensions; false when absent. */
  readonly duckdbExternalAccess?: boolean;
  /** The worker's own environment; children see four variables of it, http its
   * `GOOGLE_OAUTH_ACCESS_TOKEN`, secrets `SVC_SECRET_*`, mcp `SVC_MCP_*_ENDPOINT`. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** For the `user-agent` of requests. */
  readonly version?: string;
  /** JavaScript processes kept ready after the first run; 2 when absent. */
  readonly jsSpares?: number;
  /** Milliseconds since the epoch; the system's clock when absent. */
  readonly now?: () => number;
}

export interface Tools extends ReadonlyMap<string, Tool>, AsyncDisposable {
  /** Ends pools, connections and child processes. Idempotent. */
  close(): Promise<void>;
}

/** Builds every tool; nothing is started or connected before its first run. Throws RangeError for a bad egress rule. */
export function createTools(options: ToolOptions): Tools {
  const environment = options.environment ?? process.env;
  const timeoutMs = options.toolTimeoutSeconds * 1000;
  const outbound = createOutbound(createEgress(options.egress), options.httpMaxResponseBytes);
  const platformToken = environment['GOOGLE_OAUTH_ACCESS_TOKEN'];
  const now = options.now ?? Date.now;
  const tokens = createTokens(outbound, { now, platformToken, metadataUrl: options.metadataUrl ?? null });
  const endpoints = options.secretEndpoints ?? PUBLIC_ENDPOINTS;
  const scripts = createScriptLoader(options.scriptDir, outbound, tokens);
  const duckdb = {
    memoryMb: options.duckdbMemoryMb ?? 1024,
    externalAccess: options.duckdbExternalAccess ?? false,
    environment: childEnvironment(environment),
  };
  const version = options.version ?? '0';
  const tools = [
    createNoop(),
    createArtifact(),
    createSecrets({ environment, managers: createSecretManagers({ outbound, tokens, endpoints, now }) }),
    createHttp({ outbound, tokens, version }),
    createMcp({ outbound, tokens, environment, defaultUrl: options.mcpUrl ?? null, version }),
    createNats({ maxBytes: options.httpMaxResponseBytes }),
    createDuckdb({ ...duckdb, timeoutMs, maxResultBytes: options.httpMaxResponseBytes }),
    createTransfer({ outbound, tokens, version, timeoutMs, duckdb }),
    createShell({ timeoutMs, environment }),
    createPostgres({ timeoutMs, maxResultBytes: options.httpMaxResponseBytes, scripts }),
    createPython({ bin: options.pythonBin, timeoutMs, environment, scripts }),
    createJavascript({
      timeoutMs,
      memoryMb: options.jsMemoryMb,
      allowedModules: options.jsAllowedModules,
      spares: options.jsSpares ?? 2,
      environment,
      scripts,
    }),
  ].map(guarded);

  const close = async () => {
    await Promise.all([...tools.map((tool) => tool.close?.()), outbound.close()]);
  };
  const byKind = new Map(tools.map((tool) => [tool.kind, tool]));
  return Object.assign(byKind, { close, [Symbol.asyncDispose]: close });
}
