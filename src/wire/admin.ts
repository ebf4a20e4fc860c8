/** What operators see of the service itself (api 2.13), and why an execution waits (2.3.13). */
import * as v from 'valibot';
import type {
  Explanation,
  InvariantReport,
  LeaseRow,
  ReaperStatus,
  StoredAudit,
  SweepAnswer,
  SweepReport,
} from '../../actors/services.ts';
import { map } from './fields.ts';
import { idOut } from './ids.ts';
import { cutPage } from './pagination.ts';

const count = v.number();
const nullableText = v.nullable(v.string());
const counts = v.record(v.string(), count);

const leaseClaim = v.object({ name: v.optional(v.string()), holder: v.string(), token: count, acquired: v.boolean() });

const sweepCounts = {
  swept_at: v.string(),
  republished: count,
  orphaned_active: count,
  stranded_pending: count,
  by_reason: counts,
  errors: count,
};

export const sweepAnswer = v.variant('status', [
  v.object({ status: v.literal('ok'), ...sweepCounts, lease: leaseClaim }),
  v.object({ status: v.literal('accepted'), lease: leaseClaim }),
]);

export function sweepToWire(answer: SweepAnswer): v.InferOutput<typeof sweepAnswer> {
  const { name, holder, token } = answer.lease;
  if (answer.status === 'accepted') return { status: 'accepted', lease: { holder, token, acquired: false } };
  return { status: 'ok', ...reportToWire(answer.report), lease: { name, holder, token, acquired: true } };
}

function reportToWire(report: SweepReport) {
  return {
    swept_at: report.sweptAt,
    republished: report.republished,
    orphaned_active: report.orphanedActive,
    stranded_pending: report.strandedPending,
    by_reason: { ...report.byReason },
    errors: report.errors,
  };
}

export const lease = v.object({
  name: v.string(),
  holder: v.string(),
  token: count,
  acquired_at: v.string(),
  renewed_at: v.string(),
  expires_at: v.string(),
});

export function leaseToWire(row: LeaseRow): v.InferOutput<typeof lease> {
  return {
    name: row.name,
    holder: row.holder,
    token: row.token,
    acquired_at: row.acquiredAt,
    renewed_at: row.renewedAt,
    expires_at: row.expiresAt,
  };
}

export const reaperStatus = v.object({
  enabled: v.boolean(),
  settings: v.object({
    interval_seconds: count,
    worker_stale_seconds: count,
    healthy_hard_timeout_seconds: count,
    pending_retry_seconds: count,
    max_per_run: count,
  }),
  sweeps: v.array(v.object(sweepCounts)),
  next_due_at: nullableText,
  lease: v.nullable(lease),
});

export function reaperToWire(
  status: ReaperStatus & { readonly lease: LeaseRow | null },
): v.InferOutput<typeof reaperStatus> {
  const { settings } = status;
  return {
    enabled: settings.enabled,
    settings: {
      interval_seconds: settings.intervalSeconds,
      worker_stale_seconds: settings.workerStaleSeconds,
      healthy_hard_timeout_seconds: settings.hardTimeoutSeconds,
      pending_retry_seconds: settings.pendingRetrySeconds,
      max_per_run: settings.maxPerRun,
    },
    sweeps: status.sweeps.map(reportToWire),
    next_due_at: status.nextDueAt,
    lease: status.lease === null ? null : leaseToWire(status.lease),
  };
}

export const invariantsAnswer = v.object({
  status: v.picklist(['ok', 'violated']),
  checked_at: v.string(),
  checks: v.array(v.object({ name: v.string(), ok: v.boolean(), count, sample: v.array(v.string()) })),
});

export function invariantsToWire(report: InvariantReport): v.InferOutput<typeof invariantsAnswer> {
  return {
    status: report.status,
    checked_at: report.checkedAt,
    checks: report.checks.map(({ name, ok, count: found, sample }) => ({
      name,
      ok,
      count: found,
      sample: [...sample],
    })),
  };
}

export const keysAnswer = v.object({
  active: v.string(),
  keys: v.array(v.object({ kid: v.string(), rows: count })),
});

export const rotationAnswer = v.object({
  status: v.picklist(['running', 'done']),
  active: v.string(),
  rewrapped: count,
  remaining: count,
});

const auditRow = v.object({
  audit_id: idOut,
  at: v.string(),
  actor: nullableText,
  role: nullableText,
  action: v.string(),
  target: nullableText,
  outcome: v.string(),
  request_id: nullableText,
  ip: nullableText,
  detail: map,
});

export const auditAnswer = v.object({ rows: v.array(auditRow), next_after: v.nullable(v.number()) });

/** `found` may hold one row more than the page does. */
export function auditToWire(found: readonly StoredAudit[], limit: number): v.InferOutput<typeof auditAnswer> {
  const { rows, last } = cutPage(found, limit);
  return {
    rows: rows.map((row) => ({
      audit_id: row.auditId,
      at: row.at,
      actor: row.actor,
      role: row.role,
      action: row.action,
      target: row.target,
      outcome: row.outcome,
      request_id: row.requestId,
      ip: row.ip,
      detail: row.detail,
    })),
    next_after: last?.auditId ?? null,
  };
}

export const explanation = v.object({
  execution_id: idOut,
  status: v.string(),
  sentence: v.string(),
  stuck: v.boolean(),
  waiting_on: v.array(
    v.object({
      kind: v.string(),
      command_id: v.nullable(idOut),
      step: nullableText,
      command_status: nullableText,
      since: nullableText,
      worker_id: nullableText,
      next_wake_at: nullableText,
      because: v.string(),
    }),
  ),
});

export function explanationToWire(given: Explanation): v.InferOutput<typeof explanation> {
  return {
    execution_id: given.executionId,
    status: given.status,
    sentence: given.sentence,
    stuck: given.stuck,
    waiting_on: given.waitingOn.map((each) => ({
      kind: each.kind,
      command_id: each.commandId,
      step: each.step,
      command_status: each.commandStatus,
      since: each.since,
      worker_id: each.workerId,
      next_wake_at: each.nextWakeAt,
      because: each.because,
    })),
  };
}
