import { expect, test } from 'vitest';
import { decodeMessage, encodeHints } from '../../src/bus/message.ts';

const hints = (count: number, text = '') => Array.from({ length: count }, (_, n) => ({ command_id: n, text }));

test('hints of a topic travel in one message and come back', () => {
  const { texts, dropped } = encodeHints('executions', hints(3));
  expect(dropped).toBe(0);
  expect(texts.map(decodeMessage)).toEqual([{ topic: 'executions', hints: hints(3) }]);
});

test('more than fifty commands become a number', () => {
  expect(encodeHints('commands.shared', hints(50)).texts.map(decodeMessage)).toEqual([
    { topic: 'commands.shared', hints: hints(50) },
  ]);
  expect(encodeHints('commands.shared', hints(51)).texts.map(decodeMessage)).toEqual([
    { topic: 'commands.shared', hints: [{ pool: 'shared', count: 51 }] },
  ]);
});

test('what is too long for one message is cut, and what is too long for any is dropped', () => {
  const { texts, dropped } = encodeHints('executions', [...hints(40, 'é'.repeat(400)), { text: 'x'.repeat(9_000) }]);
  expect(dropped).toBe(1);
  expect(Math.max(...texts.map((text) => Buffer.byteLength(text)))).toBeLessThan(8_000);
  expect(texts.flatMap((text) => decodeMessage(text)?.hints ?? [])).toEqual(hints(40, 'é'.repeat(400)));
});

test.each([
  '',
  'garbage',
  '[]',
  'null',
  '{"topic":"executions"}',
  '{"topic":"executions","hints":{}}',
  '{"topic":"executions","hints":[1]}',
  '{"topic":"others","hints":[]}',
  '{"topic":"commands.","hints":[]}',
  '{"topic":"commands.a/b","hints":[]}',
  `{"topic":"executions","hints":[{"a":"${'x'.repeat(20_000)}"}]}`,
])('what is no message is refused: %.40s', (text) => {
  expect(decodeMessage(text)).toBeNull();
});
