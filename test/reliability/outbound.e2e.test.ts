/** What tools may reach, what may come back, and what a shell makes of its text (reliability §5 K). */
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import type { EgressOptions } from '../../src/tools/http/egress.ts';
import { createTokenRequests, type TokenRequests } from '../../src/tools/http/token-request.ts';
import type { ToolOutcome } from '../../src/tools/tool.ts';
import { failed, noHost, openTools, succeeded } from '../tools/harness.ts';
import { startServer } from '../tools/http-server.ts';

const MIB = 1024 * 1024;

/** A port that counts who comes, over IPv4 and IPv6. */
async function startListener() {
  let connections = 0;
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
  });
  server.listen(0);
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return {
    port: address.port,
    connections: () => connections,
    close: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Every way a playbook can name an address: what became of it, as one text. */
function doorsUnder(egress: EgressOptions, requests: TokenRequests, sut: ReturnType<typeof openTools>) {
  const told = (outcome: ToolOutcome) => (outcome.ok ? 'reached' : outcome.error.code);
  const oauth = (token_url: string) => ({
    name: 'o',
    type: 'oauth2',
    data: { client_id: 'i', client_secret: 's', token_url },
  });
  return {
    egress,
    ask: {
      http: async (url: string) => told(await sut.run('http', { url })),
      mcp: async (url: string) => told(await sut.run('mcp', { endpoint: url, method: 'tools/list' })),
      'token_url of a credential': async (url: string) =>
        told(await sut.run('http', { url: 'http://192.0.2.1/' }, { auth: oauth(url), timeoutMs: 5_000 })),
      'a transfer': async (url: string) =>
        told(
          await sut.run('transfer', {
            source: { type: 'http', url },
            target: { type: 'duckdb', table: 't', database: ':memory:' },
          }),
        ),
      'a script': async (url: string) =>
        told(await sut.run('python', { script: { uri: url, source: { type: 'http', endpoint: url } } })),
      'a keychain request': (url: string) =>
        requests
          .send({ url, method: 'POST', headers: {}, body: 'a=b' }, AbortSignal.timeout(5_000))
          .then(() => 'reached')
          .catch((error: Error) => error.message),
    },
  };
}

const DENIED = /^(?:EGRESS_DENIED|the egress policy does not allow the endpoint)$/;

describe('an address by any name', () => {
  const defaults: EgressOptions = { policy: 'no-metadata', allow: [], deny: [] };
  const strict: EgressOptions = { policy: 'public-only', allow: [], deny: [] };
  const open: { close(): Promise<unknown> }[] = [];
  const make = (egress: EgressOptions) => {
    const requests = createTokenRequests(egress);
    const sut = openTools({ egress });
    open.push(requests, sut.tools);
    return doorsUnder(egress, requests, sut);
  };
  const metadata = make(defaults);
  const local = make(strict);
  let listener: Awaited<ReturnType<typeof startListener>>;
  beforeAll(async () => {
    listener = await startListener();
  });
  afterAll(async () => {
    await Promise.all(open.map((each) => each.close()));
    await listener.close();
  });

  it.each([
    '169.254.169.254',
    '2852039166',
    '0xA9FEA9FE',
    '0xa9.0xfe.0xa9.0xfe',
    '0251.0376.0251.0376',
    '169.254.43518',
    '169.16689662',
    '①⑥⑨.②⑤④.①⑥⑨.②⑤④',
    '169。254。169。254',
    '169.254.169.254.',
    '%31%36%39.254.169.254',
    '[::ffff:169.254.169.254]',
    '[::ffff:a9fe:a9fe]',
    '[::169.254.169.254]',
    '[64:ff9b::169.254.169.254]',
    '[2002:a9fe:a9fe::]',
    '[fe80::1]',
    '[fd00:ec2::254]',
    '100.100.100.200',
    '168.63.129.16',
    '[::ffff:168.63.129.16]',
    'metadata.google.internal',
    'METADATA.google.internal.',
  ])('SS-01 http://%s/ is refused by every door', async (host) => {
    for (const [door, ask] of Object.entries(metadata.ask))
      expect({ door, said: await ask(`http://${host}/latest/meta-data`) }).toEqual({
        door,
        said: expect.stringMatching(DENIED),
      });
  });

  it.each([
    '127.0.0.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '127.1',
    '①②⑦.⓪.⓪.①',
    'localhost',
    'LOCALHOST.',
    '0.0.0.0',
    '0',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::127.0.0.1]',
  ])('SS-01 http://%s/ is refused before a packet is sent, where only the public internet is allowed', async (host) => {
    for (const [door, ask] of Object.entries(local.ask))
      expect({ door, said: await ask(`http://${host}:${listener.port}/`) }).toEqual({
        door,
        said: expect.stringMatching(DENIED),
      });
    expect(listener.connections()).toBe(0);
  });

  test('SS-01 the listener hears what is allowed', async () => {
    await using allowed = openTools({ egress: { ...strict, allow: [`127.0.0.1:${listener.port}`] } });
    const before = listener.connections();
    await allowed.run('http', { url: `http://127.0.0.1:${listener.port}/` });
    expect(listener.connections()).toBe(before + 1);
  });
});

