/** Giving a command to a worker inside a flush: arbitration, `command.claimed`, and the row with its fencing token. */

import {
  type Arbitration,
  arbitrateClaim,
  type ClaimHolder,
  type ClaimPolicy,
  type GrantReason,
  type Refusal,
  type RefusalReason,
} from '../machines/command/claim.ts';
import { instantOf } from '../machines/command/instant.ts';
import { retryWaitOf } from '../machines/command/retry-wait.ts';
import { nodeIdOf } from '../machines/events.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import { isMap } from '../machines/json.ts';
import type { ExecutionActor } from './execution-actor.ts';
import type { CommandRow, Meter } from './ports.ts';
import type { GrantedCommand } from './services.ts';
import { commandTrace } from './traces.ts';

export interface ClaimantName {
  readonly name: string;
  readonly status: string;
  readonly claimId: string | null;
}

export type Granting =
  | { readonly decision: 'grant'; readonly row: CommandRow; readonly reason: GrantReason }
  | { readonly decision: 'refuse'; readonly refusal: Refusal; readonly reason: RefusalReason }
  | { readonly decision: 'exhausted'; readonly reason: GrantReason };

/** May this claimant have this open command of a live execution? Writes nothing. */
export function judgeClaim(
  actor: ExecutionActor,
  row: CommandRow,
  claimant: ClaimantName,
  holder: ClaimHolder | null,
  policy: ClaimPolicy,
): Arbitration {
  const claimable = { ...row, retryAt: retryWaitOf(row)?.at ?? null };
  // A turn of this very flush may have ended the run; the row follows at the end of the flush.
  const status = actor.state.snapshot.status === 'done' ? 'ended' : actor.row.status;
  return arbitrateClaim(claimable, status, claimant, holder, instantOf(actor.at), policy);
}

/** Decides over an open command of a live execution, and writes the grant if it is one. */
export function grantCommand(
  actor: ExecutionActor,
  row: CommandRow,
  claimant: ClaimantName,
  holder: ClaimHolder | null,
  policy: ClaimPolicy,
): Granting {
  const verdict = judgeClaim(actor, row, claimant, holder, policy);
  if (verdict.decision === 'refuse') return { decision: 'refuse', refusal: verdict, reason: verdict.reason };
  if (verdict.decision === 'exhausted') {
    failExhausted(actor, row);
    return { decision: 'exhausted', reason: verdict.reason };
  }
  if (verdict.attempt === row.attempt) return { decision: 'grant', row, reason: verdict.reason };
  const event = actor.append({
    type: 'command.claimed',
    status: 'running',
    nodeName: row.stepName,
    nodeId: nodeIdOf(row.stepName, row.iterationIndex),
    nodeType: row.toolKind,
    parentEventId: row.eventId,
    commandId: row.commandId,
    attempt: verdict.attempt,
    workerId: claimant.name,
    meta: {
      command_id: row.commandId,
      worker_id: claimant.name,
      attempt: verdict.attempt,
      activation: row.activation,
      ...(row.iterationIndex === null ? {} : { iteration_index: row.iterationIndex }),
      ...(verdict.reason === 'retry_due' ? { reason: verdict.reason } : {}),
      ...(verdict.reclaimed ? { reclaimed: true, reclaimed_from: verdict.reclaimedFrom, reason: verdict.reason } : {}),
    },
  });
  const granted: CommandRow = {
    ...row,
    status: 'CLAIMED',
    attempt: verdict.attempt,
    workerId: claimant.name,
    claimId: claimant.claimId,
    claimedAt: event.at,
    startedAt: null,
    heartbeatAt: null,
    parkedOn: null,
    nextWakeAt: actor.later(policy.leaseSeconds),
    latestEventId: event.eventId,
  };
  actor.change(granted);
  return { decision: 'grant', row: granted, reason: verdict.reason };
}

/** A claim was decided, for the reason in the table of api 4.2. */
export function countClaim(meter: Meter, { decision, reason }: Pick<Granting, 'decision' | 'reason'>): void {
  meter.count('svc_claims_total', { decision, reason });
}

/** A command that has used up its attempts fails at the claim (api 4.2). */
export function failExhausted(actor: ExecutionActor, row: CommandRow): void {
  const message = `command ${row.commandId} of step '${row.stepName}' was claimed ${row.attempt} times and never finished`;
  const error = { kind: 'logic', code: 'ATTEMPTS_EXHAUSTED', message, retryable: false };
  const common = {
    nodeName: row.stepName,
    nodeId: nodeIdOf(row.stepName, row.iterationIndex),
    nodeType: row.toolKind,
    parentEventId: row.eventId,
    commandId: row.commandId,
    attempt: row.attempt,
    error: message,
    status: 'failed',
    meta: metaOf(row),
  } as const;
  // An outcome that was recorded counts; the command only never closed (language 14.2).
  const known = runOf(actor.state).open[row.commandId]?.outcome ?? null;
  if (known === null) actor.note({ ...common, type: 'call.error', result: { status: 'failed', context: { error } } });
  const { event } = actor.deliver({
    ...common,
    type: 'command.failed',
    closes: true,
    context: { command_id: row.commandId, error },
  });
  const { open, settled } = runOf(actor.state);
  if (open[row.commandId] !== undefined) return;
  const ok = settled?.commandId === row.commandId && settled.ok;
  actor.change(actor.closed(row, ok ? 'COMPLETED' : 'FAILED', event, ok ? null : message));
}

export function metaOf(row: CommandRow): { readonly [key: string]: number | string } {
  return {
    command_id: row.commandId,
    attempt: row.attempt,
    step: row.stepName,
    activation: row.activation,
    ...(row.iterationIndex === null ? {} : { iteration_index: row.iterationIndex }),
  };
}

/** A command with what its execution knows of it (api 3.1 *Command*). */
export function describeCommand(
  execution: Pick<ExecutionActor, 'row' | 'plan' | 'engine'>,
  row: CommandRow,
): GrantedCommand {
  const { engine } = execution;
  const step = execution.plan.steps.get(row.stepName);
  const total = row.meta['iteration_total'];
  return {
    row,
    path: execution.row.path,
    version: execution.row.version,
    parentExecutionId: execution.row.parentExecutionId,
    toolConfig: (isClaim(row) ? step?.claimConfig : step?.toolConfig) ?? {},
    timeoutSeconds: step?.step.timeoutSeconds ?? engine.stepTimeoutSeconds,
    leaseSeconds: engine.leaseSeconds,
    iterationTotal: typeof total === 'number' ? total : null,
    ...commandTrace(engine.tracer, execution.row, row.commandId),
  };
}

/** The claim of a cursor loop runs the cursor's statement, not the step's tool. */
function isClaim(row: CommandRow): boolean {
  const cursor = row.meta['cursor'];
  return isMap(cursor) && cursor['phase'] === 'claim';
}

/** The end of its command is the end of its step: it is neither an iteration nor a claim of a cursor (language 13.3). */
export function endsStep(row: CommandRow): boolean {
  return row.iterationIndex === null && !isClaim(row);
}
