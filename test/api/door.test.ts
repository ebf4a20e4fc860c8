/** The port before the server behind it is there: what callers are told, and that nobody is lost when it is handed over. */
import { Agent, get, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { type Door, type DoorConfig, openDoor } from '../../src/host/door.ts';
import { CONFIG } from './test-host.ts';

const doors: Door[] = [];
afterEach(async () => {
  for (const door of doors.splice(0)) await door.close();
});

async function opened(change: Partial<DoorConfig> = {}, isStopping = () => false): Promise<Door> {
  const door = await openDoor({ ...CONFIG, port: 0, ...change }, { version: '1.0.0', isStopping });
  doors.push(door);
  return door;
}

interface Seen {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

function ask(port: number, path: string, options: RequestOptions = {}): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, agent: false, ...options }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
    });
    asked.on('error', reject).end(options.method === 'POST' ? '{"path":"a"}' : undefined);
  });
}

describe('the port of a server that starts', () => {
  test('answers 503 with the time to ask again, in the form of all refusals', async () => {
    const { port } = await opened();
    for (const [path, method] of [
      ['/api/executions', 'GET'],
      ['/api/execute', 'POST'],
      ['/metrics', 'GET'],
      ['/no/such/thing', 'DELETE'],
    ]) {
      const { status, headers, text } = await ask(port, path ?? '', {
        method,
        headers: { 'content-type': 'application/json', 'x-request-id': 'asked-while-starting' },
      });
      expect(status).toBe(503);
      expect(headers).toMatchObject({
        'retry-after': '2',
        'x-request-id': 'asked-while-starting',
        'content-type': 'application/json; charset=utf-8',
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
      });
      expect(JSON.parse(text)).toEqual({
        detail: { code: 'db_unavailable', message: 'The server is starting' },
        code: 'db_unavailable',
        request_id: 'asked-while-starting',
      });
    }
  });

  test('shows a sign of life, and no health', async () => {
    const { port } = await opened();
    const alive = await ask(port, '/health/');
    expect([alive.status, alive.text]).toEqual([200, '{"status":"ok"}']);
    const health = await ask(port, '/api/health');
    expect([health.status, health.headers['retry-after']]).toEqual([503, '2']);
    expect(JSON.parse(health.text)).toEqual({
      status: 'degraded',
      database: 'down',
      bus: 'down',
      jobs: 'down',
      version: '1.0.0',
      schema_version: null,
      uptime_seconds: expect.any(Number),
    });
    const head = await ask(port, '/api/health', { method: 'HEAD' });
    expect([head.status, head.text]).toEqual([503, '']);
    expect(Number(head.headers['content-length'])).toBeGreaterThan(100);
  });

  test('says so when the process is told to stop before it was ready', async () => {
    const { port } = await opened({}, () => true);
    expect(JSON.parse((await ask(port, '/api/health')).text)).toMatchObject({ status: 'draining' });
    expect(JSON.parse((await ask(port, '/api/executions')).text)).toMatchObject({ code: 'shutting_down' });
  });

  test('keeps foreign host names out, answers preflights, and lets pages of this machine read the answer', async () => {
    const { port } = await opened();
    const foreign = await ask(port, '/health', { headers: { host: 'evil.example' } });
    expect([foreign.status, JSON.parse(foreign.text).code]).toEqual([421, 'misdirected_host']);
    const origin = 'http://localhost:5173';
    const preflight = await ask(port, '/api/execute', {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers['access-control-allow-origin']).toBe(origin);
    expect((await ask(port, '/api/executions', { headers: { origin } })).headers).toMatchObject({
      'access-control-allow-origin': origin,
      vary: 'Origin',
    });
  });

  test('shows people a page that looks again by itself', async () => {
    const { port } = await opened();
    const { status, headers, text } = await ask(port, '/ui/', { headers: { accept: 'text/html,*/*' } });
    expect([status, headers['content-type']]).toEqual([503, 'text/html; charset=utf-8']);
    expect(text).toContain('http-equiv="refresh"');
    expect(headers['content-security-policy']).toContain("default-src 'self'");
  });

  test('is handed over with the connections that are open', async () => {
    const door = await opened();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const before = await ask(door.port, '/api/executions', { agent });
    door.handOver((_request, response) => response.end('served'));
    const after = await ask(door.port, '/api/executions', { agent });
    expect([before.status, after.status, after.text]).toEqual([503, 200, 'served']);
    expect(Object.keys(agent.freeSockets)).toHaveLength(1);
    agent.destroy();
  });

  test('is every loopback address under the name localhost', async () => {
    const { port } = await opened({ host: 'localhost' });
    expect((await ask(port, '/health')).status).toBe(200);
    const reached = await new Promise<number>((resolve, reject) => {
      get({ host: 'localhost', port, path: '/health', agent: false }, (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      }).on('error', reject);
    });
    expect(reached).toBe(200);
  });

  test('that somebody else has is an error with its code', async () => {
    const { port } = await opened();
    await expect(opened({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
    // Also where only one address of a name is taken: half of the callers would reach somebody else.
    await expect(opened({ host: 'localhost', port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  test('lets an answer under way be the last one of its connection', async () => {
    const door = await opened();
    const { promise: asked, resolve } = Promise.withResolvers<() => void>();
    door.handOver((_request, response) => resolve(() => response.end('late')));
    const agent = new Agent({ keepAlive: true });
    const answer = ask(door.port, '/', { agent });
    const reply = await asked;
    const closed = door.close(60_000);
    reply();
    expect((await answer).text).toBe('late');
    await closed;
    agent.destroy();
  });

  test('cuts off who does not finish a request, when it closes', async () => {
    const door = await opened();
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    door.handOver(() => resolve());
    const hanging = ask(door.port, '/').catch((error: { code?: string }) => error.code);
    await asked;
    await door.close(50);
    expect(await hanging).toBe('ECONNRESET');
  });
});
