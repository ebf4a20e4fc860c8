import { describe, expect, it } from 'vitest';
import type { ClaimHolder } from '../../../machines/command/claim.ts';
import { isoOf } from '../../../machines/command/instant.ts';
import { judgeCommand, type SweptCommand } from '../../../machines/command/sweep.ts';

const T0 = 1_800_000_000_000;
const POLICY = { pendingRetrySeconds: 60, workerStaleSeconds: 30, hardTimeoutSeconds: 1800 };
const at = (seconds: number) => T0 + seconds * 1000;

function command(change: Partial<SweptCommand> = {}): SweptCommand {
  return {
    status: 'CLAIMED',
    attempt: 1,
    maxAttempts: 5,
    workerId: 'alice',
    claimedAt: isoOf(T0),
    heartbeatAt: null,
    parkedOn: null,
    nextWakeAt: isoOf(at(120)),
    republishedAt: null,
    ...change,
  };
}

const pending = (change: Partial<SweptCommand> = {}) =>
  command({ status: 'PENDING', attempt: 0, workerId: null, claimedAt: null, nextWakeAt: isoOf(at(60)), ...change });

const alice = (change: Partial<ClaimHolder> = {}): ClaimHolder => ({
  name: 'alice',
  status: 'ready',
  registeredAt: T0 - 1000,
  heartbeatAt: T0,
  offlineAfterSeconds: 60,
  ...change,
});

describe('judgeCommand', () => {
  it('announces a pending command when its time has come, and not before', () => {
    expect(judgeCommand(pending(), null, at(60) - 1, POLICY)).toEqual({ verdict: 'leave', reason: 'healthy' });
    expect(judgeCommand(pending(), null, at(60), POLICY)).toEqual({
      verdict: 'republish',
      reason: 'pending_too_long',
      nextWakeAt: at(120),
    });
    expect(judgeCommand(pending({ nextWakeAt: null }), null, at(0), POLICY)).toMatchObject({ verdict: 'republish' });
  });

  it.each([
    ['worker_missing', null, at(1)],
    ['worker_not_ready', alice({ status: 'draining' }), at(1)],
    ['worker_stale', alice(), at(30) + 1],
    ['hard_timeout', alice({ heartbeatAt: at(1800) }), at(1800)],
  ] as const)('announces a claim because of %s', (reason, holder, now) => {
    expect(judgeCommand(command(), holder, now, POLICY)).toEqual({ verdict: 'republish', reason, nextWakeAt: now });
  });

  it('leaves a claim that a heartbeat named lately', () => {
    const named = command({ status: 'RUNNING', heartbeatAt: isoOf(at(1790)) });
    expect(judgeCommand(named, alice({ heartbeatAt: at(1800) }), at(1800), POLICY)).toEqual({
      verdict: 'leave',
      reason: 'healthy',
    });
  });

  it('leaves closed, parked and just announced commands alone', () => {
    expect(judgeCommand(command({ status: 'FAILED' }), null, at(9999), POLICY)).toMatchObject({ reason: 'closed' });
    const parked = command({ status: 'RUNNING', parkedOn: 5 });
    expect(judgeCommand(parked, null, at(9999), POLICY)).toMatchObject({ reason: 'parked' });
    const announced = command({ republishedAt: isoOf(at(9990)) });
    expect(judgeCommand(announced, null, at(9999), POLICY)).toMatchObject({ reason: 'recently_republished' });
    expect(judgeCommand(announced, null, at(10_050), POLICY)).toMatchObject({ verdict: 'republish' });
  });
});
