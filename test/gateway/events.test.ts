/** What clients hear at `/events`, what callbacks bring them, and how soon a session that ended elsewhere is over here. */
import { once } from 'node:events';
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { type RunningGateway, startGateway } from '../../src/gateway/start.ts';
import { silentLog } from '../../src/log.ts';
import { call } from './call.ts';
import { type FakeServer, startFakeServer } from './upstream-server.ts';

const TOKEN = (name: string) => name.padEnd(43, '-');
const alive = new Set<string>();
const lines: ServerResponse[] = [];
const followed = new Map<string, ServerResponse>();
let server: FakeServer;
let gateway: RunningGateway;

beforeAll(async () => {
  server = await startFakeServer(({ url, body }, _request, response) => {
    const stream = (first: string): ServerResponse => {
      response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
      response.write(first);
      return response;
    };
    const send = (answer: object): true => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer));
      return true;
    };
    if (url === '/api/internal/sessions/changes') {
      lines.push(stream('retry: 2000\n\nevent: listening\ndata: {}\n\n'));
      return true;
    }
    if (url === '/api/auth/session/validate') {
      const { session_token: token } = JSON.parse(body);
      const user = { user_id: token.split('-')[0], email: null, display_name: null, roles: ['operator'] };
      const expires_at = new Date(Date.now() + 3_600_000).toISOString();
      return send(alive.has(token) ? { valid: true, user, expires_at } : { valid: false, user: null });
    }
    if (url === '/api/execute') return send({ execution_id: JSON.parse(body).workload.id, status: 'started' });
    const run = /^\/api\/executions\/(\d+)\/stream\?events=none$/.exec(url)?.[1];
    if (run === undefined) return false;
    followed.set(run, stream('retry: 2000\n\n'));
    return true;
  });
  const settings = {
    SVC_GATEWAY_PORT: '0',
    SVC_GATEWAY_UPSTREAM: server.url,
    SVC_INTERNAL_TOKEN: 'inside',
    GATEWAY_PUBLIC_URL: 'https://gw.example.test',
    SVC_OIDC_ISSUER: server.url,
    SVC_OIDC_CLIENT_ID: 'gate',
  };
  gateway = await startGateway(readConfig(settings), silentLog);
});
afterAll(async () => {
  await gateway?.stop();
  await server?.stop();
});

beforeEach(() => {
  followed.clear();
  server.seen.length = 0;
});

/** On a busy machine an answer may take its time; nothing here is about how long. */
const eventually = <T>(look: () => T | Promise<T>) => expect.poll(look, { timeout: 15_000 });

class Listener {
  readonly messages: ReturnType<typeof JSON.parse>[] = [];
  status = 0;
  answer: IncomingMessage | null = null;
  isOver = false;
  #rest = '';

