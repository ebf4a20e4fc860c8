import { describe, expect, test } from 'vitest';
import { type BatchEventType, type BatchState, batchMachine, moveBatch } from '../../../machines/batch/machine.ts';

/** By hand, from the table of api 4.3; a dash changes nothing. */
const TABLE: Readonly<Record<BatchState, Readonly<Record<BatchEventType, BatchState | null>>>> = {
  accepted: {
    'batch.accepted': null,
    'batch.processing': 'processing',
    'batch.completed': null,
    'batch.failed': null,
  },
  processing: {
    'batch.accepted': null,
    'batch.processing': 'processing',
    'batch.completed': 'completed',
    'batch.failed': 'failed',
  },
  completed: { 'batch.accepted': null, 'batch.processing': null, 'batch.completed': null, 'batch.failed': null },
  failed: { 'batch.accepted': 'accepted', 'batch.processing': null, 'batch.completed': null, 'batch.failed': null },
};

describe('the batch chart', () => {
  for (const [state, row] of Object.entries(TABLE) as [BatchState, (typeof TABLE)[BatchState]][]) {
    for (const [type, next] of Object.entries(row) as [BatchEventType, BatchState | null][]) {
      test(`${state} takes ${type} to ${next ?? 'nothing'}`, () => {
        expect(moveBatch(state, type)).toBe(next);
      });
    }
  }

  test('says what each state is, and its config is JSON', () => {
    for (const state of Object.values(batchMachine.states)) expect(state.config.description).toMatch(/\.$/);
    expect(JSON.parse(JSON.stringify(batchMachine.config))).toEqual(batchMachine.config);
  });
});
