/** Simulations for tests: steps as in test/support/playbooks.ts, outcomes as an author writes them. */
import * as v from 'valibot';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { Library } from '../../src/simulate/simulated-catalog.ts';
import { type Simulation, simulate } from '../../src/simulate/simulator.ts';
import { simulationFields, toSimulation } from '../../src/wire/simulate.ts';

export const NOTHING: Library = async ({ path }) => ({
  refused: { code: 'not_found', message: `Executable catalog entry not found: ${path}` },
});

/** YAML is a superset of JSON. */
export function documentOf(steps: readonly JsonMap[], keys: JsonMap = {}): string {
  const metadata = { name: 'simulated', path: 'tests/simulated' };
  return JSON.stringify({ apiVersion: 'callboard/v2', kind: 'Playbook', metadata, ...keys, workflow: steps });
}

export function simulated(
  content: string | readonly JsonMap[],
  options: { readonly [key: string]: Json } = {},
  library: Library = NOTHING,
  wallMs?: number,
): Promise<Simulation> {
  const given = v.parse(v.strictObject(simulationFields), options);
  const text = typeof content === 'string' ? content : documentOf(content);
  const request = toSimulation({ content: text, path: null, version: 1, catalogId: null }, given);
  return simulate(request, library, wallMs === undefined ? {} : { wallMs });
}

export function lines({ events }: Pick<Simulation, 'events'>): readonly string[] {
  return events.map((event) => `${event.type} ${event.nodeId}`);
}
