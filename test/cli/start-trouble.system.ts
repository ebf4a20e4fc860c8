/** A server on somebody else's PostgreSQL that is not as it must be: the sentence, the exit code, and no trace. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';
import { Stage } from '../support/processes.ts';

describe('a server that cannot use its database', () => {
  const stage = new Stage();
  let postgres: TestPostgres;
  let folder = '';

  beforeAll(async () => {
    postgres = await startTestPostgres({ migrated: false });
    folder = await stage.folder();
  });
  afterAll(async () => {
    await stage.close();
    await queryRows(postgres.url, 'drop role if exists callboard_poor');
    await postgres.stop();
  });

  async function refusal(
    databaseUrl: string,
    more: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly code: number | null; readonly said: string }> {
    const server = stage.start(['server'], {
      SVC_PORT: '0',
      SVC_DATA_DIR: folder,
      SVC_DATABASE_URL: databaseUrl,
      ...more,
    });
    const { code } = await server.ended;
    expect(server.output()).not.toContain('    at ');
    return { code, said: server.output() };
  }

  /** Something at the address of a database. */
  async function listener(meet: (socket: Socket) => void) {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      stage.onEnd(async () => void socket.destroy());
      meet(socket);
    });
    const connected = once(server, 'connection');
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    stage.onEnd(async () => void server.close());
    // Listening on an address of the network.
    return { port: (server.address() as AddressInfo).port, connected };
  }

  /** The address of the test's database with something else in it; it may lead to a socket, without a host. */
  function other(change: (url: URL) => void): string {
    const url = new URL(postgres.url.replace('@/', '@socket/'));
    change(url);
    return url.href.replace('@socket/', '@/');
  }

  test.each([
    ['nobody listens', () => 'postgres://someone@127.0.0.1:1/x', 'is it running?'],
    ['the host is not known', () => 'postgres://someone@database.invalid/x', 'host name in SVC_DATABASE_URL'],
    [
      'there is no such database',
      () =>
        other((url) => {
          url.pathname = '/nowhere';
        }),
      'createdb',
    ],
    [
      'it can only be read',
      () =>
        other((url) => {
          url.searchParams.set('options', '-c default_transaction_read_only=on');
        }),
      'the primary, not its copy',
    ],
  ])('%s: a sentence with the remedy, exit code 4', async (_, databaseUrl, remedy) => {
    const { code, said } = await refusal(databaseUrl());
    expect(said).toContain(remedy);
    expect(code).toBe(4);
  });

  test.each(['host.invalid', '192.0.2.1'])(
    'nothing to listen on at %s: a sentence that names the setting, exit code 78',
    async (host) => {
      const { code, said } = await refusal('postgres://someone@127.0.0.1:1/x', { SVC_HOST: host });
      expect(said).toContain(`this machine has no address ${host} to listen on; set SVC_HOST`);
      expect(code).toBe(78);
    },
  );

  test('what listens there is no PostgreSQL: a sentence, exit code 4', async () => {
    const other = await listener((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    const { code, said } = await refusal(`postgres://someone@127.0.0.1:${other.port}/x`);
    expect(said).toContain('is it a PostgreSQL');
    expect(code).toBe(4);
  });

  test('what listens there is silent: a sentence, exit code 4', { timeout: 30_000 }, async () => {
    const other = await listener(() => {});
    const { code, said } = await refusal(`postgres://someone@127.0.0.1:${other.port}/x`);
    expect(said).toContain('does not answer');
    expect(code).toBe(4);
  });

  test('a signal ends the wait for a silent database', async () => {
    const other = await listener((socket) => void socket.write('SSH-2.0-x\r\n'));
    const server = stage.start(['server'], {
      SVC_PORT: '0',
      SVC_DATA_DIR: folder,
      SVC_DATABASE_URL: `postgres://someone@127.0.0.1:${other.port}/x`,
    });
    await other.connected;
    server.signal('SIGTERM');
    const before = performance.now();
    expect(await server.ended).toMatchObject({ code: 0 });
    expect(performance.now() - before).toBeLessThan(5_000);
  });

  test('a login that may not make schemas: a sentence with the remedy, exit code 4', async () => {
    await queryRows(postgres.url, `create role callboard_poor login password 'poor-word'`);
    const databaseUrl = other((url) => {
      url.username = 'callboard_poor';
      url.password = 'poor-word';
    });
    const { code, said } = await refusal(databaseUrl);
    expect(said).toContain('make it the owner of the database');
    expect(said).not.toContain('poor-word');
    expect(code).toBe(4);
  });

  test('a schema of a newer program: exit code 78', async () => {
    await queryRows(postgres.url, 'create schema core');
    await queryRows(
      postgres.url,
      `create table core.schema_migration (version int primary key, name text not null, breaking boolean not null,
         applied_at timestamptz not null default now(), checksum text not null)`,
    );
    await queryRows(postgres.url, `insert into core.schema_migration values (9002, 'later', true, now(), 'x')`);
    const { code, said } = await refusal(postgres.url);
    expect(said).toContain('start the newer build');
    expect(code).toBe(78);
  });
});
