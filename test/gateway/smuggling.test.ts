/** What two readers could read as one request or as two never gets past the first of them. */
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { type RunningGateway, startGateway } from '../../src/gateway/start.ts';
import { silentLog } from '../../src/log.ts';
import { ambiguousRequests } from '../support/smuggling.ts';
import { bytes, call } from './call.ts';
import { type FakeServer, startFakeServer } from './upstream-server.ts';

let server: FakeServer;
let gateway: RunningGateway;
let csrf: string;

beforeAll(async () => {
  server = await startFakeServer();
  const settings = { SVC_GATEWAY_AUTH: 'dev', SVC_GATEWAY_PORT: '0', SVC_GATEWAY_UPSTREAM: server.url };
  gateway = await startGateway(readConfig(settings), silentLog);
  csrf = (await call(gateway.url, 'GET', '/auth/me')).json.csrf_token;
});
afterAll(async () => {
  await gateway?.stop();
  await server?.stop();
});
beforeEach(() => {
  server.seen.length = 0;
});

const headOf = () => `Host: localhost\r\nContent-Type: application/json\r\nX-CSRF-Token: ${csrf}\r\n`;
const NAMES = ambiguousRequests('').map(([name]) => name);

test.each(NAMES)('HT-05 through the gateway %s is refused there, and the server hears nothing of it', async (name) => {
  const [, request = ''] = ambiguousRequests(headOf()).find(([each]) => each === name) ?? [];
  const answer = await bytes(gateway.url, request);
  expect([...answer.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => status)).toEqual(['400']);
  expect(server.seen).toEqual([]);
});

test('HT-05 chunks with extensions and trailers reach the server as one body, framed anew', async () => {
  const chunks = '7;name="a b"\r\n{"path"\r\n5;x\r\n:"a"}\r\n0\r\nX-User: root\r\n\r\n';
  const head = `${headOf()}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n`;
  // The writing side stays open: a caller that has gone gets no answer.
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
  socket.write(`POST /api/execute HTTP/1.1\r\n${head}${chunks}`);
  const answer = await text(socket);
  expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  expect(server.seen).toHaveLength(1);
  expect(server.seen[0]).toMatchObject({ url: '/api/execute', body: '{"path":"a"}' });
  expect(server.seen[0]?.headers).not.toHaveProperty('x-user');
});
