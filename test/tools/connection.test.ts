import { describe, expect, it } from 'vitest';
import { connectionKey, readConnection, searchPath } from '../../src/tools/postgres/connection.ts';
import type { ResolvedAuth } from '../../src/tools/tool.ts';

const stored = (type: string, data: ResolvedAuth['data']): ResolvedAuth => ({ name: 'shop', type, data });

describe('the connection of a postgres task', () => {
  it('comes from a credential in any of its spellings', () => {
    const expected = { host: 'h', port: 6543, user: 'u', password: 'p', database: 'd', ssl: false };
    for (const data of [
      { host: 'h', port: 6543, user: 'u', password: 'p', database: 'd' },
      { db_host: 'h', db_port: '6543', db_user: 'u', db_password: 'p', db_name: 'd' },
      { host: 'h', port: '6543', username: 'u', password: 'p', dbname: 'd' },
      { connection_string: 'postgres://u:p@h:6543/d' },
      { dsn: "host=h port=6543 user=u password='p' dbname=d" },
    ])
      expect(readConnection({}, stored('postgres', data))).toEqual(expected);
  });

  it('is refused where its owner did not list the host, whoever named that', () => {
    const auth = {
      ...stored('postgres', { host: 'h', user: 'u', password: 'p' }),
      hosts: ['h', '*.db.test', 'i:5433'],
    };
    expect(readConnection({}, auth)).toMatchObject({ host: 'h' });
    expect(readConnection({ host: 'a.DB.test.' }, auth)).toMatchObject({ password: 'p' });
    expect(readConnection({ host: 'i', port: 5433 }, auth)).toMatchObject({ password: 'p' });
    for (const fields of [{ host: 'evil' }, { host: 'i' }, { connection_string: 'postgres://evil.test/db' }])
      expect(() => readConnection(fields, auth)).toThrow(/^credential 'shop' is not meant for host/);
  });

  it('reads a socket folder from a connection string', () => {
    const config = (text: string) => readConnection({ connection_string: text }, null);
    expect(config('postgres://u:p@/d?host=/run/pg&port=6000')).toMatchObject({
      host: '/run/pg',
      port: 6000,
      user: 'u',
      password: 'p',
      database: 'd',
    });
    expect(config('postgresql:///d')).toMatchObject({ host: 'localhost', database: 'd' });
    expect(config('postgres://u:p%40w@[::1]/d')).toMatchObject({ host: '::1', password: 'p@w' });
  });

  it('lets fields of the task win over the credential', () => {
    const auth = stored('postgres', { host: 'h', user: 'u', password: 'p', database: 'd' });
    expect(readConnection({ host: 'other', database: 'e' }, auth)).toMatchObject({
      host: 'other',
      user: 'u',
      database: 'e',
    });
    expect(readConnection({ connection_string: 'postgresql://a@b/c' }, auth)).toMatchObject({
      host: 'b',
      user: 'a',
      database: 'c',
    });
  });

  it('takes user and password from a basic credential', () =>
    expect(readConnection({ host: 'h' }, stored('basic', { username: 'u', password: 'p' }))).toMatchObject({
      user: 'u',
      password: 'p',
    }));

  it('refuses a credential of a type it has no use for', () =>
    expect(() => readConnection({}, stored('bearer', { token: 't' }))).toThrow(
      "credential 'shop' of type 'bearer' cannot be used with tool kind 'postgres'",
    ));

  it('refuses a missing host and a bad port', () => {
    expect(() => readConnection({}, null)).toThrow(/no connection/);
    expect(() => readConnection({ host: 'h', port: 'x' }, null)).toThrow(/port/);
  });

  it('does not repeat a connection string it cannot read', () => {
    expect(() => readConnection({ connection_string: 'postgres://u:s3cret@h:bad/d' }, null)).toThrow(
      /^(?!.*s3cret).*cannot be read/,
    );
    expect(() => readConnection({ connection_string: 's3cret' }, null)).toThrow(/^(?!.*s3cret).*cannot be read/);
  });

  it('reads the ssl mode as libpq does', () => {
    expect(readConnection({ connection_string: 'postgres://h/d?sslmode=require' }, null).ssl).toEqual({
      rejectUnauthorized: false,
    });
    expect(readConnection({ host: 'h', sslmode: 'verify-full' }, null).ssl).toBe(true);
  });

  it('keeps pools apart by every part of the connection', () => {
    const config = readConnection({ host: 'h' }, null);
    expect(connectionKey(config)).not.toBe(connectionKey({ ...config, password: 'x' }));
  });

  it('quotes the schema', () => {
    expect(searchPath({ schema: 'a"; drop' })).toBe('"a""; drop"');
    expect(searchPath({ schema: ' ' })).toBeNull();
    expect(searchPath({})).toBeNull();
  });
});
