/** The service as a tool server, asked by the public client of the protocol over a socket. */
import { once } from 'node:events';
import { type ClientRequest, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterEach, describe, expect, test } from 'vitest';
import type { ExecutionRow } from '../../actors/ports.ts';
import type { StartRequest } from '../../actors/services.ts';
import { catalogEntry, executionRow, fakeServices, INSIGHT, RECEIPT } from '../api/fake-services.ts';
import { CONFIG, testHost } from '../api/test-host.ts';

const TEXT = `kind: Playbook
metadata: { name: greet, description: Says hello, exposes_as_mcp: true }
workload:
  who: world # description=Whom to greet
`;
const GREET = catalogEntry({
  content: TEXT,
  payload: { metadata: { name: 'greet', description: 'Says hello', exposes_as_mcp: true } },
});

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A listening service whose one execution ends, and is told of, when the test says so. */
async function serve(callTimeoutSeconds = 90) {
  const started: StartRequest[] = [];
  const { promise: isStarted, resolve: tellStart } = Promise.withResolvers<void>();
  const { promise: isLeft, resolve: tellLeft } = Promise.withResolvers<void>();
  const ending = Promise.withResolvers<ExecutionRow>();
  const followers = new Set<() => void>();
  let progress = 0;
  const services = fakeServices({
    catalog: {
      list: async () => [{ ...GREET, content: '' }],
      get: async () => GREET,
      byId: async () => GREET,
    },
    executions: {
      start: async (given) => {
        started.push(given);
        tellStart();
        return RECEIPT;
      },
      insight: async () => ({ ...INSIGHT, progress }),
      follow: (_id, onChange) => {
        const follower = () => onChange(1, 'running');
        followers.add(follower);
        return () => followers.delete(follower);
      },
      whenEnded: async (_id, signal) => {
        const stopped = once(signal, 'abort').then(() => {
          tellLeft();
          return executionRow();
        });
        return Promise.race([ending.promise, stopped]);
      },
    },
  });
  const { app, stop } = testHost(services, { config: { ...CONFIG, mcpCallTimeoutSeconds: callTimeoutSeconds } });
  await app.listen({ host: '127.0.0.1', port: 0 });
  closing.push(async () => {
    stop.abort();
    app.server.closeAllConnections();
    await app.close();
  });
  // A TCP server's address is an object once it listens.
  const { port } = app.server.address() as AddressInfo;
  return {
    port,
    started,
    isStarted,
    isLeft,
    followers,
    end: (change: Partial<ExecutionRow>) => ending.resolve(executionRow(change)),
    advance(percent: number) {
      progress = percent;
      for (const follower of followers) follower();
    },
    async client(path = '/mcp') {
      const client = new Client({ name: 'test', version: '1.0.0' });
      // The transport's optional members are typed without `undefined`, which the interface has.
      await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}${path}`)) as never);
      closing.push(() => client.close());
      return client;
    },
  };
}

describe('a client of the protocol', () => {
  test('gets to know the service', async () => {
    const client = await (await serve()).client();
    expect(client.getServerVersion()).toEqual({ name: 'callboard', title: 'Callboard', version: '1.0.0' });
    await client.ping();
    const { tools } = await client.listTools();
    expect(tools.map((tool) => tool.name)).toEqual([
      'callboard_list_playbooks',
      'callboard_execution_status',
      'callboard_execution_events',
      'callboard_explain',
      'callboard_start',
      'callboard_cancel',
      'demo_greet',
    ]);
    expect(tools.at(-1)).toEqual({
      name: 'demo_greet',
      title: 'greet',
      description: 'Says hello',
      inputSchema: {
        type: 'object',
        properties: { who: { type: 'string', description: 'Whom to greet', default: 'world' } },
      },
      _meta: { path: 'demo/greet', version: 3 },
    });
  });

  test('runs a playbook and gets its result', async () => {
    const world = await serve();
    const client = await world.client();
    world.end({ status: 'completed', result: { message: 'hello Ada' } });
    const found = await client.callTool({
      name: 'demo_greet',
      arguments: { who: 'Ada' },
      _meta: { idempotencyKey: 'call-1' },
    });
    const structured = { execution_id: 41007, status: 'completed', result: { message: 'hello Ada' }, error: null };
    expect(found).toMatchObject({ isError: false, structuredContent: structured });
    expect(found.content).toEqual([{ type: 'text', text: JSON.stringify(structured) }]);
    expect(world.started).toEqual([
      { path: 'demo/greet', resourceKind: 'playbook', workload: { who: 'Ada' }, idempotencyKey: 'call-1' },
    ]);
    expect(world.followers.size).toBe(0);
  });

  test.each(['failed', 'cancelled'] as const)('is told of one that %s', async (status) => {
    const world = await serve();
    const client = await world.client();
    world.end({ status, error: 'Step start: no' });
    expect(await client.callTool({ name: 'demo_greet', arguments: {} })).toMatchObject({
      isError: true,
      structuredContent: { execution_id: 41007, status, result: null, error: 'Step start: no' },
    });
  });

  test('hears of progress that rises, then gets the answer', async () => {
    const world = await serve();
    const client = await world.client();
    const heard: number[] = [];
    const rungs = [33, 33, 20, 67];
    const call = client.callTool({ name: 'demo_greet', arguments: {} }, undefined, {
      onprogress: ({ progress, total }) => {
        expect(total).toBe(100);
        heard.push(progress);
        for (const rung of rungs.splice(0, progress === 0 ? 1 : rungs.length)) world.advance(rung);
        if (progress === 67) world.end({ status: 'completed' });
      },
    });
    expect(await call).toMatchObject({ structuredContent: { status: 'completed' } });
    expect(heard).toEqual([0, 33, 67]);
  });

  test('gets the id of an execution that takes longer than a call may', async () => {
    const client = await (await serve(0.05)).client();
    expect(await client.callTool({ name: 'demo_greet', arguments: {} })).toMatchObject({
      isError: false,
      structuredContent: { execution_id: 41007, status: 'running', result: null },
    });
  });

  test('may leave, and nobody waits for it any more', async () => {
    const world = await serve();
    const asked = post(world.port, { name: 'demo_greet', arguments: {}, _meta: { progressToken: 1 } });
    asked.on('error', () => {});
    await world.isStarted;
    asked.destroy();
    await world.isLeft;
    await expect.poll(() => world.followers.size).toBe(0);
  });

  test('looks at executions and playbooks', async () => {
    const client = await (await serve()).client();
    const call = async (name: string, args = {}) =>
      (await client.callTool({ name, arguments: args })).structuredContent;
    const one = { execution_id: '41007' };
    expect(await call('callboard_execution_status', one)).toMatchObject({ execution_id: 41007, status: 'running' });
    expect(await call('callboard_execution_events', one)).toMatchObject({
      events: [{ event_id: 1 }],
      next_since_event_id: null,
    });
    expect(await call('callboard_explain', one)).toMatchObject({ execution_id: 41007, stuck: false });
    expect(await call('callboard_list_playbooks')).toMatchObject({ playbooks: [{ path: 'demo/greet' }], count: 1 });
    expect(await call('callboard_start', { path: 'demo/greet' })).toMatchObject({ execution_id: 41007 });
    expect(await call('callboard_cancel', { execution_id: 41007 })).toMatchObject({ status: 'cancelled' });
  });

  test('reads resources', async () => {
    const client = await (await serve()).client();
    const { resources } = await client.listResources();
    expect(resources.map((each) => each.uri)).toEqual([
      'callboard://playbook/demo/greet',
      'callboard://execution/41007',
    ]);
    expect((await client.listResourceTemplates()).resourceTemplates).toHaveLength(2);
    const read = async (uri: string) => (await client.readResource({ uri })).contents[0];
    expect(await read('callboard://playbook/demo/greet')).toMatchObject({ mimeType: 'application/yaml', text: TEXT });
    const status = await read('callboard://execution/41007');
    expect(JSON.parse(String(Reflect.get(status ?? {}, 'text')))).toMatchObject({ execution_id: 41007 });
  });

  test('finds one playbook at its own address', async () => {
    const world = await serve();
    const client = await world.client('/api/mcp/playbook/demo/greet/jsonrpc');
    expect((await client.listTools()).tools.map((tool) => tool.name)).toEqual(['demo_greet']);
    world.end({ status: 'completed', result: 1 });
    expect(await client.callTool({ name: 'demo_greet' })).toMatchObject({ structuredContent: { result: 1 } });
  });
});

function post(port: number, params: object): ClientRequest {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const asked = request({ host: '127.0.0.1', port, path: '/mcp', method: 'POST', headers });
  asked.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }));
  return asked;
}
