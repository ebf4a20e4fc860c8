import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { ToolCall } from '../../src/tools/tool.ts';
import { failed, noHost, openTools, succeeded } from './harness.ts';
import { type Seen, startServer } from './http-server.ts';

const tools = openTools({ environment: {}, httpMaxResponseBytes: 1_000_000 });
afterAll(() => tools[Symbol.asyncDispose]());

const run = (fields: JsonMap, more: Partial<ToolCall> = {}) => tools.run('mcp', fields, more);

describe('against the public reference server', () => {
  let server: ChildProcess;
  let endpoint: string;
  beforeAll(async () => {
    const port = await freePort();
    const main = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/dist/index.js');
    server = spawn(process.execPath, [main, 'streamableHttp'], {
      env: { ...process.env, PORT: String(port) },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    for await (const text of server.stderr ?? []) if (/listening on port/.test(String(text))) break;
    endpoint = `http://127.0.0.1:${port}/mcp`;
  });
  afterAll(async () => {
    server.kill('SIGKILL');
    await once(server, 'exit');
  });

  it('lists the tools', async () => {
    const data = succeeded(await run({ endpoint, method: 'tools/list' })).data as JsonMap;
    expect(data).toMatchObject({
      status: 'ok',
      server: 'kubernetes',
      endpoint,
      method: 'tools/list',
      tool: null,
      arguments: {},
      initialize: { serverInfo: { name: expect.any(String) }, protocolVersion: '2025-03-26' },
    });
    expect((data['tools'] as JsonMap[]).map((tool) => tool['name'])).toContain('echo');
    expect(data['tools']).toEqual((data['result'] as JsonMap)['tools']);
  });

  it('calls a tool with arguments as a map or as JSON text', async () => {
    const called = { endpoint, server: 'everything', tool: 'get-sum', arguments: { a: 2, b: 40 } };
    const data = succeeded(await run(called)).data as JsonMap;
    expect(data).toMatchObject({
      status: 'ok',
      server: 'everything',
      method: 'tools/call',
      tool: 'get-sum',
      arguments: { a: 2, b: 40 },
      result: { content: [{ type: 'text' }] },
    });
    expect(data['text']).toContain('42');
    const echoed = await run({ endpoint, tool_name: 'echo', args: '{"message": "hello"}' });
    expect((succeeded(echoed).data as JsonMap)['text']).toContain('hello');
  });

  it('passes other methods through with their params', async () => {
    const list = await run({ endpoint, method: 'resources/list', params: {} });
    expect((succeeded(list).data as JsonMap)['result']).toHaveProperty('resources');
  });

  it('fails with what the server says about an unknown tool or method', async () => {
    const tool = failed(await run({ endpoint, tool: 'no-such-tool' }));
    expect(tool.error).toMatchObject({ kind: 'tool_error', code: expect.stringMatching(/^MCP_/), retryable: false });
    expect(tool.data).toMatchObject({ status: 'error', endpoint, tool: 'no-such-tool', method: 'tools/call' });
    expect((tool.data as JsonMap)['text']).toMatch(/no-such-tool/);
    const method = failed(await run({ endpoint, method: 'no/such' }));
    expect(method.error).toMatchObject({ kind: 'tool_error', code: 'MCP_-32601' });
  });
});

describe('the conversation', () => {
  it('has a session, rising ids and headers of the task and its credential', async () => {
    await using server = await startServer((seen, response) => {
      if (seen.method === 'DELETE') return void response.writeHead(200).end();
      const { id, method } = messageOf(seen);
      if (id === undefined) return void response.writeHead(202).end();
      if (method !== 'initialize')
        return reply(response, id, { content: [{ text: 'a' }, { type: 'image' }, { text: 'b' }] });
      response.setHeader('Mcp-Session-Id', 'session-1');
      return reply(response, id, { protocolVersion: '2025-06-18' });
    });
    const auth = { name: 'k', type: 'bearer', data: { token: 'secret-token' } };
    const headers = { 'x-team': 'blue' };
    const fields = { endpoint: `${server.url}/mcp`, tool: 't', headers, client_name: 'me', request_id: 7 };
    const { data } = succeeded(await run(fields, { auth }));
    expect((data as JsonMap)['text']).toBe('a\nb');
    expect(server.seen.map(({ method, body }) => (body === '' ? method : messageBrief(JSON.parse(body))))).toEqual([
      { id: 7, method: 'initialize' },
      { method: 'notifications/initialized' },
      { id: 8, method: 'tools/call' },
      'DELETE',
    ]);
    for (const { headers } of server.seen) {
      expect(headers).toMatchObject({ authorization: 'Bearer secret-token', 'x-team': 'blue' });
    }
    expect(server.seen[0]?.headers).not.toHaveProperty('mcp-session-id');
    for (const { headers } of server.seen.slice(1)) {
      expect(headers).toMatchObject({ 'mcp-session-id': 'session-1', 'mcp-protocol-version': '2025-06-18' });
    }
    expect(JSON.parse(server.seen[0]?.body ?? '')).toMatchObject({
      jsonrpc: '2.0',
      params: { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'me' } },
    });
  });

  it('reads a list of tools to its last page', async () => {
    await using server = await startServer((seen, response) => {
      const { id, method, params } = messageOf(seen);
      if (method !== 'tools/list') return reply(response, id, {});
      const page =
        params?.['cursor'] === 'p2' ? { tools: [{ name: 'b' }] } : { tools: [{ name: 'a' }], nextCursor: 'p2' };
      return reply(response, id, page);
    });
    const { data } = succeeded(await run({ endpoint: server.url, method: 'tools/list' }));
    expect(data).toMatchObject({ tools: [{ name: 'a' }, { name: 'b' }], result: { tools: [{}, {}] } });
    expect((data as JsonMap)['result']).not.toHaveProperty('nextCursor');
  });

  it('finds its answer among other events of a stream that stays open', async () => {
    await using server = await startServer((seen, response) => {
      const { id, method } = messageOf(seen);
      if (method !== 'ping') return reply(response, id, {});
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(
        ': hello\r\n\r\nevent: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/message"}\r\n\r\n',
      );
      response.write(`data: {"jsonrpc":"2.0","id":${id},"method":"sampling/createMessage"}\n\n`);
      response.write(`data: {"jsonrpc":"2.0",\ndata: "id":${id},"result":{"p":"ö"}}\n\n`);
    });
    const { data } = succeeded(await run({ endpoint: server.url, method: 'ping' }));
    expect(data).toMatchObject({ result: { p: 'ö' }, text: '{"p":"ö"}' });
  });

  it('fails where a tool reports an error, with its text', async () => {
    await using server = await startServer(answering({ isError: true, content: [{ type: 'text', text: 'no pods' }] }));
    const outcome = failed(await run({ endpoint: server.url, tool: 'pods', server: 'k8s' }));
    expect(outcome.error).toMatchObject({ kind: 'tool_error', code: 'MCP_TOOL_ERROR', retryable: false });
    expect(outcome.data).toEqual({
      status: 'error',
      server: 'k8s',
      endpoint: `${server.url}/`,
      method: 'tools/call',
      tool: 'pods',
      error: expect.stringContaining('no pods'),
      text: 'no pods',
    });
  });

  it('asks for health at the root of the server', async () => {
    await using server = await startServer((_, response) => void response.end('fine'));
    const { data } = succeeded(await run({ endpoint: `${server.url}/mcp`, method: 'health' }));
    expect(data).toEqual({
      status: 'ok',
      server: 'kubernetes',
      endpoint: `${server.url}/mcp`,
      method: 'health',
      healthy: true,
      text: 'fine',
    });
    expect(server.seen).toMatchObject([{ method: 'GET', path: '/healthz' }]);
  });
});

describe('a server that misbehaves', () => {
  const answers: Record<string, [string, (response: ServerResponse, id: unknown) => void, JsonMap]> = {
    garbage: ['application/json', (response) => response.end('<html>'), { kind: 'parse', code: 'MCP_PARSE' }],
    'an empty body': ['application/json', (response) => response.end(), { kind: 'parse', code: 'MCP_PARSE' }],
    'a scalar': ['application/json', (response) => response.end('7'), { kind: 'tool_error', code: 'MCP_BAD_ANSWER' }],
    'another id': [
      'application/json',
      (response) => response.end('{"jsonrpc":"2.0","id":99,"result":{}}'),
      { kind: 'tool_error', code: 'MCP_BAD_ANSWER' },
    ],
    'its id as text': [
      'application/json',
      (response, id) => response.end(`{"jsonrpc":"2.0","id":"${id}","result":{}}`),
      { kind: 'tool_error', code: 'MCP_BAD_ANSWER' },
    ],
    'neither result nor error': [
      'application/json',
      (response, id) => response.end(`{"jsonrpc":"2.0","id":${id}}`),
      { kind: 'tool_error', code: 'MCP_BAD_ANSWER' },
    ],
    'a stream without its answer': [
      'text/event-stream',
      (response) => response.end('data: {"jsonrpc":"2.0","id":5,"result":1}\n\n'),
      { kind: 'tool_error', code: 'MCP_BAD_ANSWER' },
    ],
    'a stream of garbage': [
      'text/event-stream',
      (response) => void response.write('data: {{{\n\n'),
      { kind: 'parse', code: 'MCP_PARSE' },
    ],
    'a body above the limit': [
      'application/json',
      (response) => response.end('x'.repeat(1_000_001)),
      { kind: 'client_error', code: 'BODY_TOO_LARGE' },
    ],
    'keys that poison prototypes': [
      'application/json',
      (response, id) => response.end(`{"jsonrpc":"2.0","id":${id},"result":{"__proto__":{"x":1}}}`),
      { kind: 'schema', code: 'RESULT_NOT_STORABLE' },
    ],
  };
  it.each(Object.entries(answers))('fails the try for %s', async (_, [type, answer, error]) => {
    await using server = await startServer((seen, response) => {
      const { id, method } = messageOf(seen);
      if (method !== 'tools/call') return reply(response, id, {});
      response.setHeader('content-type', type);
      answer(response, id);
    });
    const outcome = failed(await run({ endpoint: server.url, tool: 't' }));
    expect(outcome.error).toMatchObject(error);
  });

  it('is cut off when its stream never ends, by size and by time', async () => {
    const endless = (text: string) => (seen: Seen, response: ServerResponse) => {
      const { id, method } = messageOf(seen);
      if (method !== 'tools/call') return reply(response, id, {});
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const more = () => {
        while (!response.destroyed && text !== '' && response.write(text));
      };
      response.on('drain', more);
      more();
    };
    await using flood = await startServer(endless(`data: {"jsonrpc":"2.0","method":"${'n'.repeat(9000)}"}\n\n`));
    expect(failed(await run({ endpoint: flood.url, tool: 't' })).error.code).toBe('BODY_TOO_LARGE');
    await using silent = await startServer(endless(''));
    const late = failed(await run({ endpoint: silent.url, tool: 't' }, { timeoutMs: 200 }));
    expect(late.error).toMatchObject({ kind: 'timeout', code: 'CONN_TIMEOUT', retryable: true });
    expect(late.data).toMatchObject({ status: 'error', tool: 't' });
  });

  it('has its HTTP status judged', async () => {
    for (const [status, kind] of [
      [401, 'auth'],
      [404, 'not_found'],
      [429, 'rate_limit'],
      [503, 'server_error'],
    ] as const) {
      await using server = await startServer((_, response) => void response.writeHead(status).end('why'));
      const { error, data } = failed(await run({ endpoint: server.url, tool: 't' }));
      expect(error).toMatchObject({ kind, code: `HTTP_${status}`, status_code: status });
      expect(data).toMatchObject({ status: 'error', text: 'why' });
    }
  });

  it('that is not there is a refused connection', async () => {
    const endpoint = `http://127.0.0.1:${await freePort()}`;
    expect(failed(await run({ endpoint, tool: 't' })).error).toMatchObject({
      kind: 'connection',
      code: 'CONN_REFUSED',
    });
  });
});

describe('the endpoint', () => {
  const catalog = (documents: Record<string, JsonMap>) => ({
    host: { ...noHost, catalogDocument: async (path: string) => documents[path] ?? null },
  });

  it('comes from the variable of the server, then the catalog, then the variable for all', async () => {
    await using named = await startServer(answering({ content: [{ text: 'variable' }] }));
    await using listed = await startServer(answering({ content: [{ text: 'catalog' }] }));
    await using other = await startServer(answering({ content: [{ text: 'default' }] }));
    const environment = { SVC_MCP_MY_TOOLS_ENDPOINT: named.url };
    await using tools = openTools({ environment, mcpUrl: other.url });
    const entry = (url: string) => ({ kind: 'Mcp', spec: { url } });
    const host = catalog({
      'mcp/listed': entry(listed.url),
      'mcp/my-tools': entry(listed.url),
      'mcp/not': { kind: 'Agent' },
    });
    const text = async (server: string) =>
      (succeeded(await tools.run('mcp', { server, tool: 't' }, host)).data as JsonMap)['text'];
    expect(await text('my-tools')).toBe('variable');
    expect(await text('listed')).toBe('catalog');
    expect(await text('not')).toBe('default');
    expect(await text('unheard of')).toBe('default');
    const unknown = failed(await run({ server: 'unheard', tool: 't' }, catalog({})));
    expect(unknown.error).toMatchObject({ kind: 'config' });
    expect(unknown.data).toMatchObject({ status: 'error', server: 'unheard', tool: 't', endpoint: null });
  });

  it.each([
    [{ tool: 't', endpoint: 'ftp://host/' }, 'config'],
    [{ tool: 't', endpoint: 'not a url' }, 'config'],
    [{ endpoint: 'http://127.0.0.1:9/' }, 'config'],
    [{ tool: 't', endpoint: 'http://127.0.0.1:9/', arguments: '[1]' }, 'config'],
    [{ tool: 't', endpoint: 'http://169.254.169.254/' }, 'connection'],
  ] as [JsonMap, string][])('%j is refused', async (fields, kind) => {
    const { error, data } = failed(await run(fields));
    expect(error).toMatchObject({ kind, retryable: false });
    expect(data).toMatchObject({ status: 'error', server: 'kubernetes' });
  });
});

interface Message {
  readonly id?: Json;
  readonly method?: string;
  readonly params?: JsonMap;
}

function messageOf(seen: Seen): Message {
  return seen.body === '' ? {} : JSON.parse(seen.body);
}

function messageBrief({ id, method }: Message) {
  return { ...(id !== undefined && { id }), method };
}

function reply(response: ServerResponse, id: unknown, result: JsonMap): void {
  if (id === undefined) return void response.writeHead(202).end();
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
}

function answering(result: JsonMap) {
  return (seen: Seen, response: ServerResponse) => reply(response, messageOf(seen).id, result);
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
