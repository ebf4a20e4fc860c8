/** The HTTP surface as an attacker finds it (catalogue I): a server in this process over a database of its own. */
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { ambiguousRequests, SMUGGLED } from '../support/smuggling.ts';
import { type Door, openDoor } from './in-process.ts';
import { judgeBy, type Operation, operationsOf, Sender } from './requests.ts';

let door: Door;
let port = 0;
let document: JsonMap = {};
let operations: readonly Operation[] = [];

beforeAll(async () => {
  door = await openDoor();
  port = Number(new URL(door.url).port);
  const answer = await door.call('GET', '/openapi.json');
  if (!isMap(answer.json as Json)) throw new Error('no document');
  document = answer.json as JsonMap;
  operations = operationsOf(document);
});
afterAll(() => door[Symbol.asyncDispose]());

/** Sends these bytes and gives what came until the other side closed; a request that is none ends its connection. */
async function exchange(bytes: string | Buffer): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(bytes);
  let text = '';
  try {
    for await (const part of socket) text += String(part);
  } catch {
    // A connection that is cut may be reset; what it said before counts.
  }
  return text;
}
const statusesIn = (text: string) => [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status));
const head = 'Host: localhost\r\nContent-Type: application/json\r\n';

describe('HT-02 bodies that are more than they say', () => {
  test('one too long without a length is 413', async () => {
    const chunk = `${(65_536).toString(16)}\r\n${' '.repeat(65_536)}\r\n`;
    const text = await exchange(
      `POST /api/executions/cleanup HTTP/1.1\r\n${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(6)}0\r\n\r\n`,
    );
    expect(text).toMatch(/^HTTP\/1\.1 413 [\s\S]*"code":"payload_too_large"/);
  });

  test('one of general size without a length is read', async () => {
    const body = `{"execution_id":1,"event_type":"report.note","payload":{"x":"${'x'.repeat(1_000_000)}"}}`;
    const cut = Array.from({ length: Math.ceil(body.length / 60_000) }, (_none, index) =>
      body.slice(index * 60_000, (index + 1) * 60_000),
    );
    const chunks = cut.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('');
    const text = await exchange(
      `POST /api/events HTTP/1.1\r\n${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`,
    );
    expect(text).toMatch(/^HTTP\/1\.1 404 [\s\S]*Execution 1 not found/);
  });

  test('one that is packed is not unpacked', async () => {
    const bomb = gzipSync(Buffer.alloc(20_000_000, 32));
    const answer = await fetch(`${door.url}/api/executions/cleanup`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: bomb,
    });
    expect([415, 422]).toContain(answer.status);
  });
});

describe('HT-04 paths', () => {
  const hostile = [
    '%2e%2e',
    '%2e',
    'a%2f..%2fb',
    'a%5cb',
    'a%00',
    '..%2f..%2fetc%2fpasswd',
    '%zz',
    '%c0%ae%c0%ae',
    '%ff',
  ];
  test('whose parameters are tricks are 404 or 422 at every door, and never found', async () => {
    for (const operation of operations.filter(({ path }) => path.includes('{'))) {
      for (const trick of [...hostile, 'a;x', 'a b', 'x'.repeat(300)]) {
        const url = operation.path.replaceAll(/\{[^}]+\}/g, trick);
        const text = await exchange(
          `${operation.method} ${url.replaceAll(' ', '%20')} HTTP/1.1\r\n${head}Connection: close\r\nContent-Length: 2\r\n\r\n{}`,
        );
        const [status] = statusesIn(text);
        expect([200, 400, 404, 413, 422, 501], `${operation.name} ${trick}: ${text.slice(0, 200)}`).toContain(status);
        if (status === 200) expect(hostile, `${operation.name} ${url}`).not.toContain(trick);
      }
    }
  }, 60_000);

  test('with a slash behind them are what they are without it', async () => {
    for (const { path } of operations.filter(({ method, path: each }) => method === 'GET' && !each.includes('{'))) {
      if (path === '/' || path.includes('stream')) continue;
      const [plain, slashed] = await Promise.all([fetch(door.url + path), fetch(`${door.url}${path}/`)]);
      expect(slashed.status, path).toBe(plain.status);
      await Promise.all([plain.body?.cancel(), slashed.body?.cancel()]);
    }
  });
});

