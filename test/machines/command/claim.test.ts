import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  arbitrateClaim,
  type ClaimableCommand,
  type Claimant,
  type ClaimHolder,
  heldAsOf,
  type Sighting,
  wakeAtFor,
} from '../../../machines/command/claim.ts';
import { isoOf } from '../../../machines/command/instant.ts';

const T0 = 1_800_000_000_000;
const POLICY = { leaseSeconds: 120, heartbeatStaleSeconds: 30, hardTimeoutSeconds: 1800 };
const BOB: Claimant = { name: 'bob', status: 'ready' };
const ALICE: Claimant = { name: 'alice', status: 'ready' };

function command(change: Partial<ClaimableCommand> = {}): ClaimableCommand {
  return {
    status: 'CLAIMED',
    attempt: 1,
    maxAttempts: 5,
    workerId: 'alice',
    claimedAt: isoOf(T0),
    heartbeatAt: null,
    parkedOn: null,
    ...change,
  };
}

const pending = (change: Partial<ClaimableCommand> = {}) =>
  command({ status: 'PENDING', attempt: 0, workerId: null, claimedAt: null, ...change });

function holder(change: Partial<ClaimHolder> = {}): ClaimHolder {
  return {
    name: 'alice',
    status: 'ready',
    registeredAt: T0 - 60_000,
    heartbeatAt: T0,
    offlineAfterSeconds: 3600,
    ...change,
  };
}

const at = (seconds: number) => T0 + seconds * 1000;

function arbitrate(
  row: ClaimableCommand,
  who: Claimant = BOB,
  held: ClaimHolder | null = holder(),
  now: number = at(10),
  execution = 'running',
) {
  return arbitrateClaim(row, execution, who, held, now, POLICY);
}

