import { expect, test } from 'vitest';
import { createLog, printable } from '../src/log.ts';

function recorded(format: 'json' | 'pretty', level = 'debug') {
  const lines: string[] = [];
  const log = createLog({ level, format, component: 'server', sink: { write: (line: string) => lines.push(line) } });
  return { log, lines, last: () => JSON.parse(lines.at(-1) ?? '{}') };
}

test('a line is one JSON object with instant, level, component and sentence', () => {
  const { log, last } = recorded('json');
  log.info('Something changed', { execution_id: 7 });
  expect(last()).toMatchObject({ level: 'info', component: 'server', msg: 'Something changed', execution_id: 7 });
  expect(last().time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

test('a part of the program has its own name and only one', () => {
  const { log, lines } = recorded('json');
  log.child('bus').child('listener').debug('Heard');
  expect(lines[0]?.match(/component/g)).toHaveLength(1);
  expect(lines[0]).toContain('"component":"listener"');
});

test('what is below the level is not written', () => {
  const { log, lines } = recorded('json', 'warn');
  log.info('Nothing');
  expect(lines).toEqual([]);
});

test('an error keeps its code and causes, and its stack only where someone must look now', () => {
  const { log, last } = recorded('json');
  const error = Object.assign(new Error('outer', { cause: new Error('inner') }), { code: 'E1' });
  log.warn('Odd', { error });
  expect(last().error).toEqual({ message: 'outer', code: 'E1', cause: { message: 'inner' } });
  log.error('Bad', { error });
  expect(last().error.stack).toContain('log.test.ts');
});

test('secrets are masked wherever they stand at the top or one level below', () => {
  const { log, lines } = recorded('json');
  log.info('Asked', {
    token: 's3cret',
    headers: { authorization: 's3cret', 'x-session-token': 's3cret', accept: 'text/html' },
  });
  expect(lines[0]).not.toContain('s3cret');
  expect(lines[0]).toContain('text/html');
});

test('a readable line cannot be broken or coloured by a value', () => {
  const { log, lines } = recorded('pretty');
  log.info('Seen', { path: 'a\nb\u001b[31m', more: { list: ['\u009b'] } });
  expect(lines).toHaveLength(1);
  expect(lines[0]?.trimEnd()).toMatch(/info {2}server: Seen {2}path=a\\u000ab\\u001b\[31m more=/);
  expect(/\p{Cc}/u.test(lines[0]?.trimEnd() ?? '\n')).toBe(false);
});

test('no value can break a line of JSON, or draw on the terminal of who reads it raw', () => {
  const { log, lines, last } = recorded('json');
  const path = 'a\nb\u001b[31m\u007f\u0085\u009b\u2028\u2029ü世';
  log.info('Seen', { path });
  expect(lines).toHaveLength(1);
  expect(/[\p{Cc}\u2028\u2029]/u.test(lines[0]?.trimEnd() ?? '\n')).toBe(false);
  expect(lines[0]).toContain('ü世');
  expect(last().path).toBe(path);
});

test('printable text stays as it is', () => {
  expect(printable('Grüße, 世界')).toBe('Grüße, 世界');
});
