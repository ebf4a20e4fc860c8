import { describe, expect, it } from 'vitest';
import {
  classifyHttpStatus,
  classifyJavascript,
  classifyNetwork,
  classifyPython,
  classifySqlstate,
  failure,
  retryableKinds,
} from '../../src/tools/errors.ts';

describe('the table of error kinds', () => {
  it('repeats only what may end differently', () => {
    const retryable = Object.entries(retryableKinds).flatMap(([kind, yes]) => (yes ? [kind] : []));
    expect(retryable.sort()).toEqual(
      ['connection', 'db_connection', 'db_deadlock', 'db_timeout', 'rate_limit', 'server_error', 'timeout'].sort(),
    );
  });

  it('takes retryable from the kind unless told otherwise', () => {
    expect(failure('connection', 'CONN_REFUSED', 'x').error.retryable).toBe(true);
    expect(failure('connection', 'EGRESS_DENIED', 'x', { retryable: false }).error.retryable).toBe(false);
    expect(failure('config', 'X', 'x')).toEqual({
      ok: false,
      error: { kind: 'config', code: 'X', message: 'x', retryable: false },
      data: null,
    });
  });

  it.each([
    [301, 'client_error'],
    [400, 'client_error'],
    [401, 'auth'],
    [403, 'auth'],
    [404, 'not_found'],
    [418, 'client_error'],
    [429, 'rate_limit'],
    [500, 'server_error'],
    [503, 'server_error'],
  ])('reads HTTP %i as %s', (status, kind) => expect(classifyHttpStatus(status)).toBe(kind));

  it.each([
    ['08006', 'db_connection'],
    ['53300', 'db_connection'],
    ['57P01', 'db_connection'],
    ['57014', 'db_timeout'],
    ['55P03', 'db_timeout'],
    ['40001', 'db_deadlock'],
    ['40P01', 'db_deadlock'],
    ['23505', 'db_constraint'],
    ['28P01', 'auth'],
    ['22012', 'schema'],
    ['42P01', 'schema'],
    ['P0001', 'unknown'],
    ['40002', 'unknown'],
  ])('reads SQLSTATE %s as %s', (sqlstate, kind) => expect(classifySqlstate(sqlstate)).toBe(kind));

  it.each([
    [['ValueError', 'Exception'], 'ValueError: x', 'schema'],
    [['JSONDecodeError', 'ValueError'], 'JSONDecodeError: x', 'parse'],
    [['IndentationError', 'SyntaxError'], 'x', 'parse'],
    [['KeyError', 'LookupError'], "KeyError: 'a'", 'schema'],
    [['AssertionError'], 'AssertionError', 'unknown'],
    [['RuntimeError'], 'RuntimeError: the read timed out', 'timeout'],
    [['ValueError'], 'ValueError: Timeout of peer', 'timeout'],
  ])('reads the Python classes %j as %s', (classes, message, kind) =>
    expect(classifyPython(classes, message)).toBe(kind),
  );

  it.each([
    [['TypeError', 'Error'], 'x', 'schema'],
    [['RangeError'], 'x', 'schema'],
    [['ReferenceError'], 'x', 'schema'],
    [['SyntaxError'], 'x', 'parse'],
    [['Error'], 'request timed out', 'timeout'],
    [['Error'], 'x', 'unknown'],
  ])('reads the JavaScript classes %j as %s', (classes, message, kind) =>
    expect(classifyJavascript(classes, message)).toBe(kind),
  );

  it('finds the network code behind causes and aggregates', () => {
    const refused = Object.assign(new Error('no'), { code: 'ECONNREFUSED' });
    expect(classifyNetwork(new Error('fetch failed', { cause: refused })).code).toBe('CONN_REFUSED');
    expect(classifyNetwork(new AggregateError([refused])).code).toBe('CONN_REFUSED');
    expect(classifyNetwork(Object.assign(new Error(), { code: 'ENOTFOUND' })).code).toBe('DNS_ERROR');
    expect(classifyNetwork(Object.assign(new Error(), { code: 'UND_ERR_CONNECT_TIMEOUT' })).kind).toBe('timeout');
    expect(classifyNetwork(Object.assign(new Error('reset'), { code: 'ECONNRESET' }))).toEqual({
      kind: 'connection',
      code: 'CONN_ERROR',
      reason: 'reset (ECONNRESET)',
    });
  });
});
