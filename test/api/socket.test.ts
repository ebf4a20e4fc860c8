/** What only a real connection shows: raw paths and hosts, broken HTTP, dropped connections, streams. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { ExecutionStatus } from '../../actors/ports.ts';
import type { ClaimRequest } from '../../actors/services.ts';
import type { HostOptions } from '../../src/host/host.ts';
import { executionRow, fakeServices, logEvent } from './fake-services.ts';
import { CONFIG, type TestHost, testHost } from './test-host.ts';

const started: TestHost[] = [];
afterEach(async () => {
  for (const host of started.splice(0)) {
    host.stop.abort();
    await host.app.close();
  }
});

async function listen(
  services = fakeServices(),
  change: Partial<HostOptions> = {},
): Promise<TestHost & { port: number }> {
  const host = testHost(services, change);
  started.push(host);
  await host.app.listen({ host: '127.0.0.1', port: 0 });
  // A TCP server that listens has an address with a port.
  return { ...host, port: (host.app.server.address() as AddressInfo).port };
}

/** Sends these bytes and gives what came until the other side closed. Its own stays open: who has gone gets no answer. */
async function exchange(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(text);
  const parts: Buffer[] = [];
  for await (const part of socket) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

const request = (line: string, host = 'localhost') => `${line} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;

describe('raw requests', () => {
  test.each([
    '/api/catalog/playbook/a/../b',
    '/api/catalog/playbook/%2e/b',
    '/api/catalog/playbook/..',
    '/..%2f',
    '/api\\health',
  ])('HT-04 the path %s is 404', async (path) => {
    const { port } = await listen();
    expect(await exchange(port, request(`GET ${path}`))).toMatch(/^HTTP\/1\.1 404 [\s\S]*"code":"not_found"/);
  });

  test('a request without a host is refused in the form of all refusals', async () => {
    const { port } = await listen();
    const answer = await exchange(port, 'GET /health HTTP/1.1\r\nConnection: close\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 421 [\s\S]*"detail":"The request names no host","code":"misdirected_host"/);
  });

  test('HT-04 naming the whole address leads around neither the internal token nor the path check', async () => {
    const { port } = await listen(fakeServices(), { config: { ...CONFIG, internalToken: 'inside' } });
    const status = async (path: string) => (await exchange(port, request(`GET ${path}`))).split(' ')[1];
    expect(await status('/api/admin/overview')).toBe('401');
    expect(await status('http://localhost/api/admin/overview')).toBe('401');
    expect(await status('HTTPS://other/api/%61dmin/overview')).toBe('401');
    expect(await status('http://localhost/api/catalog/playbook/a/%2e%2e/b')).toBe('404');
    expect(await status('/api/catalog/playbook/a;/%2e%2e/b')).toBe('404');
    expect(await status('http://localhost/health')).toBe('200');
  });

  test('an empty host is 421', async () => {
    const { port } = await listen();
    expect(await exchange(port, request('GET /health', ''))).toMatch(/^HTTP\/1\.1 421 /);
  });

  test('broken HTTP gets the common form and its headers', async () => {
    const { port } = await listen();
    const answer = await exchange(port, 'GET / NONSENSE\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 422 /);
    expect(answer).toMatch(/X-Request-Id: r-/);
    expect(answer).toMatch(/"code":"validation_error","request_id":"r-/);
  });

  test.each([
    ['that tells its length', (bytes: number) => `Content-Length: ${bytes}\r\n\r\n`, '', ''],
    [
      'in chunks',
      (bytes: number) => `Transfer-Encoding: chunked\r\n\r\n${bytes.toString(16)}\r\n`,
      '\r\n0\r\n\r\n',
      '',
    ],
    ['of another type', (bytes: number) => `Content-Length: ${bytes}\r\n\r\n`, '', 'text/plain'],
  ])('a refused body %s is taken to its end, so that its sender reads why', async (_name, head, tail, type) => {
    const { port } = await listen();
    const bytes = 12 * 1024 * 1024;
    const socket = connect(port, '127.0.0.1');
    let answers = '';
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => {
      answers += text;
    });
    // Nothing is read by a client of this kind before all is sent; a connection that breaks meanwhile fails the test.
    socket.write(`POST /api/execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type || 'application/json'}\r\n`);
    socket.write(head(bytes));
    await new Promise((sent) => socket.write('x'.repeat(bytes), sent));
    socket.write(`${tail}GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    await once(socket, 'close');
    const statuses = [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    expect(statuses).toEqual([type === '' ? '413' : '415', '200']);
  });

  test.each(['', 'Content-Type: text/plain\r\n'])('an empty body in chunks counts as none (%j)', async (type) => {
    const { port } = await listen();
    const head = `POST /api/executions/cleanup HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${type}`;
    const send = (body: string) => exchange(port, `${head}Transfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`);
    expect(await send('')).toMatch(/^HTTP\/1\.1 200 /);
    expect(await send('2\r\n{}\r\n')).toMatch(/^HTTP\/1\.1 415 /);
  });

  test('headers above 16 KiB are 413', async () => {
    const { port } = await listen();
    const answer = await exchange(
      port,
      `GET /health HTTP/1.1\r\nHost: localhost\r\nX-Big: ${'x'.repeat(20_000)}\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 413 [\s\S]*"code":"payload_too_large"/);
  });

  test('HT-01 headers have 10 s and a request has 30 s to arrive', async () => {
    const { app } = await listen();
    expect(app.server.headersTimeout).toBe(10_000);
    expect(app.server.requestTimeout).toBe(30_000);
  });

  test('HT-01 a body that drips is 408 and the connection is closed', async () => {
    const { port } = await listen(fakeServices(), { config: { ...CONFIG, requestTimeoutSeconds: 1 } });
    const socket = connect(port, '127.0.0.1');
    socket.write(
      'POST /api/execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{',
    );
    let text = '';
    for await (const part of socket) text += String(part);
    expect(text).toMatch(/^HTTP\/1\.1 408 [\s\S]*"code":"request_timeout"/);
  });
});

test('a connection ends with the answer once the process stops', async () => {
  const host = await listen();
  host.stop.abort();
  const answer = await exchange(host.port, 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
  expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*connection: close/);
});

describe('long polls', () => {
  async function claiming() {
    let announce: (request: ClaimRequest) => void = () => {};
    const asked = new Promise<ClaimRequest>((resolve) => {
      announce = resolve;
    });
    const host = await listen(
      fakeServices({
        commands: {
          claimMany: async (claim) => {
            announce(claim);
            if (!claim.signal.aborted) await once(claim.signal, 'abort');
            return { commands: [], stop: [] };
          },
        },
      }),
    );
    const body = JSON.stringify({ worker_id: 'worker-7', wait_ms: 60_000 });
    const socket = connect(host.port, '127.0.0.1');
    socket.write(
      `POST /api/commands/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    return { host, socket, claim: await asked };
  }

  test('end when the connection drops', async () => {
    const { socket, claim } = await claiming();
    socket.destroy();
    if (!claim.signal.aborted) await once(claim.signal, 'abort');
    expect(claim.signal.aborted).toBe(true);
  });

  test('end when the server stops, with an answer', async () => {
    const { host, socket } = await claiming();
    host.stop.abort();
    const [part] = await once(socket, 'data');
    expect(String(part)).toMatch(/^HTTP\/1\.1 200 [\s\S]*"commands":\[\]/);
    socket.destroy();
  });
});

