/** Charts (api 2.16): their documents, where an execution, command or keychain entry stands, and trying out events. */
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import { configOf, definitionOf, mermaidOf, scxmlOf } from '../../machines/draw.ts';
import { CHARTS, type Chart, chartNamed, EXECUTION_CHART } from '../../machines/index.ts';
import { layoutOf } from '../../machines/layout.ts';
import { outlineOf } from '../../machines/outline.ts';
import { id, name } from '../wire/ids.ts';
import {
  batchMachine,
  batchMachineToWire,
  commandMachine,
  commandMachineToWire,
  executionMachine,
  executionMachineToWire,
  frameToWire,
  keychainMachine,
  keychainMachineToWire,
  machineDocument,
  machineListed,
  trace,
  trialAnswer,
  trialBody,
  trialToWire,
} from '../wire/machine.ts';
import { queryFlag, queryInteger, queryText } from '../wire/query-fields.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Machines';
const machineName = v.object({ name: queryText(64) });
const executionId = v.object({ execution_id: id });
const TRACE_LIMIT = { usual: 500, most: 5000 };
const keychainScope = v.picklist(['local', 'global', 'shared', 'catalog'], 'must be local, global, shared or catalog');

export function machineRoutes({ services }: ApiContext): Route[] {
  const { executionAccess, inspection } = services;
  return [
    route({
      method: 'GET',
      path: '/api/machines',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'The charts that run here',
      answer: v.object({ machines: v.array(machineListed) }),
      handle: async () => ({
        machines: CHARTS.map((chart) => ({
          name: chart.name,
          version: chart.version,
          states: outlineOf(chart.machine).states.length,
          description: chart.description,
        })),
      }),
    }),
    route({
      method: 'GET',
      path: '/api/machines/{name}',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'One chart: config, definition, layout, Mermaid and SCXML; or one of the two texts alone',
      params: machineName,
      query: v.object({
        format: v.optional(v.picklist(['json', 'mermaid', 'scxml'], 'must be json, mermaid or scxml')),
      }),
      answer: machineDocument,
      texts: ['text/plain', 'application/scxml+xml'],
      codes: ['not_found'],
      handle: async ({ params, query, reply }) => {
        const chart = chartOf(params.name);
        if (query.format === 'mermaid') return reply.type('text/plain; charset=utf-8').send(mermaidOf(chart));
        if (query.format === 'scxml') return reply.type('application/scxml+xml; charset=utf-8').send(scxmlOf(chart));
        return documentOf(chart);
      },
    }),
    route({
      method: 'POST',
      path: '/api/machines/{name}/transition',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'What an event would do: the code of production on a copy; nothing is stored',
      params: machineName,
      body: trialBody,
      bodyLimit: 'general',
      answer: trialAnswer,
      codes: ['not_found'],
      example: {
        request: {
          snapshot: { value: 'PENDING', context: {} },
          event: { type: 'command.claimed', attempt: 1, worker_id: 'worker-7' },
        },
      },
      handle: async ({ params, body }) =>
        trialToWire(
          await inspection.trial({
            machine: chartOf(params.name).name,
            snapshot:
              body.snapshot == null ? null : { value: body.snapshot.value, context: body.snapshot.context ?? {} },
            executionId: body.execution_id ?? null,
            at: body.at ?? null,
            event: body.event,
          }),
        ),
    }),
    route({
      method: 'GET',
      path: '/api/executions/{execution_id}/machine',
      level: 'plus',
      role: ['V'],
      tag,
      summary:
        'Where the chart of an execution stands, or stood right after an event; what could happen next; why it waits',
      params: executionId,
      query: v.object({ at: v.optional(id) }),
      answer: executionMachine,
      codes: ['not_found'],
      handle: async ({ params, query }) =>
        executionMachineToWire(await inspection.execution(params.execution_id, query.at ?? null)),
    }),
    route({
      method: 'GET',
      path: '/api/executions/{execution_id}/trace',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'The frames of an execution in the order of the fold; `n` is the cursor',
      params: executionId,
      query: v.object({
        after: v.optional(queryInteger(0, Number.MAX_SAFE_INTEGER)),
        limit: v.optional(queryInteger(1, TRACE_LIMIT.most)),
        all: v.optional(queryFlag),
      }),
      answer: trace,
      codes: ['not_found'],
      handle: async ({ params, query }) => {
        const page = await inspection.trace(params.execution_id, {
          after: query.after ?? 0,
          limit: query.limit ?? TRACE_LIMIT.usual,
          all: query.all ?? false,
        });
        return {
          execution_id: params.execution_id,
          machine: EXECUTION_CHART.name,
          machine_version: EXECUTION_CHART.version,
          frames: page.frames.map(frameToWire),
          next_after: page.nextAfter,
        };
      },
    }),
    route({
      method: 'GET',
      path: '/api/commands/{command_id}/machine',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'Where the chart of a command stands',
      params: v.object({ command_id: id }),
      answer: commandMachine,
      codes: ['not_found'],
      handle: async ({ params }) => {
        const view = await inspection.command(params.command_id);
        await executionAccess.check(view.row.executionId, 'view');
        return commandMachineToWire(view);
      },
    }),
    route({
      method: 'GET',
      path: '/api/events/batch/{request_id}/machine',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'Where the chart of a batch stands',
      params: v.object({ request_id: id }),
      answer: batchMachine,
      codes: ['not_found'],
      handle: async ({ params }) => {
        const view = await inspection.batch(params.request_id);
        await executionAccess.check(view.row.executionId, 'view');
        return batchMachineToWire(view);
      },
    }),
    route({
      method: 'GET',
      path: '/api/keychain/{catalog_id}/{keychain_name}/machine',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'Where the chart of a keychain entry stands; nothing is read or counted',
      params: v.object({ catalog_id: id, keychain_name: name }),
      query: v.object({ scope_type: v.optional(keychainScope), execution_id: v.optional(id) }),
      answer: keychainMachine,
      codes: ['not_found'],
      handle: async ({ params, query }) => {
        await executionAccess.checkPlaybook(params.catalog_id, 'view');
        const scope = query.scope_type ?? 'global';
        const owner = { catalogId: params.catalog_id, name: params.keychain_name };
        const view = await inspection.entry({
          ...owner,
          scope: scope === 'catalog' ? 'global' : scope,
          executionId: query.execution_id ?? null,
        });
        return keychainMachineToWire(owner, view);
      },
    }),
  ];
}

function chartOf(given: string): Chart {
  const chart = chartNamed(given);
  if (chart === null) throw new DomainError('not_found', `Machine '${given}' not found`);
  return chart;
}

function documentOf(chart: Chart): v.InferOutput<typeof machineDocument> {
  const { nodes, edges, w, h } = layoutOf(chart);
  const transitions = new Map(outlineOf(chart.machine).transitions.map((each) => [each.id, each]));
  return {
    name: chart.name,
    version: chart.version,
    description: chart.description,
    config: configOf(chart),
    definition: definitionOf(chart),
    layout: {
      nodes: nodes.map((node) => ({ ...node })),
      edges: edges.map((edge) => {
        const { event, guard } = transitions.get(edge.id) ?? { event: '', guard: null };
        return { ...edge, event, guard };
      }),
      w,
      h,
    },
    mermaid: mermaidOf(chart),
    scxml: scxmlOf(chart),
  };
}
