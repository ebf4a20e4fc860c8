import { expect, test } from 'vitest';
import { NO_CHILD, resumeOf, retryWaitOf } from '../../../machines/command/retry-wait.ts';

const WRITTEN = { at: '2026-01-01T00:00:10Z', attempt: 2, deadline: '2026-01-01T01:00:00Z' };

test('what the next worker needs is read back, with nothing for what was not left there', () => {
  expect(resumeOf({ context: { resume: { ...WRITTEN, state: [1], ctx: { a: 1 } } } })).toEqual({
    ...WRITTEN,
    state: [1],
    ctx: { a: 1 },
  });
  expect(resumeOf({ context: { resume: WRITTEN } })).toEqual({ ...WRITTEN, state: null, ctx: {} });
});

test.each([
  {},
  { resume: 'later' },
  { resume: { ...WRITTEN, at: 7 } },
  { resume: { ...WRITTEN, attempt: '2' } },
  { resume: { ...WRITTEN, deadline: null } },
])('a command with %j begins at its beginning', (context) => {
  expect(resumeOf({ context })).toBeNull();
});

test('only the attempt that asked for a wait is in it', () => {
  const row = { attempt: 2, parkedOn: NO_CHILD, context: { resume: WRITTEN } };
  expect(retryWaitOf(row)).toMatchObject(WRITTEN);
  expect(retryWaitOf({ ...row, attempt: 3 })).toBeNull();
  expect(retryWaitOf({ ...row, parkedOn: 7 })).toBeNull();
});
