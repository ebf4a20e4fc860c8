import fc from 'fast-check';
import { expect, test } from 'vitest';
import { couldNotHandle, timedOut } from '../../../machines/batch/failure.ts';
import { timingsOf } from '../../../machines/batch/timings.ts';

const FIELDS = [
  'processing_ms',
  'pool_checkout_ms',
  'lock_acquire_ms',
  'state_load_ms',
  'engine_total_ms',
  'save_state_ms',
  'save_state_calls',
  'save_state_terminal_lightweight_ms',
  'save_state_terminal_lightweight_calls',
  'persist_event_compat_ms',
  'persist_event_compat_calls',
  'save_state_coalesced_count',
  'commit_ms',
  'transaction_ms',
  'issue_commands_ms',
];

/** Spans as one clock gives them: the parts follow each other inside the transaction, which lies inside the job. */
const spans = fc
  .array(fc.double({ min: 0, max: 500, noNaN: true }), { minLength: 10, maxLength: 10 })
  .map(
    ([load = 0, lock = 0, append = 0, issue = 0, save = 0, commit = 0, apply = 0, wait = 0, around = 0, turns = 0]) => {
      const totalMs = load + lock + append + issue + save + commit + apply;
      return {
        processingMs: wait + totalMs + around,
        transaction: {
          ...{ waitMs: wait, totalMs, loadMs: load, lockMs: lock, appendMs: append, issueMs: issue },
          ...{ saveMs: save, commitMs: commit, turns: Math.round(turns), isLate: turns > 400 },
        },
      };
    },
  );

test('every field is there and no part is larger than its whole', () => {
  fc.assert(
    fc.property(spans, (times) => {
      const t = timingsOf(times) as Record<string, number>;
      const at = (name: string) => t[name] ?? Number.NaN;
      expect(Object.keys(t).sort()).toEqual([...FIELDS].sort());
      for (const field of FIELDS) expect(at(field)).toBeGreaterThanOrEqual(0);
      expect(at('transaction_ms')).toBeCloseTo(at('engine_total_ms') + at('commit_ms'), 6);
      expect(at('transaction_ms')).toBeLessThanOrEqual(at('processing_ms'));
      const parts = [
        'state_load_ms',
        'lock_acquire_ms',
        'persist_event_compat_ms',
        'save_state_ms',
        'issue_commands_ms',
      ];
      const sum = parts.reduce((total, part) => total + at(part), at('save_state_terminal_lightweight_ms'));
      expect(sum).toBeLessThanOrEqual(at('engine_total_ms') + 0.0005);
    }),
  );
});

test('a batch whose events others had handled has no transaction of its own', () => {
  expect(timingsOf({ processingMs: 3.2001, transaction: null })).toMatchObject({
    processing_ms: 3.201,
    transaction_ms: 0,
    save_state_calls: 0,
    save_state_coalesced_count: 0,
  });
});

test('a run that had ended is saved by the lightweight path', () => {
  const transaction = {
    ...{ waitMs: 0, totalMs: 2, loadMs: 0, lockMs: 0, appendMs: 0.5, issueMs: 0, saveMs: 0.4, commitMs: 0.3 },
    ...{ turns: 0, isLate: true },
  };
  expect(timingsOf({ processingMs: 2, transaction })).toMatchObject({
    save_state_calls: 0,
    save_state_ms: 0,
    save_state_terminal_lightweight_calls: 1,
    save_state_terminal_lightweight_ms: 0.4,
    persist_event_compat_calls: 1,
  });
});

test('failures have the codes of the contract and a sentence', () => {
  expect(timedOut(15)).toEqual({
    code: 'processing_timeout',
    message: 'The batch was not processed within 15 seconds',
  });
  expect(couldNotHandle('TypeError').code).toBe('processing_error');
});
