import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  commandSpanId,
  executionSpanId,
  isInShare,
  keptTraceOf,
  readKeptTrace,
  readTraceparent,
  readTracestate,
  traceIdOf,
  writeTraceparent,
} from '../../machines/trace-context.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const digest = (text: string) => createHash('sha256').update(text).digest('hex');

test('a traceparent is read and written again', () => {
  const sampled = `00-${TRACE}-${SPAN}-01`;
  expect(readTraceparent(sampled)).toEqual({ traceId: TRACE, spanId: SPAN, isSampled: true });
  expect(readTraceparent(`00-${TRACE}-${SPAN}-00`)).toMatchObject({ isSampled: false });
  expect(writeTraceparent({ traceId: TRACE, spanId: SPAN, isSampled: true })).toBe(sampled);
  expect(writeTraceparent({ traceId: TRACE, spanId: SPAN, isSampled: false })).toBe(`00-${TRACE}-${SPAN}-00`);
});

test('a later version may say more, the present one may not', () => {
  expect(readTraceparent(`01-${TRACE}-${SPAN}-01-more`)).toMatchObject({ traceId: TRACE });
  expect(readTraceparent(`00-${TRACE}-${SPAN}-01-more`)).toBeNull();
});

test.each([
  undefined,
  7,
  '',
  'hello',
  `ff-${TRACE}-${SPAN}-01`,
  `00-${'0'.repeat(32)}-${SPAN}-01`,
  `00-${TRACE}-${'0'.repeat(16)}-01`,
  `00-${TRACE.toUpperCase()}-${SPAN}-01`,
  `00-${TRACE}-${SPAN}`,
])('%s is no traceparent', (text) => {
  expect(readTraceparent(text)).toBeNull();
});

test.each([
  ['rojo=00f067aa0ba902b7, congo=t61rcWkgMzE', 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE'],
  ['tenant@vendor=a b,,', 'tenant@vendor=a b'],
  [undefined, null],
  ['', null],
  ['novalue', null],
  ['UPPER=1', null],
  ['a=tail ,b=\n', null],
  ['a=1=2', null],
  [`a=${'x'.repeat(600)}`, null],
  [Array.from({ length: 33 }, (_, n) => `k${n}=1`).join(','), null],
])('the tracestate %j is read as %j', (text, read) => {
  expect(readTracestate(text)).toBe(read);
});

test('parent and state are kept as one text, and a state without a parent is not', () => {
  const parent = `00-${TRACE}-${SPAN}-01`;
  const context = { traceId: TRACE, spanId: SPAN, isSampled: true };
  expect(keptTraceOf(parent, undefined)).toBe(parent);
  expect(readKeptTrace(parent)).toEqual({ context, state: null });
  const kept = keptTraceOf(parent, 'v=a b, w=2');
  expect(readKeptTrace(kept)).toEqual({ context, state: 'v=a b,w=2' });
  expect(keptTraceOf('none', 'v=1')).toBeNull();
  expect(keptTraceOf(parent, 'password')).toBe(parent);
  expect(readKeptTrace(null)).toEqual({ context: null, state: null });
  expect(readKeptTrace('broken v=1')).toEqual({ context: null, state: null });
});

test('ids follow from what is traced and differ for what is not the same', () => {
  expect(traceIdOf(7, digest)).toMatch(/^[0-9a-f]{32}$/);
  expect(traceIdOf(7, digest)).toBe(traceIdOf(7, digest));
  expect(new Set([executionSpanId(7, digest), executionSpanId(8, digest), commandSpanId(7, digest)]).size).toBe(3);
});

test('a share of traces is about that share, whole and none', () => {
  const traces = Array.from({ length: 1_000 }, (_, index) => traceIdOf(index, digest));
  expect(traces.filter((trace) => isInShare(trace, 1))).toHaveLength(1_000);
  expect(traces.filter((trace) => isInShare(trace, 0))).toHaveLength(0);
  const quarter = traces.filter((trace) => isInShare(trace, 0.25)).length;
  expect(quarter).toBeGreaterThan(180);
  expect(quarter).toBeLessThan(320);
});