describe('HT-05 two lengths of one request', () => {
  test.each(ambiguousRequests(head))(
    '%s is refused at once, and nothing behind it is a request',
    async (_name, bytes) => {
      const text = await exchange(bytes);
      expect(statusesIn(text)).toEqual([422]);
      expect(text).not.toContain(SMUGGLED);
    },
  );
});

describe('HT-06 methods', () => {
  test('that a path does not have are 405 with Allow, whatever a header overrides', async () => {
    const methodsOf = Map.groupBy(operations, ({ path }) => path);
    for (const [path, rows] of methodsOf) {
      if (path.includes('…') || path.includes('{path}') || path.includes('{id}')) continue;
      const has = new Set(rows.map(({ method }) => method));
      const url = path.replaceAll(/\{[^}]+\}/g, '7');
      for (const method of ['PUT', 'PATCH', 'DELETE', 'TRACE'].filter((each) => !has.has(each))) {
        const text = await exchange(
          `${method} ${url} HTTP/1.1\r\n${head}Connection: close\r\nX-HTTP-Method-Override: GET\r\n\r\n`,
        );
        expect(text, `${method} ${url}`).toMatch(/^HTTP\/1\.1 (405 [\s\S]*\r\nallow: |404 |422 )/);
      }
    }
  }, 60_000);

  test('nobody knows are refused', async () => {
    expect(statusesIn(await exchange(`BREW /health HTTP/1.1\r\n${head}Connection: close\r\n\r\n`))).toEqual([422]);
  });
});

describe('HT-10 line breaks in names', () => {
  test.each(['x-request-id', 'idempotency-key', 'traceparent', 'origin'])(
    '%s cannot add a header to the answer',
    async (name) => {
      for (const value of ['a\rX-Evil: 1', 'a\nX-Evil: 1', 'a%0d%0aX-Evil: 1', 'aaaaaaaa\u0085X-Evil: 1']) {
        const text = await exchange(
          `POST /api/execute HTTP/1.1\r\n${head}${name}: ${value}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}`,
        );
        const [headers = ''] = text.split('\r\n\r\n');
        expect(headers).not.toMatch(/^X-Evil:/im);
        expect(statusesIn(text)).toHaveLength(1);
      }
    },
  );
});

test('HT-09 requests drawn from the document are answered as it says', async () => {
  const catalogId = await door.register('fuzz/noop');
  const started = await door.call('POST', '/api/execute', { path: 'fuzz/noop' });
  const { execution_id } = started.json as { execution_id: number };
  const known = {
    execution_id,
    catalog_id: catalogId,
    path: 'fuzz/noop',
    command_id: 1,
    name: 'execution',
    wait_ms: 0,
  };
  const sender = new Sender(document, known, Number(process.env['FC_SEED'] ?? 20_261_122));
  const judge = judgeBy(document);
  // A drained server refuses what comes after, streams do not end, and a long poll waits.
  const rows = operations.filter(({ path }) => !/drain|\/stream|^\/ui/.test(path));
  const wrong: string[] = [];
  const statuses = new Set<number>();
  for (let round = 0; round < 8; round += 1) {
    await Promise.all(
      rows.map(async (operation) => {
        const request = sender.draw(operation);
        const body = request.body === null || operation.method === 'GET' ? {} : { body: request.body };
        const headers = { 'content-type': 'application/json' };
        const answer = await fetch(door.url + request.url, {
          method: operation.method,
          headers,
          redirect: 'manual',
          ...body,
        });
        statuses.add(answer.status);
        const type = answer.headers.get('content-type') ?? '';
        const problem = judge(request, { status: answer.status, type, text: await answer.text() });
        if (problem !== null) wrong.push(`${operation.name} ${request.url} ${request.body?.slice(0, 300)} ${problem}`);
      }),
    );
  }
  expect(wrong).toEqual([]);
  for (const status of [200, 404, 422]) expect(statuses).toContain(status);
  expect((await door.call('GET', '/api/health')).status).toBe(200);
}, 60_000);

test('HT-07 nothing of this was a failure of the server', () => {
  expect(door.lines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});
