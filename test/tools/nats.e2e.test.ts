import { createServer, type Socket } from 'node:net';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { ToolCall } from '../../src/tools/tool.ts';
import { natsBinary, startTestNats, type TestNats, withoutNats } from '../support/nats.ts';
import { failed, openTools, succeeded } from './harness.ts';

const tools = openTools({ httpMaxResponseBytes: 100_000 });
afterAll(() => tools[Symbol.asyncDispose]());

describe.skipIf(natsBinary === null)(`a nats task${withoutNats}`, () => {
  let nats: TestNats;
  beforeAll(async () => {
    nats = await startTestNats('-js');
    await addStream('ORDERS', ['orders.>']);
  });
  afterAll(() => nats[Symbol.asyncDispose]());

  const run = (operation: string, fields: JsonMap, more: Partial<ToolCall> = {}) =>
    tools.run('nats', { url: nats.server, operation, ...fields }, more);
  const data = async (operation: string, fields: JsonMap) => succeeded(await run(operation, fields)).data as JsonMap;

  async function addStream(name: string, subjects: string[]): Promise<void> {
    const connection = await connect({ servers: nats.server });
    await (await jetstreamManager(connection)).streams.add({ name, subjects });
    await connection.close();
  }

  describe('on a key-value bucket', () => {
    it.each([
      ['a map', { a: [1, null, true] }],
      ['a number', 42],
      ['a text', 'plain ö'],
      ['null', null],
    ] as [string, Json][])('keeps %s', async (_, value) => {
      const place = { bucket: 'values', key: 'k' };
      const put = await data('kv_put', { ...place, value });
      expect(put).toMatchObject({ status: 'success', ...place, revision: expect.any(Number) });
      expect(await data('kv_get', place)).toMatchObject({
        status: 'success',
        ...place,
        value,
        revision: put['revision'],
      });
    });

    it('keeps bytes as base64', async () => {
      const place = { bucket: 'values', key: 'bytes' };
      await data('kv_put', { ...place, value: '//8A', encoding: 'base64' });
      expect(await data('kv_get', place)).toMatchObject({ value: '//8A' });
    });

    it('lists, deletes and purges keys', async () => {
      const bucket = 'lists';
      for (const key of ['a.2', 'a.1', 'b.1']) await data('kv_put', { bucket, key, value: key, ttl: '1h' });
      expect(await data('kv_keys', { bucket })).toMatchObject({
        status: 'success',
        keys: ['a.1', 'a.2', 'b.1'],
        count: 3,
      });
      expect(await data('kv_keys', { bucket, pattern: 'a.*' })).toMatchObject({ keys: ['a.1', 'a.2'] });
      expect(await data('kv_delete', { bucket, key: 'a.1' })).toEqual({ status: 'success', bucket, key: 'a.1' });
      expect(await data('kv_get', { bucket, key: 'a.1' })).toMatchObject({ status: 'not_found', value: null });
      expect(await data('kv_delete', { bucket, key: 'a.1' })).toMatchObject({ status: 'not_found' });
      expect(await data('kv_purge', { bucket, key: 'b.1' })).toMatchObject({ status: 'success' });
      expect(await data('kv_keys', { bucket })).toMatchObject({ keys: ['a.2'] });
    });

    it('says not_found for what is not there, which is no failure', async () => {
      const place = { bucket: 'nowhere', key: 'k' };
      for (const operation of ['kv_get', 'kv_delete', 'kv_purge', 'kv_keys']) {
        expect(await data(operation, place)).toMatchObject({ status: 'not_found', bucket: 'nowhere' });
      }
      expect(await data('kv_get', { bucket: 'values', key: 'nothing' })).toMatchObject({ status: 'not_found' });
    });
  });

  it('keeps objects with their description and headers', async () => {
    const place = { bucket: 'files', name: 'a report.txt' };
    expect(await data('object_get', place)).toMatchObject({ status: 'not_found' });
    const put = await data('object_put', { ...place, data: 'hello', description: 'd', headers: { 'x-a': 'b' } });
    expect(put).toMatchObject({ status: 'success', ...place, size: 5, description: 'd', headers: { 'x-a': 'b' } });
    expect(await data('object_get', place)).toMatchObject({ ...place, data: 'hello', encoding: 'text', size: 5 });
    expect(await data('object_get', { ...place, encoding: 'base64' })).toMatchObject({ data: 'aGVsbG8=' });
    expect(await data('object_info', place)).toMatchObject({ status: 'success', digest: put['digest'] });
    expect(await data('object_list', { bucket: 'files' })).toMatchObject({ objects: [{ name: place.name }], count: 1 });
    expect(await data('object_delete', place)).toEqual({ status: 'success', ...place });
    for (const operation of ['object_get', 'object_delete', 'object_info']) {
      expect(await data(operation, place)).toMatchObject({ status: 'not_found' });
    }
    expect(await data('object_list', { bucket: 'nowhere' })).toMatchObject({ status: 'not_found', objects: [] });
  });

  it('refuses an object above the limit', async () => {
    const place = { bucket: 'files', name: 'large' };
    await data('object_put', { ...place, data: 'x'.repeat(100_001) });
    expect(failed(await run('object_get', place)).error).toMatchObject({ kind: 'logic', code: 'RESULT_TOO_LARGE' });
  });

  describe('on a stream', () => {
    it('publishes, reads by number and by subject, and tells about the stream', async () => {
      const stream = 'ORDERS';
      const publish = { subject: 'orders.new', data: { id: 1 }, headers: { 'Nats-Msg-Id': 'm1' } };
      expect(await data('js_publish', publish)).toMatchObject({ status: 'success', stream, seq: 1, duplicate: false });
      expect(await data('js_publish', publish)).toMatchObject({ seq: 1, duplicate: true });
      expect(await data('js_publish', { subject: 'orders.old', data: 'text', stream })).toMatchObject({ seq: 2 });
      expect(await data('js_get_msg', { stream, seq: 1 })).toMatchObject({
        status: 'success',
        seq: 1,
        subject: 'orders.new',
        data: { id: 1 },
        headers: { 'Nats-Msg-Id': 'm1' },
      });
      expect(await data('js_get_msg', { stream, last: true })).toMatchObject({ seq: 2, data: 'text' });
      expect(await data('js_get_msg', { stream, last: 'orders.new' })).toMatchObject({ seq: 1 });
      expect(await data('js_get_msg', { stream, seq: 99 })).toMatchObject({ status: 'not_found' });
      expect(await data('js_stream_info', { stream })).toMatchObject({
        status: 'success',
        stream,
        config: { subjects: ['orders.>'] },
        state: { messages: 2, first_seq: 1, last_seq: 2 },
      });
      for (const operation of ['js_stream_info', 'js_get_msg', 'js_consume']) {
        expect(await data(operation, { stream: 'NONE', seq: 1 })).toMatchObject({ status: 'not_found' });
      }
    });

    it('takes messages for a consumer once, and again when they are not acknowledged', async () => {
      await addStream('WORK', ['work.>']);
      for (const n of [1, 2, 3]) await data('js_publish', { subject: 'work.a', data: n });
      const take = (fields: JsonMap) => data('js_consume', { stream: 'WORK', ...fields });
      const bodies = (answer: JsonMap) => (answer['messages'] as JsonMap[]).map((message) => message['data']);
      expect(bodies(await take({ batch: 10 }))).toEqual([1, 2, 3]);
      expect(bodies(await take({ batch: 10, seq: 3 }))).toEqual([3]);
      expect(bodies(await take({ batch: 10, last: true }))).toEqual([3]);
      const first = await take({ consumer: 'c', batch: 2 });
      expect(first).toMatchObject({ status: 'success', stream: 'WORK', consumer: 'c', count: 2 });
      expect(bodies(first)).toEqual([1, 2]);
      expect(bodies(await take({ consumer: 'c', batch: 2, ack: false }))).toEqual([3]);
      expect(await take({ consumer: 'c', timeout_ms: 100 })).toMatchObject({ messages: [], count: 0 });
      expect(bodies(await take({ consumer: 'other', subject: 'work.b', timeout_ms: 100 }))).toEqual([]);
    });
  });

  it('fails for what cannot be asked', async () => {
    const configured = async (operation: string, fields: JsonMap) => failed(await run(operation, fields)).error;
    for (const [operation, fields] of [
      ['kv_eat', {}],
      ['kv_get', { bucket: 'b' }],
      ['kv_get', { bucket: 'not a bucket', key: 'k' }],
      ['kv_put', { bucket: 'values', key: 'not a key', value: 1 }],
      ['kv_put', { bucket: 'values', key: 'k', value: '%', encoding: 'base64' }],
      ['kv_put', { bucket: 'new', key: 'k', value: 1, ttl: 'soon' }],
      ['js_consume', { stream: 'ORDERS', batch: 100_000 }],
      ['js_publish', { subject: 'a', headers: { 'a\r\nb': 'c' } }],
      ['js_get_msg', { stream: 'ORDERS', seq: -1 }],
    ] as [string, JsonMap][]) {
      expect([operation, fields, await configured(operation, fields)]).toMatchObject([
        operation,
        fields,
        { kind: 'config' },
      ]);
    }
    const unheard = await configured('js_publish', { subject: 'nobody.listens', data: 1 });
    expect(unheard).toMatchObject({ kind: 'tool_error', code: 'NATS_NO_RESPONDERS' });
  });
});

