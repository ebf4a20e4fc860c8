import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { CallboardClient } from '../../src/client/client.ts';
import { ApiError, TransportError } from '../../src/client/errors.ts';

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

let http: Server;
let client: CallboardClient;
let seen: Seen[];

/** A server whose answers are given one after another; a number answers that status, null drops the connection. */
async function serve(
  ...answers: (null | { status?: number; headers?: Record<string, string>; body: unknown })[]
): Promise<void> {
  seen = [];
  http = createServer((request: IncomingMessage, response: ServerResponse) => {
    let body = '';
    request.on('data', (chunk) => {
      body += String(chunk);
    });
    request.on('end', () => {
      const answer = answers[Math.min(seen.length, answers.length - 1)];
      seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body });
      if (answer == null) return response.destroy();
      response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers });
      return response.end(typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body));
    });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  // A server that listens on TCP has an address with a port.
  const { port } = http.address() as AddressInfo;
  client = new CallboardClient({ serverUrl: `http://127.0.0.1:${port}`, token: 't0ken' });
}

afterEach(async () => {
  await client.close();
  http.closeAllConnections();
  await new Promise((resolve) => http.close(resolve));
});

const START = {
  execution_id: 1,
  status: 'started',
  path: 'a/b',
  catalog_id: 2,
  version: 1,
  kind: 'playbook',
  commands_generated: 1,
  duplicate: false,
};

describe('the client', () => {
  it('sends JSON with its token and reads the typed answer', async () => {
    await serve({ body: { ...START, added_later: true } });
    expect(await client.execute({ path: 'a/b', workload: { x: 1 } })).toMatchObject({ execution_id: 1 });
    expect(seen[0]).toMatchObject({ method: 'POST', url: '/api/execute', body: '{"path":"a/b","workload":{"x":1}}' });
    expect(seen[0]?.headers.authorization).toBe('Bearer t0ken');
  });

  it('throws a refusal with status, code, detail and errors', async () => {
    await serve({
      status: 422,
      body: { detail: 'body.path: no', code: 'validation_error', errors: ['body.path: no'] },
    });
    const error = await client.execute({}).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({
      status: 422,
      code: 'validation_error',
      message: 'body.path: no',
      errors: ['body.path: no'],
    });
  });

  it('repeats reads while the server is away', async () => {
    await serve(null, { status: 503, body: { detail: 'x', code: 'db_unavailable' } }, { body: { rows: [1] } });
    expect(await client.resolveResult('callboard://execution/1/result/a/2')).toEqual({ rows: [1] });
    expect(seen.map((each) => each.url)).toEqual(
      Array(3).fill('/api/result/resolve?ref=callboard%3A%2F%2Fexecution%2F1%2Fresult%2Fa%2F2'),
    );
  });

  it('does not repeat a start without a key, and repeats one with a key', async () => {
    await serve(null);
    await expect(client.execute({ path: 'a/b' })).rejects.toBeInstanceOf(TransportError);
    expect(seen).toHaveLength(1);
    await client.close();
    await serve(null, { body: START });
    await client.execute({ path: 'a/b', idempotency_key: 'k' });
    expect(seen).toHaveLength(2);
  });

  it('does not repeat refusals', async () => {
    await serve({ status: 404, body: { detail: 'Credential not found', code: 'not_found' } });
    await expect(client.credential('x', true)).rejects.toMatchObject({ status: 404 });
    expect(seen).toHaveLength(1);
  });

  it('takes an answer that is none for no answer', async () => {
    await serve({ body: '<html>' });
    await expect(client.health()).rejects.toBeInstanceOf(TransportError);
    await client.close();
    await serve({ body: { status: 7 } });
    await expect(client.health()).rejects.toThrow('is not what the service sends');
  });

  it('ends with the reason of its signal', async () => {
    await serve({ body: {} });
    const stop = new AbortController();
    stop.abort(new Error('enough'));
    await expect(client.execution(1, { signal: stop.signal })).rejects.toThrow('enough');
  });

  it('reads the whole log in pages', async () => {
    const row = (id: number) => ({
      execution_id: 1,
      event_id: id,
      event_type: 'x',
      node_name: 'n',
      status: 'completed',
      created_at: 'now',
    });
    const page = (from: number, count: number) => ({
      body: {
        execution_id: 1,
        status: 'completed',
        events: Array.from({ length: count }, (_, index) => row(from + index)),
        pagination: { page: 1, has_next: false },
      },
    });
    await serve(page(1, 500), page(501, 3));
    const ids: number[] = [];
    for await (const event of client.eventsSince(1)) ids.push(event.event_id);
    expect(ids).toHaveLength(503);
    expect(seen[1]?.url).toContain('since_event_id=500');
  });
});
