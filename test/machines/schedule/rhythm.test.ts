import { describe, expect, test } from 'vitest';
import { readCron } from '../../../machines/schedule/cron.ts';
import { newestUpTo, type Rhythm, upcoming } from '../../../machines/schedule/rhythm.ts';
import { zoneOffset } from '../../../src/time-zones.ts';
import { processorTime } from '../../support/processor-time.ts';

function cronOf(text: string, zone = 'UTC'): Rhythm {
  const reading = readCron(text);
  const offset = zoneOffset(zone);
  if (!reading.ok || offset === null) throw new Error(reading.ok ? zone : reading.problem);
  return { kind: 'cron', cron: reading.cron, offset };
}

const nextOf = (rhythm: Rhythm, from: string, count: number) =>
  upcoming(rhythm, Date.parse(from), count).map((at) => new Date(at).toISOString().replace('.000Z', 'Z'));

describe('cron', () => {
  test.each([
    ['0 3 * * *', '2026-01-01T03:00:00Z', ['2026-01-02T03:00:00Z', '2026-01-03T03:00:00Z']],
    ['*/15 9-10 * * MON-FRI', '2026-01-02T10:40:00Z', ['2026-01-02T10:45:00Z', '2026-01-05T09:00:00Z']],
    ['*/20 * * * * *', '2026-01-01T00:00:19.500Z', ['2026-01-01T00:00:20Z', '2026-01-01T00:00:40Z']],
    ['0 0 29 feb ?', '2026-01-01T00:00:00Z', ['2028-02-29T00:00:00Z', '2032-02-29T00:00:00Z']],
    ['0 0 29 2 *', '2097-01-01T00:00:00Z', ['2104-02-29T00:00:00Z']],
    [
      '0 12 1,15 * Fri',
      '2026-01-01T12:00:00Z',
      ['2026-01-02T12:00:00Z', '2026-01-09T12:00:00Z', '2026-01-15T12:00:00Z'],
    ],
    ['0 0 * * 7', '2026-01-01T00:00:00Z', ['2026-01-04T00:00:00Z']],
    [
      '0 0 * * fri-sun',
      '2026-01-01T00:00:00Z',
      ['2026-01-02T00:00:00Z', '2026-01-03T00:00:00Z', '2026-01-04T00:00:00Z'],
    ],
    [
      '5/20 0 1 1-12/6 *',
      '2026-01-02T00:00:00Z',
      ['2026-07-01T00:05:00Z', '2026-07-01T00:25:00Z', '2026-07-01T00:45:00Z'],
    ],
    ['59 59 23 31 12 *', '2026-12-31T23:59:58Z', ['2026-12-31T23:59:59Z', '2027-12-31T23:59:59Z']],
  ])('%s after %s', (text, from, expected) => {
    expect(nextOf(cronOf(text), from, expected.length)).toEqual(expected);
  });

  test.each([
    ['', 'must have 5 fields'],
    ['* * * *', 'must have 5 fields'],
    ['* * * * * * *', 'must have 5 fields'],
    ['60 * * * *', 'the minute'],
    ['* 24 * * *', 'the hour'],
    ['* * 0 * *', 'the day of month'],
    ['* * * 13 *', 'the month'],
    ['* * * * 8', 'the day of week'],
    ['5-1 * * * *', 'the minute'],
    ['*/0 * * * *', 'the minute'],
    ['1,,2 * * * *', 'the minute'],
    ['? * * * *', 'the minute'],
    ['a * * * *', 'the minute'],
    ['* * * MON *', 'the month'],
    ['0 0 30 2 *', 'days that do not exist'],
  ])('%s is refused', (text, problem) => {
    expect(readCron(text)).toMatchObject({ ok: false, problem: expect.stringContaining(problem) });
  });
});

