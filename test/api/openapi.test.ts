import * as v from 'valibot';
import { expect, test } from 'vitest';
import { routesOf } from '../../src/host/host.ts';
import { pathOf } from '../../src/host/openapi.ts';
import { urlOf } from '../../src/host/routing.ts';
import { shadowedIds } from '../../src/host/shadowed-ids.ts';
import { fakeServices } from './fake-services.ts';
import { ask, CONFIG, hostOptions, testHost } from './test-host.ts';

const { app } = testHost();
const document = (await ask(app, 'GET', '/openapi.json')).json;
const routes = routesOf(fakeServices(), hostOptions());
const rows = routes.filter((row) => row.part !== true);

interface Operation {
  readonly responses: Readonly<Record<string, { readonly 'x-codes'?: readonly string[] }>>;
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly 'x-level': string;
  readonly 'x-role': readonly string[];
}
const operations: [string, Operation][] = Object.entries<Record<string, Operation>>(document.paths).flatMap(
  ([path, item]) =>
    Object.entries(item).map(([method, operation]): [string, Operation] => [
      `${method.toUpperCase()} ${path}`,
      operation,
    ]),
);

test('the document is OpenAPI 3.1 of this version', () => {
  expect(document.openapi).toBe('3.1.0');
  expect(document.info).toMatchObject({ title: 'Callboard', version: '1.0.0' });
});

test('HT-12 operations are the rows of the table, and nothing else', () => {
  expect(operations.map(([name]) => name).sort()).toEqual(
    rows.map((row) => `${row.method} ${pathOf(row.path)}`).sort(),
  );
});

test('HT-12 every row is served, and the server serves nothing but rows', async () => {
  await app.ready();
  for (const row of routes) {
    expect(app.hasRoute({ method: row.method, url: urlOf(row.path) }), `${row.method} ${row.path}`).toBe(true);
  }
  // Printed without common prefixes, the wildcards below different ones would be one line.
  const served = [...app.printRoutes().matchAll(/\(([A-Z, ]+)\)/g)].flatMap((found) => (found[1] ?? '').split(', '));
  // Rows of a greedy path that differ in their verb are one path to the router.
  const paths = [...new Set([...routes, ...shadowedIds(routes)].map((row) => `${row.method} ${urlOf(row.path)}`))];
  expect(served.filter((method) => method !== 'HEAD')).toHaveLength(paths.length);
  expect(served.filter((method) => method === 'HEAD')).toHaveLength(
    paths.filter((path) => path.startsWith('GET ')).length,
  );
});

test.each(operations)('HT-12 %s tells its level, roles, parameters and codes', (name, operation) => {
  expect(['seed', 'client', 'plus']).toContain(operation['x-level']);
  expect(operation['x-role'].length).toBeGreaterThan(0);
  const inPath = [...name.matchAll(/\{(\w+)\}/g)].map((found) => found[1]);
  expect((operation.parameters ?? []).filter((each) => each.in === 'path').map((each) => each.name)).toEqual(inPath);
  expect(operation.responses['500']?.['x-codes']).toContain('internal_error');
});

const withSchemas = rows.map((row) => [`${row.method} ${row.path}`, row] as const);

test.each(withSchemas)('HT-12 %s has examples that fit its schemas', (_name, row) => {
  const operation = document.paths[pathOf(row.path)][row.method.toLowerCase()];
  const exampleIn = (part: { content: Record<string, { example?: unknown }> }) =>
    part.content['application/json']?.example;
  if (row.body !== undefined) expect(v.safeParse(row.body, exampleIn(operation.requestBody)).issues).toBeUndefined();
  if (row.answer !== undefined) {
    const shown = exampleIn(operation.responses[String(row.status ?? 200)]);
    expect(v.safeParse(row.answer, shown).issues).toBeUndefined();
  }
  for (const [status, refusal] of Object.entries<{ 'x-codes'?: readonly string[] } & Parameters<typeof exampleIn>[0]>(
    operation.responses,
  )) {
    if (refusal['x-codes'] === undefined || status === '503') continue;
    expect(exampleIn(refusal)).toMatchObject({ code: refusal['x-codes'][0], request_id: expect.any(String) });
  }
});

