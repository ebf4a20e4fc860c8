/** Tool servers (api 2.14): actions on those of the catalog, what they offer, and the service as one itself. */
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import { createBuiltInTools } from '../mcp/built-in-tools.ts';
import { createPlaybookTools, isServedAlone } from '../mcp/playbook-tools.ts';
import { createResources } from '../mcp/resources.ts';
import { createMcpServer } from '../mcp/server.ts';
import { joinTools } from '../mcp/toolbox.ts';
import { catalogPath } from '../wire/ids.ts';
import { jsonBytes } from '../wire/json-size.ts';
import {
  action,
  discoverAnswer,
  discoverBody,
  discoveryToWire,
  lifecycleAnswer,
  lifecycleBody,
  lifecycleToWire,
  rpcAnswer,
  rpcRequest,
} from '../wire/mcp.ts';
import { readingOf } from './body-reading.ts';
import type { ApiContext } from './context.ts';
import { headerKeyOf } from './executions.ts';
import { answerRpc, explainer, refuseOrigin } from './json-rpc.ts';
import { type Route, route } from './route.ts';

const tag = 'Tool servers';
const RPC_BYTES_MAX = 4 * 1024 * 1024;
const WORKLOAD_BYTES_MAX = 1_048_576;
const START_CODES = ['not_found', 'kind_not_executable', 'playbook_invalid'] as const;
const PING = { jsonrpc: '2.0', id: 1, method: 'ping' };
const PONG = { jsonrpc: '2.0', id: 1, result: {} };

export function mcpRoutes(context: ApiContext): Route[] {
  const { services, clock, log, settings } = context;
  const { catalog, executions, toolServers } = services;
  const playbooks = createPlaybookTools({ catalog, executions, callTimeoutMs: settings.mcpCallTimeoutSeconds * 1000 });
  const own = createBuiltInTools({ services, clock });
  const toolbox = joinTools(own, playbooks.box(settings.mcpExpose, new Set(own.map((tool) => tool.name))));
  const resources = createResources({ services, clock });

  return [
    route({
      method: 'POST',
      path: '/api/mcp/{path…}/lifecycle/{action}',
      level: 'seed',
      role: ['O'],
      tag,
      summary: 'Start the playbook that performs an action on a tool server',
      params: v.object({ path: catalogPath, action }),
      body: lifecycleBody,
      bodyLimit: 'general',
      answer: lifecycleAnswer,
      codes: [...START_CODES, 'idempotency_conflict'],
      example: {
        request: {},
        answer: {
          status: 'started',
          verb: 'deploy',
          mcp_path: 'mcp/kubernetes',
          mcp_version: 2,
          agent_path: 'automation/mcp/deploy',
          execution_id: 41300,
        },
      },
      handle: async ({ params, body, request }) => {
        const overrides = body.workload_overrides ?? {};
        if (jsonBytes(overrides, WORKLOAD_BYTES_MAX) > WORKLOAD_BYTES_MAX) {
          throw new DomainError('payload_too_large', 'workload_overrides is larger than 1048576 bytes');
        }
        const receipt = await toolServers.lifecycle({
          path: params.path,
          version: body.version ?? 'latest',
          action: params.action,
          overrides,
          idempotencyKey: headerKeyOf(request),
        });
        return lifecycleToWire(receipt);
      },
    }),
    route({
      method: 'POST',
      path: '/api/mcp/{path…}/discover',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Learn which tools a tool server has, and store them as a new version of its entry',
      params: v.object({ path: catalogPath }),
      body: discoverBody,
      answer: discoverAnswer,
      codes: [...START_CODES, 'egress_denied', 'upstream_failed', 'upstream_timeout'],
      waits: true,
      example: { request: { force: false } },
      handle: async ({ params, body }) => {
        const { path } = params;
        return discoveryToWire(
          await toolServers.discover({ path, version: body.version ?? 'latest', force: body.force ?? false }),
        );
      },
    }),
    route({
      method: 'POST',
      path: '/api/mcp/playbook/{path…}/jsonrpc',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'One playbook as a tool server: JSON-RPC 2.0 with initialize, ping, tools/list and tools/call',
      params: v.object({ path: catalogPath }),
      body: rpcRequest,
      answer: rpcAnswer,
      // A notification is taken, and nothing is said of it.
      others: { 202: null },
      codes: ['not_found', 'pool_saturated'],
      example: { request: PING, answer: PONG },
      bodyLimit: RPC_BYTES_MAX,
      anyBody: true,
      waits: true,
      handle: async ({ params, body, request, reply }) => {
        const entry = await catalog.get(params.path, 'latest');
        if (entry === null || !isServedAlone(entry)) {
          throw new DomainError('not_found', `Playbook '${params.path}' not found`);
        }
        const server = createMcpServer({
          toolbox: playbooks.only(entry),
          resources: null,
          name: `callboard/${entry.path}`,
          version: settings.version,
          explain: explainer(request, log),
        });
        return answerRpc(server, readingOf(body), { request, reply }, context);
      },
    }),
    route({
      method: 'POST',
      path: '/mcp',
      level: 'plus',
      role: ['V', 'O'],
      tag,
      summary: 'The service as a tool server (streamable HTTP, stateless): exposed playbooks and its own tools',
      body: rpcRequest,
      answer: rpcAnswer,
      // A notification is taken, and nothing is said of it.
      others: { 202: null },
      codes: ['forbidden', 'pool_saturated'],
      example: { request: PING, answer: PONG },
      bodyLimit: RPC_BYTES_MAX,
      anyBody: true,
      waits: true,
      handle: ({ body, request, reply }) => {
        refuseOrigin(request, context.isOriginAllowed);
        const server = createMcpServer({
          toolbox,
          resources,
          name: 'callboard',
          version: settings.version,
          explain: explainer(request, log),
        });
        return answerRpc(server, readingOf(body), { request, reply }, context);
      },
    }),
  ];
}
