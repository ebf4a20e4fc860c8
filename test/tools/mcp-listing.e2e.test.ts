import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { createToolLister, type ToolListerOptions } from '../../src/tools/mcp/listing.ts';
import { type Seen, startServer } from './http-server.ts';

const OPEN: ToolListerOptions = { policy: 'open', allow: [], deny: [], version: '1.0.0' };

async function listed(answer: (method: string, seen: Seen, response: ServerResponse) => object | null, change = {}) {
  await using server = await startServer((seen, response) => {
    const { id, method } = JSON.parse(seen.body);
    if (id === undefined) return void response.writeHead(202).end();
    const result = method === 'initialize' ? { protocolVersion: '2025-06-18' } : answer(method, seen, response);
    if (result === null) return undefined;
    const error = 'error' in result ? result : { result };
    return void response
      .setHeader('content-type', 'application/json')
      .end(JSON.stringify({ jsonrpc: '2.0', id, ...error }));
  });
  const lister = createToolLister({ ...OPEN, ...change });
  try {
    return await lister.list(`${server.url}/mcp`);
  } finally {
    await lister.close();
  }
}

test('all pages of the tools come back', async () => {
  const found = await listed((_method, { body }) =>
    JSON.parse(body).params.cursor === 'two'
      ? { tools: [{ name: 'b' }] }
      : { tools: [{ name: 'a', inputSchema: {} }], nextCursor: 'two' },
  );
  expect(found).toEqual({ ok: true, tools: [{ name: 'a', inputSchema: {} }, { name: 'b' }] });
});

test.each([
  ['an answer above 64 KiB', () => ({ tools: [{ name: 'a', description: 'x'.repeat(70_000) }] }), /larger than 65536/],
  [
    'pages above 64 KiB',
    () => ({ tools: [{ name: 'a', d: 'x'.repeat(30_000) }], nextCursor: 'n' }),
    /larger than 65536/,
  ],
  ['pages without an end', () => ({ tools: [], nextCursor: 'n' }), /larger than 65536/],
  ['no list', () => ({ tools: 'none' }), /no list of tools/],
  ['a tool without a name', () => ({ tools: [{ title: 'x' }] }), /no list of tools/],
  ['an error', () => ({ error: { code: -32601, message: 'secret words' } }), /refused the request \(-32601\)$/],
])('%s is a failure in our words', async (_what, answer, sentence) => {
  expect(await listed(answer)).toEqual({ ok: false, reason: 'failed', sentence: expect.stringMatching(sentence) });
});

test('an HTTP error is a failure', async () => {
  const found = await listed((_method, _seen, response) => {
    response.writeHead(500).end('secret words');
    return null;
  });
  expect(found).toEqual({ ok: false, reason: 'failed', sentence: 'The tool server answered HTTP 500' });
});

test('a server that is silent is a timeout', async () => {
  expect(await listed(() => null, { withinMs: 300 })).toMatchObject({ ok: false, reason: 'timeout' });
});

test('the egress policy holds', async () => {
  expect(await listed(() => ({ tools: [] }), { policy: 'public-only' })).toMatchObject({ ok: false, reason: 'denied' });
});

test.each([
  ['no url', 'not a URL'],
  ['file:///etc/passwd', 'cannot be asked'],
  ['http://user:pw@127.0.0.1:9/', 'cannot be asked'],
  ['http://127.0.0.1:9/', 'cannot be reached'],
])('%s is a failure', async (endpoint, sentence) => {
  const lister = createToolLister(OPEN);
  expect(await lister.list(endpoint)).toMatchObject({
    ok: false,
    reason: 'failed',
    sentence: expect.stringContaining(sentence),
  });
  await lister.close();
});
