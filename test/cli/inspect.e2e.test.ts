import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { type LanguageStack, startLanguageStack } from '../support/language-stack.ts';
import { Stage } from '../support/processes.ts';
import { startWebSocketServer, type WebSocketServer } from '../support/websocket-server.ts';

const stage = new Stage();
let stack: LanguageStack;
let inspector: WebSocketServer;

beforeAll(async () => {
  stack = await startLanguageStack();
  inspector = await startWebSocketServer();
}, 60_000);
afterAll(async () => {
  await stage.close();
  await inspector.close();
  await stack.close();
});

const WORKFLOW = `
  - step: a
    tool: { kind: noop, result: { secret: canary-of-a-value } }
    next: { arcs: [{ step: b }] }
  - step: b
    tool: { kind: noop }
`;

interface Told {
  readonly type: string;
  readonly sessionId: string;
  readonly rootId: string;
  readonly id: string;
  readonly createdAt: string;
  readonly _version: string;
  readonly name?: string;
  readonly definition?: string;
  readonly event?: JsonMap;
  readonly snapshot?: { readonly status: string; readonly value: unknown; readonly context: JsonMap };
}

async function inspect(words: readonly string[], to: string) {
  const started = stage.start(['inspect', ...words, '--to', to], { SVC_SERVER_URL: stack.serverUrl });
  const { code } = await started.ended;
  return { code, output: started.output() };
}

const toldOf = (texts: readonly string[], id: number) =>
  texts.map((text) => JSON.parse(text) as Told).filter(({ sessionId }) => sessionId === `execution:${id}`);

test('a run is shown from its first event to its end, in the protocol of the inspector', async () => {
  const run = await stack.run(WORKFLOW);
  const { code, output } = await inspect([String(run.id)], inspector.url);
  expect([code, output]).toEqual([
    0,
    expect.stringMatching(new RegExp(`^${run.id} language/.*: \\d+ changes shown\n$`)),
  ]);
  await expect.poll(() => toldOf(inspector.texts, run.id).at(-1)?.snapshot?.status).toBe('done');
  const [actor, ...rest] = toldOf(inspector.texts, run.id);
  expect(actor).toMatchObject({
    type: '@xstate.actor',
    rootId: `execution:${run.id}`,
    name: expect.stringContaining('language/'),
    snapshot: { status: 'active', value: 'created', context: {} },
  });
  expect(JSON.parse(actor?.definition ?? '')).toMatchObject({ id: 'execution', initial: 'created' });
  // Each event stands before the snapshot it led to.
  expect(rest.map(({ type }) => type)).toEqual(
    rest.map((_, index) => (index % 2 === 0 ? '@xstate.event' : '@xstate.snapshot')),
  );
  expect(rest[0]?.event).toMatchObject({ type: 'execution.started' });
  expect(rest.at(-1)?.snapshot).toMatchObject({ status: 'done', value: 'completed' });
  expect(new Set([actor, ...rest].map((each) => each?.id)).size).toBe(rest.length + 1);
  for (const each of rest) expect(Number(each.createdAt)).toBeGreaterThan(Date.UTC(2020, 0));
  // The last context is that of the API, and no value was told.
  const response = await fetch(`${stack.serverUrl}/api/executions/${run.id}/machine`);
  const { context, value } = (await response.json()) as { context: JsonMap; value: unknown };
  expect(rest.at(-1)?.snapshot).toMatchObject({ value, context });
  expect(inspector.texts.join()).not.toContain('canary-of-a-value');
}, 60_000);

test('a run that goes on is followed, several at once', async () => {
  const path = await stack.register(WORKFLOW);
  const start = async () => (await stack.client.execute({ path, execution_pool: 'nobody' } as never)).execution_id;
  const ids = [await start(), await start()];
  const shown = inspect(ids.map(String), inspector.url);
  await expect
    .poll(() => ids.map((id) => toldOf(inspector.texts, id).at(-1)?.snapshot?.value), { timeout: 30_000 })
    .toEqual([{ running: 'working' }, { running: 'working' }]);
  for (const id of ids) await stack.client.cancel(id, { reason: 'seen enough' });
  expect((await shown).code).toBe(0);
  await expect
    .poll(() => ids.map((id) => toldOf(inspector.texts, id).at(-1)?.snapshot?.value), { timeout: 30_000 })
    .toEqual(['cancelled', 'cancelled']);
}, 60_000);

test('an inspector that is not there, or goes away, is told of with the remedy', async () => {
  const { id } = await stack.run(WORKFLOW);
  expect(await inspect([String(id)], 'ws://127.0.0.1:9')).toEqual({
    code: 4,
    output: expect.stringMatching(/no inspector answers at .* --to/),
  });
  expect(await inspect([String(id)], 'mailto:x')).toEqual({
    code: 2,
    output: expect.stringContaining('--to must be an address'),
  });
  expect((await inspect(['999999'], inspector.url)).output).toContain('not found');
  const path = await stack.register(WORKFLOW);
  const { execution_id } = await stack.client.execute({ path, execution_pool: 'nobody' } as never);
  const own = await startWebSocketServer();
  const shown = inspect([String(execution_id)], own.url);
  await expect.poll(() => own.texts.length, { timeout: 30_000 }).toBeGreaterThan(2);
  own.cut();
  await stack.client.cancel(execution_id, { reason: 'enough' });
  expect(await shown).toEqual({ code: 4, output: expect.stringContaining('the inspector has closed the connection') });
  await own.close();
}, 60_000);
