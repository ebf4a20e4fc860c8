import { describe, expect, it } from 'vitest';
import {
  childData,
  childFailure,
  childTimeout,
  type EndedChild,
  startedChildData,
  stepTimeout,
} from '../../../machines/execution/child-data.ts';

const child = (change: Partial<EndedChild> = {}): EndedChild => ({
  executionId: 41_031,
  path: 'hr/score',
  status: 'completed',
  returned: { score: 7 },
  error: null,
  ...change,
});

describe('the data of a waiting playbook task', () => {
  it('is what the child returned plus who it was', () => {
    expect(childData(child())).toEqual({
      score: 7,
      execution_id: '41031',
      path: 'hr/score',
      child_status: 'completed',
      status: 'completed',
    });
  });

  it('keeps a status of its own', () => {
    expect(childData(child({ returned: { status: 'ok' } }))).toMatchObject({ status: 'ok', child_status: 'completed' });
  });

  it('shows what is no map as data and value', () => {
    expect(childData(child({ returned: [1] }))).toMatchObject({ data: [1], value: [1], status: 'completed' });
    expect(childData(child({ returned: null }))).toMatchObject({ data: null, value: null });
  });

  it('is a failure when the child failed or was cancelled', () => {
    expect(childFailure(child())).toBeNull();
    expect(childFailure(child({ status: 'failed', error: 'Failed steps: a' }))).toMatchObject({
      kind: 'tool_error',
      code: 'CHILD_FAILED',
      message: 'child playbook hr/score (41031): Failed steps: a',
    });
    expect(childFailure(child({ status: 'cancelled' }))).toMatchObject({
      code: 'CHILD_CANCELLED',
      message: 'child playbook hr/score (41031): cancelled',
    });
  });

  it('is a retryable failure when the wait was too long', () => {
    expect(childTimeout(child(), 120)).toMatchObject({ kind: 'timeout', code: 'CHILD_TIMEOUT', retryable: true });
  });

  it('is a receipt when nobody waits', () => {
    expect(startedChildData(child())).toEqual({
      status: 'started',
      execution_id: '41031',
      path: 'hr/score',
      async: true,
    });
  });
});

it('a step that took too long is not tried again, whatever it waited for', () => {
  expect(stepTimeout('w', 20, 'playbook')).toEqual({
    kind: 'timeout',
    code: 'STEP_TIMEOUT',
    message: "step 'w' did not end within 20 s",
    retryable: false,
    source: 'playbook',
  });
});
