import { describe, expect, test } from 'vitest';
import type { Schedule } from '../../src/gui/core/wire.ts';
import { draftOf, rhythmOf, rhythmText } from '../../src/gui/schedule/rhythm.ts';

function schedule(more: Partial<Schedule>): Schedule {
  return {
    schedule_id: 1,
    name: 'nightly',
    path: 'demo/report',
    cron: null,
    interval_seconds: null,
    at: null,
    timezone: 'UTC',
    workload: {},
    enabled: true,
    overlap: 'allow',
    catch_up: 'none',
    next_run_at: null,
    last_run_at: null,
    last_execution_id: null,
    last_status: null,
    ...more,
  };
}

describe('the rhythm of a schedule', () => {
  test.each([
    [{ cron: '0 3 * * *' }, '0 3 * * *'],
    [{ cron: '0 3 * * *', timezone: 'Europe/Berlin' }, '0 3 * * * in Europe/Berlin'],
    [{ interval_seconds: 60 }, 'every minute'],
    [{ interval_seconds: 300 }, 'every 5 minutes'],
    [{ interval_seconds: 90 }, 'every 90 seconds'],
    [{ interval_seconds: 0.5 }, 'every 0.5 seconds'],
    [{ interval_seconds: 86_400 }, 'every day'],
    [{ at: '2027-01-01T06:00:00.000Z' }, 'once, 2027-01-01 06:00 UTC'],
  ])('%j in words', (more, words) => {
    expect(rhythmText(schedule(more))).toBe(words);
  });

  test.each([
    [
      { cron: '*/5 * * * *', timezone: 'Asia/Tokyo' },
      { cron: '*/5 * * * *', timezone: 'Asia/Tokyo' },
    ],
    [{ interval_seconds: 7_200 }, { interval_seconds: 7_200 }],
    [{ interval_seconds: 1.5 }, { interval_seconds: 1.5 }],
    [{ at: '2027-01-01T06:00:00.000Z' }, { at: '2027-01-01T06:00:00.000Z' }],
  ])('%j comes back from the form as it went in', (more, body) => {
    expect(rhythmOf(draftOf(schedule(more)))).toEqual(body);
  });

  test('what cannot be sent is told in a sentence', () => {
    const draft = draftOf(null);
    expect(() => rhythmOf({ ...draft, kind: 'interval', every: 'often' })).toThrow('must be a number above 0');
    expect(() => rhythmOf({ ...draft, kind: 'once' })).toThrow('The moment is missing');
    expect(rhythmOf({ ...draft, timezone: ' ' })).toEqual({ cron: '0 3 * * *', timezone: 'UTC' });
  });
});
