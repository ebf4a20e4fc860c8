/** Times as people read them, the folded line of a timeline, and its bars. */
import { describe, expect, test } from 'vitest';
import { durationText, relativeText, utcText } from '../../src/gui/core/time.ts';
import type { GraphNode, LogEvent } from '../../src/gui/core/wire.ts';
import { linesOf, timelineRows, withLaterSteps } from '../../src/gui/execution/bars.ts';
import { instantAt, timeScale, within } from '../../src/gui/execution/time-scale.ts';
import { moved, zoomed } from '../../src/gui/execution/zoom.ts';

describe('texts', () => {
  test.each([
    [0, '0 ms'],
    [850, '850 ms'],
    [1_340, '1.3 s'],
    [59_900, '60 s'],
    [125_000, '2 m 5 s'],
    [3_600_000, '1 h'],
    [187_200_000, '2 d 4 h'],
    [null, '–'],
  ])('%s ms are %s', (ms, text) => {
    expect(durationText(ms)).toBe(text);
  });

  test.each([
    ['2026-11-20T10:15:02.113Z', 'just now'],
    ['2026-11-20T10:14:50.000Z', '12 s ago'],
    ['2026-11-19T09:15:02.113Z', '1 d ago'],
    ['2026-11-20T10:18:10.000Z', 'in 3 m'],
    ['nonsense', '–'],
  ])('%s is %s', (at, text) => {
    expect(relativeText(at, Date.parse('2026-11-20T10:15:02.500Z'))).toBe(text);
  });

  test('an exact instant says that it is UTC', () => {
    expect(utcText('2026-11-20T11:15:02.113+01:00')).toBe('2026-11-20 10:15:02.113 UTC');
  });
});

describe('the folded line', () => {
  const whole = { from: 0, to: 100_000 };

  test('without idle stretches it is even', () => {
    const scale = timeScale(whole, [whole], true);
    expect([scale.place(25_000), scale.folds.length]).toEqual([0.25, 0]);
  });

  test('an hour of waiting takes less room than a second of work', () => {
    const scale = timeScale(
      { from: 0, to: 3_602_000 },
      [
        { from: 0, to: 1000 },
        { from: 3_601_000, to: 3_602_000 },
      ],
      true,
    );
    expect(scale.folds.map((fold) => fold.ms)).toEqual([3_600_000]);
    expect(scale.place(1000)).toBeGreaterThan(0.4);
    expect(scale.place(3_601_000) - scale.place(1000)).toBeLessThan(0.1);
    expect(scale.place(3_602_000)).toBeCloseTo(1);
  });

  test('later is never further left', () => {
    const scale = timeScale(
      whole,
      [
        { from: 0, to: 10 },
        { from: 50_000, to: 50_010 },
        { from: 90_000, to: 90_500 },
      ],
      true,
    );
    let before = 0;
    for (let ms = 0; ms <= 100_000; ms += 137) {
      expect(scale.place(ms)).toBeGreaterThanOrEqual(before);
      before = scale.place(ms);
    }
  });
});

test('bars of the same time lie on different lines, up to a bound', () => {
  const bar = (from: number, to: number) => ({ from, to });
  expect(linesOf([bar(0, 10), bar(0, 10), bar(5, 8), bar(10, 12)], 8)).toEqual([0, 1, 2, 0]);
  expect(linesOf([bar(0, 9), bar(0, 10), bar(5, 8)], 2)).toEqual([0, 1, 0]);
});

