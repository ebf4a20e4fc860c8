/** A dry run of a playbook (api 2.2.16): stored or not, it is simulated elsewhere and nothing of it is kept. */
import type { InferOutput } from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import type { SimulatedDocument } from '../../machines/simulation.ts';
import { simulateBody, simulated, toSimulation } from '../wire/simulate.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

export function simulateRoutes({ services }: ApiContext): Route[] {
  const { catalog, simulation } = services;

  async function documentOf(body: InferOutput<typeof simulateBody>): Promise<SimulatedDocument> {
    const { content, path } = body;
    if (content != null) return { content, path: path ?? null, version: 1, catalogId: null };
    const entry =
      body.catalog_id != null
        ? await catalog.byId(body.catalog_id)
        : await catalog.get(path ?? '', body.version ?? 'latest');
    if (entry === null) {
      const named = body.catalog_id == null ? `Playbook '${path}'` : `Catalog entry ${body.catalog_id}`;
      throw new DomainError('not_found', `${named} not found`);
    }
    return { content: entry.content, path: entry.path, version: entry.version, catalogId: entry.catalogId };
  }

  return [
    route({
      method: 'POST',
      path: '/api/catalog/playbooks/simulate',
      level: 'plus',
      role: ['V'],
      tag: 'Catalog',
      summary: 'Run a playbook dry: scripted tools, virtual time, the resulting events; nothing is stored',
      body: simulateBody,
      bodyLimit: 'general',
      answer: simulated,
      codes: ['playbook_invalid', 'kind_not_executable', 'not_found', 'pool_saturated'],
      example: {
        request: {
          path: 'demo/greet',
          workload: { who: 'world' },
          outcomes: [{ step: 'start', result: { text: 'Hello, world!' }, duration_ms: 1500 }],
        },
      },
      waits: true,
      handle: async ({ body, reply }) => {
        const text = await simulation.simulate(toSimulation(await documentOf(body), body));
        // Written in the thread that simulated; it is not read here again.
        return reply.type('application/json; charset=utf-8').send(text);
      },
    }),
  ];
}