describe('the wall of a time zone', () => {
  // In Berlin 2026 the wall goes from 2:00 to 3:00 on 29 March (01:00 UTC) and from 3:00 to 2:00 on 25 October (01:00 UTC).
  test('a time in the gap happens at its end, and several of them once', () => {
    expect(nextOf(cronOf('30 2 * * *', 'Europe/Berlin'), '2026-03-28T00:00:00Z', 3)).toEqual([
      '2026-03-28T01:30:00Z',
      '2026-03-29T01:00:00Z',
      '2026-03-30T00:30:00Z',
    ]);
    expect(nextOf(cronOf('*/15 * * * *', 'Europe/Berlin'), '2026-03-29T00:40:00Z', 3)).toEqual([
      '2026-03-29T00:45:00Z',
      '2026-03-29T01:00:00Z',
      '2026-03-29T01:15:00Z',
    ]);
  });

  test('a time in the overlap happens once, the first time', () => {
    expect(nextOf(cronOf('30 2 * * *', 'Europe/Berlin'), '2026-10-24T12:00:00Z', 2)).toEqual([
      '2026-10-25T00:30:00Z',
      '2026-10-26T01:30:00Z',
    ]);
    // Asked within the second showing of the hour.
    expect(nextOf(cronOf('30 2 * * *', 'Europe/Berlin'), '2026-10-25T01:10:00Z', 1)).toEqual(['2026-10-26T01:30:00Z']);
    expect(nextOf(cronOf('*/30 * * * *', 'Europe/Berlin'), '2026-10-25T00:00:00Z', 3)).toEqual([
      '2026-10-25T00:30:00Z',
      '2026-10-25T02:00:00Z',
      '2026-10-25T02:30:00Z',
    ]);
  });

  test.each([
    ['Australia/Lord_Howe', '15 2 * * *', '2026-10-03T12:00:00Z', '2026-10-03T15:30:00Z'],
    ['America/Sao_Paulo', '0 0 * * *', '2018-11-03T12:00:00Z', '2018-11-04T03:00:00Z'],
    ['Asia/Kathmandu', '0 0 * * *', '2026-01-01T00:00:00Z', '2026-01-01T18:15:00Z'],
  ])('%s: %s', (zone, text, from, expected) => {
    expect(nextOf(cronOf(text, zone), from, 1)).toEqual([expected]);
  });

  test('a zone nobody knows is none', () => {
    expect(zoneOffset('Europe/Atlantis')).toBeNull();
    expect(zoneOffset('')).toBeNull();
  });
});

test('an interval keeps its rhythm, and one moment comes once', () => {
  const interval: Rhythm = { kind: 'interval', everyMs: 1500, anchor: Date.parse('2026-01-01T00:00:00Z') };
  expect(upcoming(interval, Date.parse('2026-01-01T00:00:02Z'), 2).map((at) => new Date(at).toISOString())).toEqual([
    '2026-01-01T00:00:03.000Z',
    '2026-01-01T00:00:04.500Z',
  ]);
  expect(nextOf(interval, '2025-01-01T00:00:00Z', 1)).toEqual(['2026-01-01T00:00:00Z']);
  const once: Rhythm = { kind: 'once', at: Date.parse('2026-01-01T00:00:00Z') };
  expect(nextOf(once, '2025-12-31T23:59:59Z', 5)).toEqual(['2026-01-01T00:00:00Z']);
  expect(nextOf(once, '2026-01-01T00:00:00Z', 5)).toEqual([]);
});

test('the newest of what was missed is found without walking through all of it', () => {
  const every = cronOf('* * * * * *');
  const until = Date.parse('2026-02-01T00:00:00.500Z');
  const spent = processorTime();
  expect(newestUpTo(every, Date.parse('2025-01-01T00:00:00Z'), until, 3)).toEqual(
    [2, 1, 0].map((n) => until - 500 - n * 1000),
  );
  expect(spent()).toBeLessThan(1000);
  const nightly = cronOf('0 3 * * *');
  const from = Date.parse('2026-01-01T03:00:00Z');
  expect(newestUpTo(nightly, from, Date.parse('2026-01-03T12:00:00Z'), 100)).toEqual(
    [0, 1, 2].map((n) => from + n * 86_400_000),
  );
  expect(newestUpTo(nightly, from, from - 1, 100)).toEqual([]);
});

test('of more than were asked for, the newest that were missed are kept', () => {
  const until = Date.parse('2026-02-01T00:00:00Z');
  expect(newestUpTo(cronOf('* * * * * *'), Date.parse('2026-01-01T00:00:00Z'), until, 2)).toEqual([
    until - 1000,
    until,
  ]);
});

test('a rhythm of days that never come has no next instant', () => {
  const never = cronOf('0 0 * * *');
  if (never.kind !== 'cron') throw new Error('it is a cron');
  const rhythm: Rhythm = { ...never, cron: { ...never.cron, days: new Set<number>() } };
  expect(nextOf(rhythm, '2026-01-01T00:00:00Z', 1)).toEqual([]);
});