test('of a long log, steps that go on after what was read are drawn as the plan of the run knows them', () => {
  const at = (ms: number) => new Date(ms).toISOString();
  const node = (step: string, from: number | null, to: number | null): GraphNode => ({
    id: step,
    step,
    kinds: ['noop'],
    loop: null,
    line: null,
    state: {
      status: to === null ? 'running' : 'completed',
      activations: from === null ? 0 : 1,
      iterations: null,
      started_at: from === null ? null : at(from),
      ended_at: to === null ? null : at(to),
      duration_ms: null,
      error: null,
    },
  });
  const bar = { status: 'running', open: true, label: '' };
  const ended = { from: 1500, to: 1800, status: 'completed', open: false, label: 'loop#0' };
  const read = [
    { step: 'first', bars: [{ ...bar, from: 0, to: 900, open: false }], tries: [], partial: false },
    {
      step: 'loop',
      bars: [{ ...bar, from: 1000, to: 9000 }],
      tries: [ended, { ...bar, from: 1900, to: 9000 }],
      partial: false,
    },
  ];
  const nodes = [node('first', 0, 900), node('last', 6000, 7000), node('loop', 1000, 5000), node('never', null, null)];
  const rows = withLaterSteps(read, nodes, 2000, 9000);
  expect(rows.map((row) => [row.step, row.partial])).toEqual([
    ['first', false],
    ['loop', true],
    ['last', true],
  ]);
  expect(rows[1]?.bars).toMatchObject([{ from: 1000, to: 5000, status: 'completed', open: false }]);
  expect(rows[1]?.tries).toEqual([ended]);
});

test('a step that has not ended is drawn up to the present, or to the end of its execution', () => {
  const event = (type: string, seconds: number): LogEvent => ({
    event_id: seconds + 1,
    event_type: type,
    node_id: 'fetch',
    node_name: 'fetch',
    node_type: 'step',
    status: 'started',
    created_at: new Date(seconds * 1000).toISOString(),
    error: null,
    parent_event_id: null,
    duration: null,
    worker_id: null,
  });
  const begun = [event('step.enter', 1), event('command.claimed', 2)];
  const [open] = timelineRows(begun, 9000);
  expect(open?.bars).toMatchObject([{ from: 1000, to: 9000, status: 'running', open: true }]);
  expect(open?.tries).toMatchObject([{ from: 2000, to: 9000, open: true }]);
  const [closed] = timelineRows([...begun, event('execution.cancelled', 4)], 9000);
  expect(closed?.bars).toMatchObject([{ from: 1000, to: 4000, status: 'cancelled', open: false }]);
});

describe('brush zoom on the timeline (row 13)', () => {
  const whole = { from: 1000, to: 11_000 };

  test('an instant is found again by its place, also where time is folded', () => {
    const long = { from: 0, to: 3_602_000 };
    const scale = timeScale(
      long,
      [
        { from: 0, to: 1000 },
        { from: 3_601_000, to: 3_602_000 },
      ],
      true,
    );
    for (const at of [0, 500, 1_000_000, 3_601_500]) expect(instantAt(scale, long, scale.place(at))).toBeCloseTo(at, 1);
  });

  test('zooming stays inside and keeps the middle where it can', () => {
    expect(zoomed(whole, whole, 2)).toEqual({ from: 3500, to: 8500 });
    expect(zoomed(whole, { from: 1000, to: 2000 }, 1 / 2)).toEqual({ from: 1000, to: 3000 });
    expect(zoomed(whole, { from: 3000, to: 9000 }, 1 / 4)).toEqual(whole);
    expect(zoomed(whole, { from: 3000, to: 3004 }, 1000)).toMatchObject({ from: 2999.5, to: 3004.5 });
  });

  test('moving to the side stops at the ends', () => {
    expect(moved(whole, { from: 3000, to: 5000 }, -0.5)).toEqual({ from: 2000, to: 4000 });
    expect(moved(whole, { from: 1500, to: 3500 }, -0.5)).toEqual({ from: 1000, to: 3000 });
    expect(moved(whole, { from: 8500, to: 10_500 }, 0.5)).toEqual({ from: 9000, to: 11_000 });
  });

  test('only what lies in the window counts as work', () => {
    expect(
      within({ from: 10, to: 20 }, [
        { from: 0, to: 12 },
        { from: 30, to: 40 },
      ]),
    ).toEqual([{ from: 10, to: 12 }]);
  });
});