describe.skipIf(natsBinary === null)(`a server with users${withoutNats}`, () => {
  let nats: TestNats;
  beforeAll(async () => {
    nats = await startTestNats('-js', '--user', 'u', '--pass', 'a-password');
  });
  afterAll(() => nats[Symbol.asyncDispose]());
  const get = (auth: ToolCall['auth'], url?: string) =>
    tools.run('nats', { operation: 'kv_get', bucket: 'b', key: 'k', ...(url !== undefined && { url }) }, { auth });

  it('lets in who has a credential', async () => {
    const nats_url = `nats://${nats.server}`;
    const own = { name: 'n', type: 'nats', data: { nats_url, nats_user: 'u', nats_password: 'a-password' } };
    expect(succeeded(await get(own)).data).toMatchObject({ status: 'not_found' });
    const basic = { name: 'n', type: 'basic', data: { username: 'u', password: 'a-password' } };
    expect(succeeded(await get(basic, nats_url)).data).toMatchObject({ status: 'not_found' });
    expect(succeeded(await get(null, `nats://u:a-password@${nats.server}`)).data).toMatchObject({
      status: 'not_found',
    });
  });

  it('turns others away, and nothing is said about their password', async () => {
    for (const auth of [null, { name: 'n', type: 'basic', data: { username: 'u', password: 'wrong-password' } }]) {
      const { error } = failed(await get(auth, nats.server));
      expect(error).toMatchObject({ kind: 'auth', code: 'NATS_AUTH', retryable: false });
      expect(error.message).not.toContain('wrong-password');
    }
  });
});