describe('the claim policy, row by row', () => {
  it.each(['COMPLETED', 'FAILED', 'CANCELLED'] as const)('row 1 refuses a command that is %s', (status) => {
    expect(arbitrate(command({ status }))).toMatchObject({
      decision: 'refuse',
      code: 'already_terminal',
      reason: 'terminal',
      wakeAt: null,
    });
  });

  it.each(['completed', 'failed', 'cancelled'])(
    'row 1 refuses every command of an execution that is %s',
    (execution) => {
      expect(arbitrate(pending(), BOB, null, at(0), execution)).toMatchObject({ code: 'already_terminal' });
    },
  );

  it('row 2 refuses a draining claimant, even for what it holds', () => {
    const draining = { name: 'alice', status: 'draining' };
    expect(arbitrate(pending(), draining)).toMatchObject({ code: 'worker_draining', reason: 'worker_draining' });
    expect(arbitrate(command(), draining)).toMatchObject({ code: 'worker_draining' });
  });

  it('row 3 refuses a parked command', () => {
    const parked = command({ status: 'RUNNING', parkedOn: 41_031 });
    expect(arbitrate(parked, BOB, null, at(100_000))).toMatchObject({
      code: 'active_claim',
      reason: 'parked',
      wakeAt: null,
    });
  });

  it('row 4 grants a pending command, attempt + 1', () => {
    expect(arbitrate(pending({ attempt: 2 }), BOB, null)).toEqual({
      decision: 'grant',
      attempt: 3,
      reclaimed: false,
      reclaimedFrom: null,
      reason: 'pending',
    });
  });

  it('row 5 grants what a restarted worker held, also to itself and with a new attempt', () => {
    const restarted = holder({ registeredAt: T0 + 1 });
    const granted = {
      decision: 'grant',
      attempt: 2,
      reclaimed: true,
      reclaimedFrom: 'alice',
      reason: 'worker_restarted',
    };
    expect(arbitrate(command(), BOB, restarted)).toEqual(granted);
    expect(arbitrate(command(), ALICE, restarted)).toEqual(granted);
    expect(arbitrate(command(), BOB, holder({ registeredAt: T0 }))).toMatchObject({ reason: 'lease_active' });
  });

  it('row 6 gives the holder its claim again, with the same attempt', () => {
    expect(arbitrate(command({ attempt: 3 }), ALICE)).toEqual({
      decision: 'grant',
      attempt: 3,
      reclaimed: false,
      reclaimedFrom: null,
      reason: 'same_worker',
    });
    expect(arbitrate(command({ status: 'RUNNING' }), ALICE)).toMatchObject({ reason: 'lease_active' });
  });

  it('row 7 pre-empts the lease of an offline holder', () => {
    expect(arbitrate(command(), BOB, holder({ status: 'offline' }), at(1))).toMatchObject({
      decision: 'grant',
      reason: 'worker_offline',
      attempt: 2,
    });
    const quick = holder({ offlineAfterSeconds: 6 });
    expect(arbitrate(command(), BOB, quick, at(6) - 1)).toMatchObject({ reason: 'lease_active', wakeAt: at(6) });
    expect(arbitrate(command(), BOB, quick, at(6))).toMatchObject({ decision: 'grant', reason: 'worker_offline' });
  });

  it('row 8 refuses within the lease and says how old everything is', () => {
    expect(arbitrate(command(), BOB, holder({ heartbeatAt: at(7) }), at(10))).toEqual({
      decision: 'refuse',
      code: 'active_claim',
      reason: 'lease_active',
      leaseAgeSeconds: 10,
      heartbeatAgeSeconds: 3,
      wakeAt: at(120),
    });
    expect(arbitrate(command(), BOB, null, at(120) - 1)).toMatchObject({
      reason: 'lease_active',
      heartbeatAgeSeconds: null,
      wakeAt: at(120),
    });
  });

  it('row 9 grants after the lease when the holder has no row', () => {
    expect(arbitrate(command(), BOB, null, at(120))).toMatchObject({ decision: 'grant', reason: 'worker_missing' });
  });

  it('row 10 grants after the lease when the holder is neither ready nor draining', () => {
    const strange = holder({ status: 'paused', heartbeatAt: at(120) });
    expect(arbitrate(command(), BOB, strange, at(120))).toMatchObject({ decision: 'grant', reason: 'worker_inactive' });
    const draining = holder({ status: 'draining', heartbeatAt: at(120) });
    expect(arbitrate(command(), BOB, draining, at(120))).toMatchObject({ reason: 'healthy_worker_active' });
  });

  it('row 11 grants after the lease when the heartbeat is stale', () => {
    expect(arbitrate(command(), BOB, holder({ heartbeatAt: at(90) }), at(120) - 1)).toMatchObject({
      reason: 'lease_active',
    });
    expect(arbitrate(command(), BOB, holder({ heartbeatAt: at(90) }), at(120))).toMatchObject({
      decision: 'grant',
      reason: 'worker_heartbeat_stale',
    });
    expect(arbitrate(command(), BOB, holder({ heartbeatAt: at(90) + 1 }), at(120))).toMatchObject({
      reason: 'healthy_worker_active',
      wakeAt: at(120) + 1,
    });
  });

  it('row 12 leaves a command with a healthy worker that named it within the hard time-out', () => {
    const alive = holder({ heartbeatAt: at(5000) });
    const named = command({ status: 'RUNNING', heartbeatAt: isoOf(at(4000)) });
    expect(arbitrate(named, BOB, alive, at(5000))).toMatchObject({
      reason: 'healthy_worker_active',
      wakeAt: at(5030),
    });
  });

  it('row 13 grants when even a healthy worker did not name it for the hard time-out', () => {
    const alive = holder({ heartbeatAt: at(1800) });
    expect(arbitrate(command(), BOB, alive, at(1800) - 1)).toMatchObject({ reason: 'healthy_worker_active' });
    expect(arbitrate(command(), BOB, alive, at(1800))).toMatchObject({
      decision: 'grant',
      reason: 'healthy_worker_hard_timeout',
    });
  });

  it('the hard time-out is never below the lease', () => {
    const policy = { ...POLICY, hardTimeoutSeconds: 1 };
    const alive = holder({ heartbeatAt: at(100) });
    expect(arbitrateClaim(command(), 'running', BOB, alive, at(100), policy)).toMatchObject({ reason: 'lease_active' });
    expect(wakeAtFor(command(), alive, at(100), policy)).toBe(at(120));
  });

  it('a grant beyond the last attempt is an exhaustion, a repeat to the holder is not', () => {
    expect(arbitrate(pending({ attempt: 5 }))).toEqual({ decision: 'exhausted', reason: 'pending' });
    expect(arbitrate(command({ attempt: 5 }), BOB, holder({ status: 'offline' }))).toEqual({
      decision: 'exhausted',
      reason: 'worker_offline',
    });
    expect(arbitrate(command({ attempt: 5 }), ALICE)).toMatchObject({ decision: 'grant', attempt: 5 });
  });

  it('a claimed row without the instant of its claim is a bug', () => {
    expect(() => arbitrate(command({ claimedAt: null }))).toThrow('no instant of its claim');
  });
});

