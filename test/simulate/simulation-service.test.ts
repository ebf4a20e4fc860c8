/** Simulations of the server: off its event loop, bounded, and with the playbooks of its catalog. */
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { DomainError } from '../../actors/errors.ts';
import type { JsonMap } from '../../machines/json.ts';
import { createSimulationService } from '../../src/simulate/simulation-service.ts';
import { type Simulated, toSimulation } from '../../src/wire/simulate.ts';
import { fakeServices } from '../api/fake-services.ts';
import { ask, testHost } from '../api/test-host.ts';
import { step } from '../support/playbooks.ts';
import { documentOf } from './simulations.ts';

const CHILD = documentOf([step('c', { tool: { kind: 'noop', result: 5 } })], { metadata: { name: 'c', path: 'x/c' } });
const entry = { content: CHILD, path: 'x/c', version: 2, catalogId: 31 };
const asked: unknown[] = [];
const catalog = {
  executable: async (query: { path?: string }) => {
    asked.push(query);
    if (query.path !== 'x/c') throw new DomainError('not_found', `Executable catalog entry not found: ${query.path}`);
    // What the simulation reads of it.
    return { entry } as never;
  },
};
const service = createSimulationService({ catalog, wallMs: 1_500 });
beforeEach(() => {
  asked.length = 0;
});
afterAll(() => service.close());

async function run(steps: readonly JsonMap[], options = {}): Promise<Simulated> {
  const document = { content: documentOf(steps), path: null, version: 1, catalogId: null };
  return JSON.parse(await service.simulate(toSimulation(document, options)));
}

describe('the thread that simulates', () => {
  test('finds children in the catalog', async () => {
    const told = await run([step('a', { tool: { kind: 'playbook', path: 'x/c', wait: true } })]);
    expect(told).toMatchObject({ status: 'completed', result: { value: 5, path: 'x/c' } });
    expect(told.children).toMatchObject([{ path: 'x/c', status: 'completed', result: 5 }]);
    expect(asked).toEqual([{ path: 'x/c', purpose: 'view' }]);
  });

  test('passes refusals on', async () => {
    const document = { content: 'workflow: []', path: null, version: 1, catalogId: null };
    await expect(service.simulate(toSimulation(document, {}))).rejects.toMatchObject({ code: 'playbook_invalid' });
  });

  test('leaves the event loop alone while a playbook spins, and ends it', async () => {
    const spin = '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}';
    const again = { arcs: [{ step: 'a' }] };
    let turns = 0;
    let isOver = false;
    const count = (): void => {
      turns += 1;
      if (!isOver) setTimeout(count, 5);
    };
    count();
    const rules = [{ else: { do: 'jump', to: 'x' } }];
    const tool = [{ name: 'x', kind: 'noop', result: spin, spec: { policy: { rules } } }];
    const told = await run([step('a', { tool, next: again })]);
    isOver = true;
    expect(told).toMatchObject({ status: 'LIMIT', error: 'The simulation was stopped: it took too long' });
    expect(turns).toBeGreaterThan(20);
    // The thread that was lost is replaced.
    expect(await run([step('b')])).toMatchObject({ status: 'completed' });
  });
});

describe('POST /api/catalog/playbooks/simulate', () => {
  const { app } = testHost({ ...fakeServices(), simulation: service });
  const simulate = (body: JsonMap) => ask(app, 'POST', '/api/catalog/playbooks/simulate', { payload: body });

  test('simulates a text', async () => {
    const content = documentOf([step('a', { tool: { kind: 'http', url: 'https://x.test' } })]);
    const answer = await simulate({ content, outcomes: [{ step: 'a', result: { n: 1 }, duration_ms: 3_600_000 }] });
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject({ status: 'completed', result: { n: 1 }, virtual_ms: 3_600_000, unmatched: [] });
  });

  test('names everything that is wrong with a request', async () => {
    const answer = await simulate({ content: 'x', outcomes: [{ step: 'a', when: '{{ 1 +' }, { try: 0 }] });
    expect(answer.status).toBe(422);
    expect(answer.json.errors).toEqual([
      'body.outcomes[0].when: must be a condition that can be read: unexpected end in "1 +"',
      "body.outcomes[1]: 'step' is required",
      'body.outcomes[1].try: must be at least 1',
    ]);
    expect((await simulate({})).json.errors).toEqual(['body: needs content, path or catalog_id']);
  });

  test('refuses a text that does not pass its checks', async () => {
    const answer = await simulate({ content: 'kind: Playbook\nworkflow: []' });
    expect(answer).toMatchObject({ status: 422, json: { code: 'playbook_invalid' } });
  });
});