describe('a nats server', () => {
  const get = (url: string, more: Partial<ToolCall> = {}, fields: JsonMap = {}) =>
    tools.run('nats', { operation: 'kv_get', bucket: 'b', key: 'k', url, ...fields }, more);

  it('that is not there is a refused connection', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    expect(failed(await get(`nats://127.0.0.1:${port}`)).error).toMatchObject({
      kind: 'connection',
      code: 'CONN_REFUSED',
    });
  });

  it('that says nothing is given up in time, and at once when the try is stopped; it collects no connections', async () => {
    const open = new Set<Socket>();
    const server = createServer((socket) => {
      open.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => open.delete(socket));
      socket.resume();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const url = `127.0.0.1:${port}`;
    expect(failed(await get(url, {}, { timeout_ms: 150 })).error).toMatchObject({
      kind: 'timeout',
      code: 'TOOL_TIMEOUT',
    });
    const stop = new AbortController();
    server.once('connection', () => stop.abort());
    expect(failed(await get(url, { signal: stop.signal })).error).toMatchObject({ code: 'CANCELLED' });
    await expect.poll(() => open.size).toBe(0);
    await new Promise((resolve) => server.close(resolve));
  });

  it('that speaks something else is a failed connection', async () => {
    const server = createServer((socket) => void socket.end('HTTP/1.1 200 OK\r\n\r\n'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    expect(failed(await get(`127.0.0.1:${port}`, {}, { timeout_ms: 1000 })).error.kind).toMatch(
      /^(connection|timeout)$/,
    );
    await new Promise((resolve) => server.close(resolve));
  });

  it.each([
    ['', 'config'],
    ['http://host:1', 'config'],
    ['nats://', 'config'],
  ])('cannot be %j', async (url, kind) => {
    expect(failed(await get(url)).error.kind).toBe(kind);
  });

  it('cannot be reached with a credential of another kind', async () => {
    const auth = { name: 'db', type: 'postgres', data: { password: 'x' } };
    expect(failed(await get('127.0.0.1', { auth })).error).toMatchObject({
      kind: 'config',
      message: "credential 'db' of type 'postgres' cannot be used with tool kind 'nats'",
    });
  });
});