describe('wakeAtFor', () => {
  it('is now for what can be had, and null for what time does not free', () => {
    expect(wakeAtFor(pending(), null, at(3), POLICY)).toBe(at(3));
    expect(wakeAtFor(command(), holder({ status: 'offline' }), at(3), POLICY)).toBe(at(3));
    expect(wakeAtFor(command(), holder({ registeredAt: at(1) }), at(3), POLICY)).toBe(at(3));
    expect(wakeAtFor(command({ status: 'COMPLETED' }), null, at(3), POLICY)).toBeNull();
    expect(wakeAtFor(command({ status: 'RUNNING', parkedOn: 9 }), null, at(3), POLICY)).toBeNull();
  });

  it('is the next try of a command that waits for one, and now once that is due', () => {
    const waiting = pending({ retryAt: isoOf(at(50)), parkedOn: 0 });
    expect([10, 60].map((seconds) => wakeAtFor(waiting, null, at(seconds), POLICY))).toEqual([at(50), at(60)]);
  });

  it('is the end of the lease for a holder that is not active', () => {
    expect(wakeAtFor(command(), holder({ status: 'paused' }), at(3), POLICY)).toBe(at(120));
    expect(wakeAtFor(command(), null, at(500), POLICY)).toBe(at(500));
  });

  it('is exactly where the answer for a stranger turns from no to yes', () => {
    const seconds = fc.integer({ min: 0, max: 4000 });
    const rows = fc.record({
      status: fc.constantFrom('CLAIMED' as const, 'RUNNING' as const),
      named: fc.option(seconds),
    });
    const holders = fc.option(
      fc.record({
        status: fc.constantFrom('ready', 'draining', 'paused'),
        heartbeat: seconds,
        offlineAfterSeconds: fc.integer({ min: 3, max: 4000 }),
      }),
    );
    fc.assert(
      fc.property(rows, holders, seconds, seconds, (row, held, nowSeconds, probe) => {
        const claimed = command({
          status: row.status,
          heartbeatAt: row.named === null ? null : isoOf(at(Math.min(row.named, nowSeconds))),
        });
        const who =
          held === null
            ? null
            : holder({
                status: held.status,
                heartbeatAt: at(Math.min(held.heartbeat, nowSeconds)),
                offlineAfterSeconds: held.offlineAfterSeconds,
              });
        const wakeAt = wakeAtFor(claimed, who, at(nowSeconds), POLICY);
        if (wakeAt === null) throw new Error('an open claim always has a moment to look again');
        expect(arbitrate(claimed, BOB, who, wakeAt).decision).toBe('grant');
        const before = Math.min(at(nowSeconds) + probe, wakeAt - 1);
        if (before >= at(nowSeconds)) expect(arbitrate(claimed, BOB, who, before).decision).toBe('refuse');
      }),
    );
  });
});

describe('heldAsOf', () => {
  const seen = (attempt: number, seconds: number | null) => ({
    attempt,
    heartbeatAt: seconds === null ? null : isoOf(at(seconds)),
  });
  const heard = (row: ClaimableCommand, sight: Sighting | undefined) => heldAsOf(row, sight).heartbeatAt;

  it('takes the later of the heartbeats that the row and the store know of', () => {
    expect(heard(command(), seen(1, 5))).toBe(isoOf(at(5)));
    expect(heard(command({ heartbeatAt: isoOf(at(9)) }), seen(1, 5))).toBe(isoOf(at(9)));
    expect(heard(command({ heartbeatAt: isoOf(at(1)) }), seen(1, 5))).toBe(isoOf(at(5)));
  });

  it('learns nothing from another attempt, or where the store knows of none', () => {
    expect([heard(command(), seen(2, 5)), heard(command(), seen(1, null)), heard(command(), undefined)]).toEqual([
      null,
      null,
      null,
    ]);
  });
});

describe('racing claims', () => {
  it('of any number of claims with a guarded update exactly one wins each attempt', () => {
    const claims = fc.array(fc.record({ name: fc.constantFrom('a', 'b', 'c', 'd'), read: fc.nat(3) }), {
      minLength: 2,
    });
    fc.assert(
      fc.property(claims, (racers) => {
        const versions: ClaimableCommand[] = [pending()];
        const attempts: number[] = [];
        for (const { name, read } of racers) {
          const seen = versions[Math.max(0, versions.length - 1 - read)] ?? pending();
          const answer = arbitrate(seen, { name, status: 'ready' }, null, at(1));
          if (answer.decision !== 'grant') continue;
          const present = versions.at(-1);
          if (present === undefined || present.status !== seen.status || present.attempt !== seen.attempt) continue;
          if (answer.attempt > present.attempt) attempts.push(answer.attempt);
          versions.push(command({ attempt: answer.attempt, workerId: name }));
        }
        expect(attempts).toEqual([1]);
      }),
    );
  });
});