describe('a start that waits for the end', () => {
  test.each(['/api/execute', '/api/run/playbook'])('at %s is answered when the server stops', async (path) => {
    const { promise: asked, resolve: announce } = Promise.withResolvers<void>();
    const { executions } = fakeServices();
    const host = await listen(
      fakeServices({
        executions: {
          start: async (request) => {
            if (request.signal === undefined) throw new Error('nothing ends the wait');
            announce();
            await once(request.signal, 'abort');
            const receipt = await executions.start(request);
            return { ...receipt, waited: { status: 'running', result: null, error: null } };
          },
        },
      }),
    );
    const answer = fetch(`http://127.0.0.1:${host.port}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ path: 'demo/greet', wait_ms: 60_000 }),
    });
    await asked;
    host.stop.abort();
    expect(await (await answer).json()).toMatchObject({ status: 'started', execution_status: 'running' });
  });
});

describe('the stream of an execution', () => {
  /** A log that grows on demand, with notices that may come twice. */
  function growing(text = '') {
    const event = (eventId: number) => logEvent(eventId, { context: { text } });
    const events = [event(1), event(2), event(3)];
    let status: ExecutionStatus = 'running';
    const listeners = new Set<(lastEventId: number, status: ExecutionStatus) => void>();
    const services = fakeServices({
      executions: {
        follow: (_id, onChange) => {
          listeners.add(onChange);
          return () => listeners.delete(onChange);
        },
      },
      reads: {
        execution: async () =>
          executionRow({ lastEventId: events.length, status, result: status === 'completed' ? { n: 1 } : null }),
        events: async (_id, page) => ({
          events: events
            .filter((each) => each.eventId > (page.sinceEventId ?? 0) && each.eventId <= (page.untilEventId ?? 1e9))
            .slice(0, page.pageSize),
          total: null,
          hasMore: false,
        }),
      },
    });
    function notify() {
      for (const listener of [...listeners, ...listeners]) listener(events.length, status);
    }
    return {
      services,
      listeners,
      add(count: number) {
        for (let i = 0; i < count; i++) events.push(event(events.length + 1));
        notify();
      },
      end() {
        status = 'completed';
        events.push(logEvent(events.length + 1, { type: 'playbook.completed' }));
        notify();
      },
    };
  }

  async function open(port: number, query = '', headers: Record<string, string> = {}) {
    const response = await fetch(`http://127.0.0.1:${port}/api/executions/41007/stream${query}`, { headers });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    return {
      response,
      /** Reads until the text matches, or to the end. */
      async until(pattern: RegExp): Promise<string> {
        while (!pattern.test(text)) {
          const { value, done } = await reader.read();
          if (done) break;
          text += value;
        }
        return text;
      },
      cancel: () => reader.cancel(),
    };
  }

  const idsIn = (text: string) => [...text.matchAll(/^event: event\nid: (\d+)$/gm)].map((match) => Number(match[1]));
  const kindsIn = (text: string) => [...text.matchAll(/^event: (\w+)$/gm)].map((match) => match[1]);

  test('opens with the status, replays the log, follows it, and closes after the end', async () => {
    const log = growing();
    const { port } = await listen(log.services);
    const stream = await open(port);
    expect(stream.response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    expect(stream.response.headers.get('x-accel-buffering')).toBe('no');
    expect(stream.response.headers.get('x-request-id')).toMatch(/^r-/);
    await stream.until(/id: 3\n/);
    log.add(2);
    await stream.until(/id: 5\n/);
    log.end();
    const text = await stream.until(/^never$/m);
    expect(text.startsWith('retry: 2000\n\n')).toBe(true);
    expect(kindsIn(text)[0]).toBe('status');
    expect(kindsIn(text).at(-1)).toBe('end');
    expect(idsIn(text)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(log.listeners.size).toBe(0);
  });

  test('goes on after Last-Event-ID, and shows no events when none are wanted', async () => {
    const log = growing();
    const { port } = await listen(log.services);
    log.end();
    const later = await open(port, '', { 'last-event-id': '2' });
    const told = await later.until(/^never$/m);
    expect(idsIn(told)).toEqual([3, 4]);
    expect(kindsIn(told)).toEqual(['status', 'event', 'event', 'end']);
    // A browser comes back at the address it began with.
    const back = await open(port, '?since_event_id=1', { 'last-event-id': '3' });
    expect(idsIn(await back.until(/^never$/m))).toEqual([4]);
    const none = await open(port, '?events=none');
    expect(kindsIn(await none.until(/^never$/m))).toEqual(['status', 'end']);
  });

  test('stops following when the client goes', async () => {
    const log = growing();
    const { port } = await listen(log.services);
    const stream = await open(port);
    await stream.until(/id: 3\n/);
    expect(log.listeners.size).toBe(1);
    await stream.cancel();
    while (log.listeners.size > 0) await new Promise((resolve) => setImmediate(resolve));
    expect(log.listeners.size).toBe(0);
  });

  test('ends when the server stops', async () => {
    const log = growing();
    const host = await listen(log.services);
    const stream = await open(host.port);
    await stream.until(/id: 3\n/);
    host.stop.abort();
    const text = await stream.until(/^never$/m);
    expect(kindsIn(text)).not.toContain('end');
  });

  test('gives up a client that does not read while a thousand events are written', async () => {
    const log = growing('x'.repeat(65_536));
    const { port } = await listen(log.services);
    const socket = connect(port, '127.0.0.1');
    socket.pause();
    socket.write(request('GET /api/executions/41007/stream?events=full'));
    while (log.listeners.size === 0) await new Promise((resolve) => setImmediate(resolve));
    while (log.listeners.size > 0) {
      log.add(50);
      await new Promise((resolve) => setImmediate(resolve));
    }
    let text = '';
    for await (const part of socket) text += String(part);
    expect(text).toContain('event: overflow');
    const ids = idsIn(text);
    expect(ids).toEqual(ids.map((_id, index) => index + 1));
  });

  test('ends when the log cannot be read, and says so in the log of the process', async () => {
    const events = async () => Promise.reject(new Error('gone'));
    const host = await listen(fakeServices({ reads: { events } }));
    const stream = await open(host.port);
    expect(kindsIn(await stream.until(/^never$/m))).toEqual(['status']);
    expect(host.lines).toMatchObject([{ level: 'warn', message: 'A stream ended by an error' }]);
  });

  test('an unknown execution is 404', async () => {
    const { port } = await listen(fakeServices({ reads: { execution: async () => null } }));
    const response = await fetch(`http://127.0.0.1:${port}/api/executions/41007/stream`);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ detail: 'Execution 41007 not found' });
  });

  test('one address may have 64 streams open', async () => {
    const log = growing();
    const { port } = await listen(log.services);
    const streams = await Promise.all(Array.from({ length: 64 }, () => open(port)));
    const refused = await fetch(`http://127.0.0.1:${port}/api/executions/41007/stream`);
    expect(refused.status).toBe(503);
    await refused.body?.cancel();
    for (const stream of streams) await stream.cancel();
  });
});
