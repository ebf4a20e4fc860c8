/**
 * May this worker have this command now? The rows of api 4.2, the first that matches decides, and before those of claimed
 * commands one for a next try that lies ahead: refused until then, granted to anybody from then on. Everything that
 * varies with time is in the arguments; a grant still has to win its guarded update, so two racing claims give one grant.
 */
import { instantOf } from './instant.ts';

export type CommandStatus = 'PENDING' | 'CLAIMED' | 'RUNNING' | 'COMPLETED' | 'FAILED' | 'CANCELLED';

/** The columns of a command row that arbitration reads. Instants are ISO 8601 UTC. */
export interface ClaimableCommand {
  readonly status: CommandStatus;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly workerId: string | null;
  readonly claimedAt: string | null;
  readonly heartbeatAt: string | null;
  readonly parkedOn: number | null;
  /** It waits for its next try until then; absent or null: it does not. */
  readonly retryAt?: string | null;
}

/** The worker named by the row. Instants are milliseconds since the epoch. */
export interface ClaimHolder {
  readonly name: string;
  readonly status: string;
  readonly registeredAt: number;
  readonly heartbeatAt: number;
  readonly offlineAfterSeconds: number;
}

/** What the store knows of a claim at a moment. */
export type Sighting = Pick<ClaimableCommand, 'attempt' | 'heartbeatAt'>;

export interface Claimant {
  readonly name: string;
  readonly status: string;
}

export interface ClaimPolicy {
  readonly leaseSeconds: number;
  readonly heartbeatStaleSeconds: number;
  /** Never counts as less than the lease. */
  readonly hardTimeoutSeconds: number;
}

export type GrantReason =
  | 'pending'
  | 'retry_due'
  | 'worker_restarted'
  | 'same_worker'
  | 'worker_offline'
  | 'worker_missing'
  | 'worker_inactive'
  | 'worker_heartbeat_stale'
  | 'healthy_worker_hard_timeout';

export type RefusalReason = 'terminal' | 'worker_draining' | 'parked' | 'lease_active' | 'healthy_worker_active';

export interface Grant {
  readonly decision: 'grant';
  /** Fencing token of the claim: the present one for `same_worker`, else one more. */
  readonly attempt: number;
  readonly reclaimed: boolean;
  readonly reclaimedFrom: string | null;
  readonly reason: GrantReason;
}

export interface Refusal {
  readonly decision: 'refuse';
  readonly code: 'already_terminal' | 'worker_draining' | 'active_claim';
  readonly reason: RefusalReason;
  /** Null where nobody holds the command. */
  readonly leaseAgeSeconds: number | null;
  /** Age of the holder's last sign of life; null without a holder. */
  readonly heartbeatAgeSeconds: number | null;
  /** When it pays to ask again; null: time alone changes nothing. */
  readonly wakeAt: number | null;
}

/** A grant would be one more than `maxAttempts`: the command fails instead. */
export interface Exhaustion {
  readonly decision: 'exhausted';
  readonly reason: GrantReason;
}

export type Arbitration = Grant | Refusal | Exhaustion;

/** `now` is the database's time in milliseconds; `executionStatus` is the projection's, lower case. */
export function arbitrateClaim(
  command: ClaimableCommand,
  executionStatus: string,
  claimant: Claimant,
  holder: ClaimHolder | null,
  now: number,
  policy: ClaimPolicy,
): Arbitration {
  const refuse = (code: Refusal['code'], reason: RefusalReason): Refusal => ({
    decision: 'refuse',
    code,
    reason,
    leaseAgeSeconds: command.claimedAt === null ? null : (now - instantOf(command.claimedAt)) / 1000,
    heartbeatAgeSeconds: holder === null ? null : (now - holder.heartbeatAt) / 1000,
    wakeAt: code === 'active_claim' ? wakeAtFor(command, holder, now, policy) : null,
  });
  if (!isOpen(command.status) || executionStatus !== 'running') return refuse('already_terminal', 'terminal');
  if (claimant.status === 'draining') return refuse('worker_draining', 'worker_draining');
  const retryAt = command.retryAt ?? null;
  if (retryAt !== null && instantOf(retryAt) <= now) return grantAnew(command, 'retry_due');
  if (command.parkedOn !== null || retryAt !== null) return refuse('active_claim', 'parked');
  if (command.status === 'PENDING') return grantAnew(command, 'pending');

  const claimedAt = claimedAtOf(command);
  if (holder !== null && holder.registeredAt > claimedAt) return grantAnew(command, 'worker_restarted');
  if (claimant.name === command.workerId && command.status === 'CLAIMED') {
    return {
      decision: 'grant',
      attempt: command.attempt,
      reclaimed: false,
      reclaimedFrom: null,
      reason: 'same_worker',
    };
  }
  if (holder !== null && isOffline(holder, now)) return grantAnew(command, 'worker_offline');
  if (now - claimedAt < policy.leaseSeconds * 1000) return refuse('active_claim', 'lease_active');
  if (holder === null) return grantAnew(command, 'worker_missing');
  if (!isActive(holder)) return grantAnew(command, 'worker_inactive');
  if (now - holder.heartbeatAt >= policy.heartbeatStaleSeconds * 1000) {
    return grantAnew(command, 'worker_heartbeat_stale');
  }
  if (now - heldSince(command) < hardTimeoutMs(policy)) return refuse('active_claim', 'healthy_worker_active');
  return grantAnew(command, 'healthy_worker_hard_timeout');
}

