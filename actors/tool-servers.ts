/**
 * Tool servers of the catalog (api 2.14.1, 2.14.2): an action on one is an execution of the playbook its entry names;
 * what it offers is asked for by such a playbook, or by the service itself. The service runs nothing there: it only
 * remembers which tools a server said it has, as a new version of its entry.
 */
import { isMap, type JsonMap } from '../machines/json.ts';
import { haveSameTools, lifecycleAgent, readToolServer, withTools } from '../machines/playbook/tool-server.ts';
import { DomainError } from './errors.ts';
import type { CatalogEntry, CatalogService, ExecutionService } from './services.ts';

export interface LifecycleRequest {
  /** A catalog path; a name alone is looked for below `mcp/`. */
  readonly path: string;
  readonly version: number | 'latest';
  readonly action: string;
  readonly overrides: JsonMap;
  readonly idempotencyKey: string | null;
}

export interface LifecycleReceipt {
  readonly verb: string;
  readonly path: string;
  readonly version: number;
  readonly agentPath: string;
  readonly executionId: number;
}

export type Discovery =
  | { readonly strategy: 'agent'; readonly receipt: LifecycleReceipt }
  | {
      readonly strategy: 'direct';
      readonly isNew: boolean;
      readonly path: string;
      readonly versionBefore: number;
      readonly versionAfter: number;
      readonly toolsBefore: number;
      readonly toolsAfter: number;
    };

export interface ToolServerService {
  /** Throws not_found (server or agent), validation_error, and what a start throws. */
  lifecycle(request: LifecycleRequest): Promise<LifecycleReceipt>;
  /** `force` stores a version although nothing changed. Throws also upstream_failed, upstream_timeout, egress_denied. */
  discover(request: { path: string; version: number | 'latest'; force: boolean }): Promise<Discovery>;
}

export type ToolListing =
  | { readonly ok: true; readonly tools: readonly JsonMap[] }
  | { readonly ok: false; readonly reason: 'denied' | 'timeout' | 'failed'; readonly sentence: string };

export interface ToolServerPorts {
  readonly catalog: Pick<CatalogService, 'get' | 'register'>;
  readonly executions: Pick<ExecutionService, 'start'>;
  /** Asks the server itself, within limits of its own; never throws for what the server does. */
  readonly listTools: (endpoint: string) => Promise<ToolListing>;
}

/** Keys of the workload that say what is acted on, and how; nobody lays anything over them. */
const RESERVED = ['mcp_resource', 'verb'] as const;

const REFUSALS = { denied: 'egress_denied', timeout: 'upstream_timeout', failed: 'upstream_failed' } as const;

export function createToolServerService({ catalog, executions, listTools }: ToolServerPorts): ToolServerService {
  async function find(path: string, version: number | 'latest'): Promise<CatalogEntry> {
    const named = path.includes('/') ? null : await catalog.get(`mcp/${path}`, version);
    const entry = named ?? (await catalog.get(path, version));
    if (entry === null || entry.status === 'archived') {
      throw new DomainError('not_found', `Tool server '${path}' not found`);
    }
    if (entry.kind === 'mcp') return entry;
    throw new DomainError('validation_error', `'${entry.path}' is of kind '${entry.kind}', not 'mcp'`);
  }

  async function run(entry: CatalogEntry, agentPath: string, request: LifecycleRequest): Promise<LifecycleReceipt> {
    const { path, version } = entry;
    const { spec, metadata } = readToolServer(entry.payload);
    const agent = await catalog.get(agentPath, 'latest');
    const { executionId } = await executions.start({
      path: agentPath,
      // An agent is what the contract names; a playbook does as well.
      resourceKind: agent?.kind === 'playbook' ? 'playbook' : 'agent',
      workload: { ...request.overrides, mcp_resource: { path, version, spec, metadata }, verb: request.action },
      idempotencyKey: request.idempotencyKey,
    });
    return { verb: request.action, path, version, agentPath, executionId };
  }

  return {
    async lifecycle(request) {
      refuseReserved(request.overrides);
      const entry = await find(request.path, request.version);
      const agentPath = lifecycleAgent(readToolServer(entry.payload).spec, request.action);
      if (agentPath !== null) return run(entry, agentPath, request);
      throw new DomainError(
        'validation_error',
        `Tool server '${entry.path}' declares no action '${request.action}' under spec.lifecycle`,
      );
    },

    async discover({ path, version, force }) {
      const entry = await find(path, version);
      const { spec, endpoint, tools: before } = readToolServer(entry.payload);
      const agentPath = lifecycleAgent(spec, 'discover');
      if (agentPath !== null) {
        const request = { path, version, action: 'discover', overrides: {}, idempotencyKey: null };
        return { strategy: 'agent', receipt: await run(entry, agentPath, request) };
      }
      if (endpoint === null) {
        throw new DomainError(
          'validation_error',
          `Tool server '${entry.path}' has neither spec.lifecycle.discover nor spec.endpoint nor spec.url`,
        );
      }
      const listing = await listTools(endpoint);
      if (!listing.ok) throw new DomainError(REFUSALS[listing.reason], listing.sentence);
      const isNew = force || !haveSameTools(before, listing.tools);
      const stored = isNew ? await store(entry, listing.tools, force) : { entry, unchanged: true };
      return {
        strategy: 'direct',
        isNew: !stored.unchanged,
        path: entry.path,
        versionBefore: entry.version,
        versionAfter: stored.entry.version,
        toolsBefore: before.length,
        toolsAfter: listing.tools.length,
      };
    },
  };

  /** Of several discoveries at once the first stores a version, and the others find it there. */
  async function store(entry: CatalogEntry, tools: readonly JsonMap[], force: boolean) {
    const content = withTools(entry.content, entry.payload, tools);
    return catalog
      .register({ content, resourceType: 'mcp', path: entry.path, ifChanged: !force })
      .catch((error: unknown) => {
        if (!(error instanceof DomainError) || error.code !== 'playbook_invalid') throw error;
        // The rest of the document was stored before, so it is the list that no document can hold.
        throw new DomainError(
          'upstream_failed',
          'The list of the tool server has what cannot be stored in the catalog',
        );
      });
  }
}

/** The inputs of a start may also stand in a map `ctx` (language 2.4), so the reserved ones are looked for there, too. */
function refuseReserved(overrides: JsonMap): void {
  const { ctx } = overrides;
  const errors = RESERVED.flatMap((key) => [
    ...(Object.hasOwn(overrides, key) ? [`body.workload_overrides.${key}: is reserved`] : []),
    ...(isMap(ctx) && Object.hasOwn(ctx, key) ? [`body.workload_overrides.ctx.${key}: is reserved`] : []),
  ]);
  if (errors.length > 0) throw new DomainError('validation_error', errors.join('; '), { errors });
}
