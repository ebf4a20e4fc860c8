import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { instantOf, isoOf } from '../../../machines/command/instant.ts';

describe('instants', () => {
  it('agree with the calendar of the platform in both directions', () => {
    const instants = fc.integer({ min: Date.UTC(1600, 0, 1), max: Date.UTC(9999, 11, 31) });
    fc.assert(
      fc.property(instants, (instant) => {
        expect(isoOf(instant)).toBe(new Date(instant).toISOString());
        expect(instantOf(new Date(instant).toISOString())).toBe(instant);
      }),
    );
  });

  it('read any number of decimals and cut below the millisecond', () => {
    expect(instantOf('1970-01-01T00:00:01Z')).toBe(1000);
    expect(instantOf('1970-01-01T00:00:01.5Z')).toBe(1500);
    expect(instantOf('1970-01-01T00:00:01.123456Z')).toBe(1123);
  });

  it('refuse what is not UTC text', () => {
    expect(() => instantOf('2026-11-20 10:15:02+02')).toThrow(RangeError);
    // As long as the usual form, and nearly it.
    for (const text of [
      '2026-11-20T10:15:02.12xZ',
      '2026-11-20T10:15:02,123Z',
      '2026.11-20T10:15:02.123Z',
      '2O26-11-20T10:15:02.123Z',
    ]) {
      expect(() => instantOf(text)).toThrow(RangeError);
    }
  });
});