test.each(operations)('%s tells what any request may be answered with', (name, operation) => {
  const told = (status: string) => operation.responses[status]?.['x-codes'] ?? [];
  expect([told('408'), told('413')]).toEqual([['request_timeout'], ['payload_too_large']]);
  if (name.includes('{')) expect(told('404')).toContain('not_found');
  expect(told('415')).toEqual(name.startsWith('GET ') ? [] : ['unsupported_media_type']);
});

test.each([
  ['/api/events/{execution_id}', ['application/json', 'application/x-ndjson']],
  ['/api/executions/{execution_id}/events', ['application/json', 'application/x-ndjson']],
  ['/api/machines/{name}', ['application/json', 'text/plain', 'application/scxml+xml']],
])('%s tells all its media types', (path, types) => {
  expect(Object.keys(document.paths[path].get.responses['200'].content)).toEqual(types);
});

test.each(['/api/execute', '/api/run/playbook'])('%s tells that playbooks may be nested too deep', (path) => {
  expect(document.paths[path].post.responses['422']['x-codes']).toContain('nesting_too_deep');
});

test('browsers are told to be sent on', () => {
  expect(document.paths['/'].get.responses).toHaveProperty('302');
});

test('every operation has an id of its own', () => {
  const ids = operations.map(([, operation]) => Reflect.get(operation, 'operationId'));
  expect(new Set(ids).size).toBe(ids.length);
});

test('ids, limits and defaults of the schemas are shown', () => {
  const events = document.paths['/api/events/{execution_id}'].get.parameters;
  expect(events.find((each: { name: string }) => each.name === 'page_size').schema).toEqual({
    type: 'integer',
    minimum: 10,
    maximum: 500,
  });
  const body = document.paths['/api/execute'].post.requestBody.content['application/json'];
  expect(body.schema.properties.priority.anyOf[0]).toEqual({ type: 'integer', minimum: -100, maximum: 100 });
  expect(body.schema.properties.catalog_id.anyOf[0].anyOf[0].type).toBe('integer');
  const claim = document.paths['/api/commands/claim'].post.requestBody.content['application/json'];
  expect(claim.schema.properties.pools.anyOf[0]).toMatchObject({
    type: 'array',
    maxItems: 64,
    items: { type: 'string', pattern: expect.any(String) },
  });
  expect(body.example).toEqual({ path: 'demo/greet', workload: { who: 'world' } });
});

test.each(['/docs', '/redoc'])('%s is a page that asks no other origin for anything', async (url) => {
  const page = await ask(app, 'GET', url, { headers: { accept: 'text/html' } });
  expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
  expect(page.headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self';/);
  expect(page.text).not.toMatch(/<script(?![^>]*\bsrc=)/);
  expect(page.text).not.toMatch(/\son\w+=/);
  const asked = [...page.text.matchAll(/<(?:script|link|img|iframe)\b[^>]*?(?:src|href)="([^"]+)"/g)].map(
    (found) => found[1] ?? '',
  );
  expect(asked.length).toBeGreaterThan(0);
  for (const address of asked) {
    expect(address).toMatch(/^\/(?!\/)/);
    const part = await ask(app, 'GET', address);
    expect(part.status).toBe(200);
    if (String(part.headers['content-type']).startsWith('text/css')) {
      expect(part.text).not.toMatch(/url\(["']?(?:https?:)?\/\//);
      expect(part.text).not.toContain('@import');
    }
  }
});

test('the reading view shows every operation and escapes what it shows', async () => {
  const { text } = await ask(app, 'GET', '/redoc');
  for (const [, operation] of operations) expect(text).toContain(`id="${Reflect.get(operation, 'operationId')}"`);
  expect(text).not.toContain('<path>');
});

test('the documentation can be switched off', async () => {
  const silent = testHost(fakeServices(), { config: { ...CONFIG, docsEnabled: false } }).app;
  for (const url of ['/docs', '/redoc', '/openapi.json', '/docs/swagger-ui.css']) {
    expect((await ask(silent, 'GET', url)).status).toBe(404);
  }
});