describe('what a server answers', () => {
  const tools = openTools({ httpMaxResponseBytes: 2 * MIB });
  afterAll(() => tools[Symbol.asyncDispose]());
  const bomb = gzipSync(Buffer.alloc(256 * MIB));

  /** The doors that read an answer; each gives its failure, or null. */
  const asks: Readonly<Record<string, (url: string) => Promise<ToolOutcome>>> = {
    http: (url) => tools.run('http', { url }, { timeoutMs: 2_000 }),
    mcp: (url) => tools.run('mcp', { endpoint: url, method: 'tools/list' }, { timeoutMs: 2_000 }),
    'a token': (url) =>
      tools.run(
        'http',
        { url },
        {
          timeoutMs: 2_000,
          auth: { name: 'o', type: 'oauth2', data: { client_id: url, client_secret: 's', token_url: url } },
          host: { ...noHost, conceal: () => {} },
        },
      ),
  };

  it.each<[string, (write: (chunk: Buffer | string) => boolean, socket: Socket) => void, RegExp]>([
    [
      'without an end',
      (write, socket) => {
        write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[');
        const more = () => {
          while (!socket.destroyed && write(Buffer.alloc(64 * 1024, '0,')));
        };
        socket.on('drain', more);
        more();
      },
      /^BODY_TOO_LARGE$/,
    ],
    [
      'of a declared 10 GB',
      (write) => write(`HTTP/1.1 200 OK\r\ncontent-length: ${10 * 1024 * MIB}\r\n\r\n{`),
      /^BODY_TOO_LARGE$/,
    ],
    [
      'of a byte a moment',
      (write, socket) => {
        write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n');
        const timer = setInterval(() => write('1'), 100);
        socket.on('close', () => clearInterval(timer));
      },
      /^CONN_TIMEOUT$/,
    ],
    [
      'that is a bomb',
      (write, socket) => {
        write(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`);
        write(bomb);
        socket.end();
      },
      /^BODY_TOO_LARGE$/,
    ],
    [
      'with a flood of headers',
      (write, socket) => {
        write('HTTP/1.1 200 OK\r\n');
        for (let line = 0; line < 5_000; line += 1) write(`x-flood-${line}: ${'y'.repeat(100)}\r\n`);
        write('\r\n{}');
        socket.end();
      },
      /^CONN_ERROR$/,
    ],
  ])('SS-03 %s fails the try, and memory stays flat', async (_how, reply, code) => {
    for (const [door, ask] of Object.entries(asks)) {
      const sockets = new Set<Socket>();
      const server = createServer((socket) => {
        sockets.add(socket);
        socket.on('error', () => {});
        socket.once('data', () => reply((chunk) => socket.write(chunk), socket));
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const address = server.address();
      if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
      const before = process.memoryUsage().rss;
      const { error } = failed(await ask(`http://127.0.0.1:${address.port}/`));
      expect({ door, code: error.code }).toEqual({ door, code: expect.stringMatching(code) });
      expect(process.memoryUsage().rss - before).toBeLessThan(96 * MIB);
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    }
  });

  test('SS-03 that is no JSON is text for http, and a failure where JSON is needed', async () => {
    await using server = await startServer((_seen, response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"a": '),
    );
    expect(succeeded(await asks['http']!(server.url)).data).toMatchObject({ body: '{"a": ' });
    expect(failed(await asks['mcp']!(server.url)).error.kind).toMatch(/^(?:parse|tool_error|schema)$/);
    expect(failed(await asks['a token']!(server.url)).error.message).toBe(
      'the token endpoint answered without an access_token',
    );
  });

  test('SS-03 with keys of prototypes stays data', async () => {
    await using server = await startServer((_seen, response) =>
      response.end('{"__proto__": {"polluted": true}, "constructor": {"prototype": {"polluted": true}}}'),
    );
    await asks['http']!(server.url);
    expect(({} as JsonMap)['polluted']).toBeUndefined();
  });
});

describe('a shell task', () => {
  const tools = openTools({
    environment: { ...process.env, SVC_ENCRYPTION_KEY: 'canary', SVC_WORKER_TOKEN: 'canary' },
  });
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'callboard-shell-'));
  });
  afterAll(async () => {
    await tools[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });
  const stdout = async (fields: JsonMap) =>
    String((succeeded(await tools.run('shell', fields)).data as JsonMap)['stdout']);

  it.each(['--version', '-rf /', '$(touch canary)', '`touch canary`', 'a\nb', "'; touch canary; '", 'é€𝄞', '*', '~'])(
    'SS-05 gets %j through its environment as it is',
    async (value) => {
      expect(await stdout({ command: 'printf %s "$VALUE"', env: { VALUE: value }, cwd: folder })).toBe(value);
      expect(existsSync(join(folder, 'canary'))).toBe(false);
    },
  );

  it.each(['--version', '-x', '+x', '--help'])('SS-05 takes %j for a command, not for an option', async (command) => {
    for (const shell of ['sh', 'bash']) {
      const { error } = failed(await tools.run('shell', { command, shell, cwd: folder }));
      expect(error.code).toBe('EXIT_127');
    }
  });

  test('SS-05 sees nothing of the worker but four variables', async () => {
    const names = (await stdout({ command: 'env' })).split('\n').map((line) => line.split('=')[0]);
    expect(names.filter((name) => name?.startsWith('SVC_'))).toEqual([]);
    expect(await stdout({ command: 'env' })).not.toContain('canary');
  });

  it.each(['/no/such/folder', '../../../../no/such', '/etc/passwd', 'a\u0000b'])(
    'SS-05 does not start in %j',
    async (cwd) => {
      const { error } = failed(await tools.run('shell', { command: 'touch canary', cwd }));
      expect(error).toMatchObject({ kind: 'config', message: expect.stringContaining('does not exist') });
    },
  );

  test('SS-05 has a shell by its name only: what is behind it is no argument', async () => {
    const { error } = failed(
      await tools.run('shell', { command: 'true', shell: 'sh -c "touch canary" --', cwd: folder }),
    );
    expect(error).toMatchObject({ kind: 'config', message: expect.stringContaining('cannot be started') });
    expect(existsSync(join(folder, 'canary'))).toBe(false);
  });
});
