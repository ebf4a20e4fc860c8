import * as v from 'valibot';
import { expect, test } from 'vitest';
import type { SimulationService } from '../../actors/services.ts';
import type { Route } from '../../src/api/route.ts';
import { routesOf } from '../../src/host/host.ts';
import { simulatedToWire } from '../../src/simulate/answer.ts';
import { simulate } from '../../src/simulate/simulator.ts';
import { documentOf, step } from '../support/playbooks.ts';
import { fakeServices } from './fake-services.ts';
import { ask, CONFIG, hostOptions, testHost } from './test-host.ts';

const PARAMS: Readonly<Record<string, string>> = {
  execution_id: '41007',
  command_id: '41012',
  request_id: '41100',
  schedule_id: '801',
  identifier: 'pg_auth',
  kind: 'playbook',
  catalog_id: '2003',
  keychain_name: 'billing',
  name: 'export',
  action: 'deploy',
  'path…': 'demo/greet',
  'id…': 'demo/greet',
};
const QUERIES: Readonly<Record<string, string>> = {
  '/api/catalog/playbook/content': '?playbook_id=2003',
  '/api/catalog/playbook': '?playbook_id=2003',
  '/api/result/resolve': '?ref=callboard://execution/41007/result/export/41230',
};
const BODIES: Readonly<Record<string, object>> = {
  '/api/context/render': { execution_id: 41007, template: '{{ workload.who }}' },
  '/api/admin/tokens': { name: 'ci', role: 'operator' },
  '/api/catalog/register': { content: 'kind: Playbook' },
  '/api/catalog/playbook': { content: 'kind: Playbook' },
  '/api/catalog/playbook/content': { content: 'kind: Playbook' },
  '/api/catalog/playbooks/validate': { content: 'kind: Playbook' },
  '/api/catalog/playbooks/graph': { content: documentOf([step('start')]) },
  '/api/catalog/playbooks/simulate': { content: documentOf([step('start')]) },
  '/api/machines/{name}/transition': { event: { type: 'execution.started' } },
  '/api/catalog/resource': { catalog_id: '2003' },
  '/api/execute': { path: 'demo/greet' },
  '/api/run/playbook': { path: 'demo/greet', payload: {} },
  '/api/events/batch': { execution_id: 41007, events: [] },
  '/api/events': { execution_id: 41007, event_type: 'report.note' },
  '/api/commands/claim': { worker_id: 'worker-7' },
  '/api/commands/{command_id}/claim': { worker_id: 'worker-7' },
  '/api/worker/exchange': { worker_id: 'worker-7', claim: { claim_id: 'c', max: 2 } },
  '/api/worker/pool/register': { name: 'worker-7' },
  '/api/worker/pool/heartbeat': { name: 'worker-7' },
  '/api/worker/pool/deregister': { name: 'worker-7' },
  '/api/credentials': { name: 'pg_auth', data: {} },
  '/api/keychain/{catalog_id}/{keychain_name}': { token_data: { access_token: 't' }, credential_type: 'bearer' },
  '/api/result/{execution_id}': { name: 'export', data: [1] },
  '/api/internal/sessions': { subject: 'u1', roles: ['viewer'], session_token: 't' },
  '/api/auth/session/validate': { session_token: 't' },
  '/api/auth/validate': { session_token: 't' },
  '/api/auth/check-access': { playbook_path: 'demo/greet', permission_type: 'view' },
  '/api/postgres/execute': { query: 'select 1' },
  '/api/admin/keys/retire': { kid: 'k1' },
  '/api/mcp/playbook/{path…}/jsonrpc': { jsonrpc: '2.0', id: 1, method: 'tools/list' },
  '/api/schedules': { name: 'nightly', path: 'demo/greet', cron: '0 3 * * *', version: 2, catch_up: 'last' },
  '/api/schedules/{schedule_id}': { interval_seconds: 90, enabled: false },
  '/api/catalog/playbooks/explain/ai': { path: 'demo/greet' },
  '/api/catalog/playbooks/generate/ai': { prompt: 'load a CSV file into PostgreSQL' },
  '/mcp': { jsonrpc: '2.0', id: 1, method: 'tools/list' },
};

/** Its answer is written where it is made, so a made-up one would show nothing. */
const simulation: SimulationService = {
  async simulate(request) {
    const refuse = async () => {
      throw new Error('this playbook has no children');
    };
    return JSON.stringify(simulatedToWire(await simulate(request, refuse, { wallMs: 5_000 })));
  },
};

const routes = routesOf(fakeServices(), hostOptions());
const answering = routes.filter((row) => row.answer !== undefined);

function urlOf(row: Route): string {
  const named = row.path.startsWith('/api/machines/') ? { ...PARAMS, name: 'execution' } : PARAMS;
  return row.path.replaceAll(/\{([^}]+)\}/g, (_all, name: string) => named[name] ?? 'x') + (QUERIES[row.path] ?? '');
}

/** Turns a schema into one that minds every field it does not know, all the way down. */
function strict(schema: v.GenericSchema): v.GenericSchema {
  const given = schema as unknown as {
    type: string;
    entries?: Record<string, v.GenericSchema>;
    item?: v.GenericSchema;
    wrapped?: v.GenericSchema;
    options?: v.GenericSchema[];
  };
  if (given.type === 'object') {
    return v.strictObject(
      Object.fromEntries(Object.entries(given.entries ?? {}).map(([key, each]) => [key, strict(each)])),
    );
  }
  if (given.type === 'array' && given.item !== undefined) return v.array(strict(given.item));
  if (given.type === 'optional' && given.wrapped !== undefined) return v.optional(strict(given.wrapped));
  if (given.type === 'nullable' && given.wrapped !== undefined) return v.nullable(strict(given.wrapped));
  if (given.type === 'union') return v.union((given.options ?? []).map(strict));
  return schema;
}

test.each(answering.map((row) => [`${row.method} ${row.path}`, row] as const))(
  '%s answers with exactly the documented fields',
  async (_name, row) => {
    const { app } = testHost(fakeServices({ simulation }), { config: { ...CONFIG, aiPlaybook: 'ai/helper' } });
    const body = row.method === 'GET' ? {} : { payload: BODIES[row.path] ?? {} };
    const answer = await ask(app, row.method, urlOf(row), body);
    expect(answer.status, answer.text).toBe(row.status ?? 200);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    if (row.answer === undefined) throw new Error('a row without a schema was asked');
    const parsed = v.safeParse(strict(row.answer), answer.json);
    expect(parsed.issues?.map((issue) => `${v.getDotPath(issue)}: ${issue.message}`)).toBeUndefined();
  },
);