/**
 * Earliest moment at which the table grants this command to a stranger if nothing else happens; `now` where it grants
 * already, null where time alone never will (terminal, parked). The value of `next_wake_at` for a claimed command.
 */
export function wakeAtFor(
  command: ClaimableCommand,
  holder: ClaimHolder | null,
  now: number,
  policy: ClaimPolicy,
): number | null {
  if (!isOpen(command.status)) return null;
  const retryAt = command.retryAt ?? null;
  if (retryAt !== null) return Math.max(now, instantOf(retryAt));
  if (command.parkedOn !== null) return null;
  if (command.status === 'PENDING') return now;
  const claimedAt = claimedAtOf(command);
  const leaseEnd = claimedAt + policy.leaseSeconds * 1000;
  if (holder === null) return Math.max(now, leaseEnd);
  if (holder.registeredAt > claimedAt || holder.status === 'offline') return now;
  const offlineAt = holder.heartbeatAt + holder.offlineAfterSeconds * 1000;
  const afterLease = isActive(holder)
    ? Math.min(holder.heartbeatAt + policy.heartbeatStaleSeconds * 1000, heldSince(command) + hardTimeoutMs(policy))
    : leaseEnd;
  return Math.max(now, Math.min(offlineAt, Math.max(leaseEnd, afterLease)));
}

/** Deregistered, or silent for as long as it said it never would be. */
export function isOffline(holder: ClaimHolder, now: number): boolean {
  return holder.status === 'offline' || now - holder.heartbeatAt >= holder.offlineAfterSeconds * 1000;
}

export function isOpen(status: CommandStatus): boolean {
  return status === 'PENDING' || status === 'CLAIMED' || status === 'RUNNING';
}

/** The holder last showed that it works on this command: the claim itself or a heartbeat that named it. */
export function heldSince(command: ClaimableCommand): number {
  const claimedAt = claimedAtOf(command);
  return command.heartbeatAt === null ? claimedAt : Math.max(claimedAt, instantOf(command.heartbeatAt));
}

/**
 * The command with the last heartbeat the store knows of. A row in memory learns of no heartbeat, whichever process wrote it;
 * one of another attempt says nothing about this one.
 */
export function heldAsOf<Command extends ClaimableCommand>(command: Command, seen: Sighting | undefined): Command {
  if (seen === undefined || seen.attempt !== command.attempt || seen.heartbeatAt === null) return command;
  const { heartbeatAt } = command;
  const isNewer = heartbeatAt === null || instantOf(seen.heartbeatAt) > instantOf(heartbeatAt);
  return isNewer ? { ...command, heartbeatAt: seen.heartbeatAt } : command;
}

function grantAnew(command: ClaimableCommand, reason: GrantReason): Grant | Exhaustion {
  if (command.attempt >= command.maxAttempts) return { decision: 'exhausted', reason };
  const reclaimed = reason !== 'pending' && reason !== 'retry_due';
  return {
    decision: 'grant',
    attempt: command.attempt + 1,
    reclaimed,
    reclaimedFrom: reclaimed ? command.workerId : null,
    reason,
  };
}

function isActive(holder: ClaimHolder): boolean {
  return holder.status === 'ready' || holder.status === 'draining';
}

/** Silence about a command after which even a healthy holder may lose it. */
export function hardTimeoutMs(policy: ClaimPolicy): number {
  return Math.max(policy.hardTimeoutSeconds, policy.leaseSeconds) * 1000;
}

function claimedAtOf(command: ClaimableCommand): number {
  if (command.claimedAt === null) throw new Error('a claimed command has no instant of its claim');
  return instantOf(command.claimedAt);
}
