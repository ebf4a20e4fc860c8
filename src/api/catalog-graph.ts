/** A playbook as a drawing, also over an execution, and as the form that starts it (api 2.2.13, 2.2.14). */
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import { toWire } from '../../machines/playbook/diagnostics.ts';
import { runFormOf } from '../../machines/playbook/run-form.ts';
import { stepGraphOf } from '../../machines/playbook/step-graph.ts';
import { text } from '../wire/fields.ts';
import { runForm, runFormToWire, stepGraph, stepGraphToWire } from '../wire/graph.ts';
import { catalogPath, id } from '../wire/ids.ts';
import { queryVersion } from './catalog-reads.ts';
import { type ApiContext, nowIso } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Catalog';
const entryPath = v.object({ path: catalogPath });
const CONTENT_BYTES_MAX = 1_048_576;

export function catalogGraphRoutes({ services, clock }: ApiContext): Route[] {
  const { catalog, inspection } = services;

  async function entryAt(path: string, version: number | 'latest') {
    const entry = await catalog.get(path, version);
    if (entry === null) throw new DomainError('not_found', `resource not found: ${path}@${version}`);
    return entry;
  }

  return [
    route({
      method: 'GET',
      path: '/api/catalog/{path…}/ui_schema',
      level: 'client',
      role: ['V'],
      tag,
      summary: 'The form by which an entry is started: its workload, with what the comments direct',
      params: entryPath,
      query: v.object({ version: v.optional(queryVersion, 'latest') }),
      answer: runForm,
      codes: ['not_found'],
      handle: async ({ params, query }) => {
        const entry = await entryAt(params.path, query.version);
        return runFormToWire(runFormOf(entry.content), entry, nowIso(clock));
      },
    }),
    route({
      method: 'GET',
      path: '/api/catalog/{path…}/graph',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'The steps of a playbook as a graph; with execution_id also what that execution did with them',
      params: entryPath,
      query: v.object({ version: v.optional(queryVersion, 'latest'), execution_id: v.optional(id) }),
      answer: stepGraph,
      codes: ['not_found', 'kind_not_executable'],
      handle: async ({ params, query }) => {
        if (query.execution_id !== undefined) {
          const drawn = await inspection.drawn(query.execution_id);
          const { path, version } = drawn.row;
          if (path !== params.path) {
            const message = `query.execution_id: execution ${query.execution_id} ran '${path}'`;
            throw new DomainError('validation_error', message, { errors: [message] });
          }
          return stepGraphToWire(drawn.graph, { path, version }, drawn);
        }
        const entry = await entryAt(params.path, query.version);
        const { playbook } = await catalog.playbook(entry.catalogId);
        return stepGraphToWire(stepGraphOf(playbook), { path: entry.path, version: entry.version }, null);
      },
    }),
    route({
      method: 'POST',
      path: '/api/catalog/playbooks/graph',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'The steps of a text as a graph, without storing it',
      body: v.object({ content: text(CONTENT_BYTES_MAX, 1) }),
      bodyLimit: 'general',
      answer: stepGraph,
      codes: ['playbook_invalid', 'kind_not_executable'],
      handle: async ({ body }) => {
        const reading = await catalog.read(body.content, null);
        if (!reading.ok) {
          throw new DomainError('playbook_invalid', 'Playbook validation failed', {
            errors: reading.errors.map(toWire),
          });
        }
        const { playbook, path, kind } = reading.document;
        if (playbook === null) throw new DomainError('kind_not_executable', `Catalog kind '${kind}' is not executable`);
        return stepGraphToWire(stepGraphOf(playbook), { path, version: null }, null);
      },
    }),
  ];
}
