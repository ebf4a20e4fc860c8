/**
 * Has this command been forgotten? The table of api 4.7. A verdict only says that the command should be announced
 * again: it never changes a status and never claims, arbitration decides who gets it.
 */
import { type ClaimableCommand, type ClaimHolder, heldSince, isOpen } from './claim.ts';
import { instantOf } from './instant.ts';

export interface SweptCommand extends ClaimableCommand {
  readonly nextWakeAt: string | null;
  readonly republishedAt: string | null;
}

export interface SweepPolicy {
  readonly pendingRetrySeconds: number;
  readonly workerStaleSeconds: number;
  readonly hardTimeoutSeconds: number;
}

export type RepublishReason =
  | 'pending_too_long'
  | 'worker_missing'
  | 'worker_not_ready'
  | 'worker_stale'
  | 'hard_timeout';

export type Verdict =
  | { readonly verdict: 'republish'; readonly reason: RepublishReason; readonly nextWakeAt: number }
  | { readonly verdict: 'leave'; readonly reason: 'closed' | 'parked' | 'recently_republished' | 'healthy' };

/** `holder` is the worker named by the row, null when it is not registered; `now` is the database's time. */
export function judgeCommand(
  command: SweptCommand,
  holder: ClaimHolder | null,
  now: number,
  policy: SweepPolicy,
): Verdict {
  if (!isOpen(command.status)) return { verdict: 'leave', reason: 'closed' };
  if (command.parkedOn !== null) return { verdict: 'leave', reason: 'parked' };
  const retryMs = policy.pendingRetrySeconds * 1000;
  if (command.republishedAt !== null && now - instantOf(command.republishedAt) < retryMs) {
    return { verdict: 'leave', reason: 'recently_republished' };
  }
  const reason = command.status === 'PENDING' ? pendingReason(command, now) : claimReason(command, holder, now, policy);
  if (reason === null) return { verdict: 'leave', reason: 'healthy' };
  return { verdict: 'republish', reason, nextWakeAt: command.status === 'PENDING' ? now + retryMs : now };
}

function pendingReason(command: SweptCommand, now: number): RepublishReason | null {
  return command.nextWakeAt === null || instantOf(command.nextWakeAt) <= now ? 'pending_too_long' : null;
}

function claimReason(
  command: SweptCommand,
  holder: ClaimHolder | null,
  now: number,
  policy: SweepPolicy,
): RepublishReason | null {
  if (holder === null) return 'worker_missing';
  if (holder.status !== 'ready') return 'worker_not_ready';
  if (now - holder.heartbeatAt > policy.workerStaleSeconds * 1000) return 'worker_stale';
  return now - heldSince(command) >= policy.hardTimeoutSeconds * 1000 ? 'hard_timeout' : null;
}