  static async open(path: string, headers: Record<string, string> = {}): Promise<Listener> {
    const listener = new Listener();
    const sent = request(`${gateway.url}${path}`, { headers, agent: false });
    sent.end();
    const [answer] = await once(sent, 'response');
    listener.answer = answer;
    listener.status = answer.statusCode;
    answer.setEncoding('utf8').on('data', (chunk: string) => listener.#read(chunk));
    answer.on('close', () => {
      listener.isOver = true;
    });
    answer.on('error', () => {});
    return listener;
  }

  #read(chunk: string): void {
    const parts = (this.#rest + chunk).split('\n\n');
    this.#rest = parts.pop() ?? '';
    for (const part of parts) if (part.startsWith('data: ')) this.messages.push(JSON.parse(part.slice(6)));
  }

  said(method: string) {
    return this.messages.filter((message) => message.method === method).map((message) => message.params);
  }
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const INSIDE = bearer('inside');

let tokens = 0;
function newToken(user: string): string {
  tokens += 1;
  const token = TOKEN(`${user}-${tokens}`);
  alive.add(token);
  return token;
}

describe('/events', () => {
  test('begins with who is heard, and needs a session', async () => {
    const token = newToken('ann');
    const listener = await Listener.open('/events?client_id=tab-1', bearer(token));
    await expect
      .poll(() => listener.messages)
      .toEqual([
        {
          jsonrpc: '2.0',
          result: { protocolVersion: '1', serverInfo: { name: 'callboard' }, clientId: 'tab-1', capabilities: {} },
        },
      ]);
    expect(listener.answer?.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    expect((await Listener.open('/events')).status).toBe(401);
    expect((await Listener.open('/events?client_id=a%20b', bearer(token))).status).toBe(422);
    expect((await Listener.open('/events?client_id=tab-1', bearer(newToken('bob')))).status).toBe(403);
  });

  test('takes a token from the address where no other is given, and only there', async () => {
    const token = newToken('cat');
    const listener = await Listener.open(`/events?session_token=${token}`);
    await eventually(() => listener.messages[0]?.result.clientId).toMatch(/^[0-9a-f-]{36}$/);
    expect((await Listener.open(`/events?session_token=${token}`, bearer('forged-forged-forged-forged'))).status).toBe(
      401,
    );
    expect((await call(gateway.url, 'GET', `/api/executions?session_token=${token}`)).status).toBe(401);
    expect(server.seen.map(({ url }) => url).join()).not.toContain(token);
  });

  test('tells the session how the executions go that it started here', async () => {
    const token = newToken('dora');
    const listener = await Listener.open('/events?client_id=dora-1', bearer(token));
    const other = await Listener.open('/events?client_id=eve-1', bearer(newToken('eve')));
    const start = await call(gateway.url, 'POST', '/api/execute', {
      body: { path: 'demo/greet', workload: { id: 41007 } },
      headers: { ...bearer(token), 'x-request-id': 'r-of-the-start' },
    });
    expect(start.json).toEqual({ execution_id: 41007, status: 'started' });
    await eventually(() => followed.has('41007')).toBe(true);
    const asked = server.seen.find(({ url }) => url.startsWith('/api/executions/41007/'));
    expect(asked?.headers.authorization).toBe(`Bearer ${token}`);
    const status = { status: 'running', current_step: 'fetch', progress: 50, progress_detail: { total_steps: 2 } };
    followed.get('41007')?.write(`event: status\ndata: ${JSON.stringify(status)}\n\n`);
    await expect
      .poll(() => listener.said('playbook/progress'))
      .toMatchObject([
        {
          request_id: 'r-of-the-start',
          execution_id: 41007,
          step: 'fetch',
          progress: 50,
          progress_detail: { total_steps: 2 },
        },
      ]);
    expect(listener.said('playbook/state')).toMatchObject([{ execution_id: 41007, status: 'running' }]);
    const end = { status: 'completed', current_step: 'end', result: { ok: true }, error: null };
    followed.get('41007')?.end(`event: end\ndata: ${JSON.stringify(end)}\n\n`);
    await expect
      .poll(() => listener.said('playbook/result'))
      .toMatchObject([
        { request_id: 'r-of-the-start', execution_id: 41007, status: 'completed', data: { ok: true }, error: null },
      ]);
    expect(other.messages.filter((message) => message.method !== undefined)).toEqual([]);
  });

  test('goes on with what was started before it was opened again', async () => {
    const token = newToken('fay');
    await call(gateway.url, 'POST', '/api/execute', {
      body: { path: 'x', workload: { id: 5 } },
      headers: bearer(token),
    });
    expect(followed.has('5')).toBe(false);
    const first = await Listener.open('/events', bearer(token));
    await eventually(() => followed.has('5')).toBe(true);
    followed.delete('5');
    first.answer?.destroy();
    const again = await Listener.open('/events', bearer(token));
    await eventually(() => followed.has('5')).toBe(true);
    followed.get('5')?.end(`event: end\ndata: ${JSON.stringify({ status: 'failed', error: 'no' })}\n\n`);
    await expect
      .poll(() => again.said('playbook/result'))
      .toMatchObject([{ execution_id: 5, status: 'failed', error: 'no' }]);
  });

  test('has room for 64 streams of a user, whatever others do', async () => {
    const token = newToken('gus');
    const own = await Promise.all(Array.from({ length: 65 }, () => Listener.open('/events', bearer(token))));
    expect(own.filter(({ status }) => status === 200)).toHaveLength(64);
    expect(own.filter(({ status }) => status === 503)).toHaveLength(1);
    expect((await Listener.open('/events', bearer(newToken('hal')))).status).toBe(200);
    for (const { answer } of own) answer?.destroy();
  });
});

describe('a callback', () => {
  const tell = (body: object, headers: Record<string, string> = INSIDE, path = '/api/internal/callback') =>
    call(gateway.url, 'POST', path, { body, headers });
  const result = { request_id: 'ida-1', execution_id: '41007', step: 'end', status: 'completed', data: { n: 1 } };

  test.each(['/api/internal/callback', '/api/internal/callback/async'])('at %s reaches its client', async (path) => {
    const listener = await Listener.open('/events?client_id=ida-1', bearer(newToken('ida')));
    const reply = await tell(result, INSIDE, path);
    expect([reply.status, reply.json]).toEqual([200, { delivered: true, message: 'ok' }]);
    await tell({ request_id: 'ida-1/my-call', status: 'running' }, { 'x-session-token': 'inside' }, path);
    await expect
      .poll(() => listener.said('playbook/result'))
      .toEqual([{ ...result, execution_id: 41007, error: null }]);
    await expect
      .poll(() => listener.said('playbook/state'))
      .toMatchObject([{ request_id: 'ida-1/my-call', status: 'running' }]);
    listener.answer?.destroy();
  });

  test('finds who started the execution, by either id', async () => {
    const token = newToken('jon');
    const listener = await Listener.open('/events', bearer(token));
    await call(gateway.url, 'POST', '/api/execute', {
      body: { path: 'x', workload: { id: 77 } },
      headers: { ...bearer(token), 'x-request-id': 'r-of-jon-77' },
    });
    expect((await tell({ request_id: 'r-of-jon-77', status: 'failed', error: 'no' })).status).toBe(200);
    expect((await tell({ request_id: 'unknown', execution_id: 77, status: 'completed' })).status).toBe(200);
    await eventually(() => listener.said('playbook/result')).toHaveLength(2);
  });

  test('for nobody is 202, and one without the internal token or with a bad body is refused', async () => {
    const reply = await tell({ ...result, request_id: 'nobody', execution_id: 1 });
    expect([reply.status, reply.json.delivered]).toEqual([202, false]);
    expect((await tell(result, {})).status).toBe(401);
    expect((await tell(result, bearer('guess'))).status).toBe(401);
    expect((await tell(result, bearer(newToken('kim')))).status).toBe(401);
    expect((await tell({ step: 5, execution_id: 0.5 })).json).toMatchObject({
      code: 'validation_error',
      detail:
        "'request_id' is required; body.execution_id: must be an id; body.step: must be text; 'status' is required",
      errors: [
        "'request_id' is required",
        'body.execution_id: must be an id',
        'body.step: must be text',
        "'status' is required",
      ],
    });
    expect((await tell({ ...result, execution_id: 'x' })).status).toBe(422);
    expect((await tell({ ...result, data: 'x'.repeat(1_100_000) })).status).toBe(422);
  });
});

describe('a session that ends elsewhere', () => {
  const validations = () => server.seen.filter(({ url }) => url.endsWith('/validate')).length;

  test('is asked about once while the server would tell, and over as soon as it tells', async () => {
    const token = newToken('lea');
    const asked = () => call(gateway.url, 'GET', '/api/executions', { headers: bearer(token) });
    const listener = await Listener.open('/events', bearer(token));
    // The line may have been opened anew between; from then on one question is enough.
    await eventually(async () => {
      const before = validations();
      for (let use = 0; use < 4; use++) await asked();
      return validations() - before;
    }).toBe(0);
    alive.delete(token);
    for (const line of lines) line.write('event: changed\ndata: {}\n\n');
    await eventually(async () => (await asked()).status).toBe(401);
    await eventually(() => listener.isOver).toBe(true);
  });

  test('is forgotten with the line, which opens again by itself', async () => {
    const token = newToken('max');
    const asked = () => call(gateway.url, 'GET', '/api/executions', { headers: bearer(token) });
    expect((await asked()).status).toBe(200);
    const opened = lines.length;
    alive.delete(token);
    for (const line of lines) line.destroy();
    await eventually(async () => (await asked()).status).toBe(401);
    await eventually(() => lines.length).toBeGreaterThan(opened);
  });
});
