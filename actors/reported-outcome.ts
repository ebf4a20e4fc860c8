/**
 * An end that a batch reports. The terminal row cannot be written at intake, because what was filed before it may still
 * end the run differently; so the report is a row of its own, and the end is decided when its turn comes.
 */
import { instantOf } from '../machines/command/instant.ts';
import type { LogEvent } from '../machines/events.ts';
import { isMap, type Json, type JsonMap } from '../machines/json.ts';
import type { ExecutionActor } from './execution-actor.ts';

export const OUTCOME_REPORTED = 'outcome.reported';

/** Ends the run as the report says: the pair of rows every end has, with the report as their cause. */
export function endFor(actor: ExecutionActor, report: LogEvent): void {
  const type = report.meta['reported_type'];
  const { context } = report;
  const error = textOf(context['error']) ?? textOf(isMap(context['error']) ? context['error']['message'] : null);
  const duration = Math.max(0, instantOf(actor.at) - instantOf(actor.row.startTime));
  if (type === 'execution.cancelled') {
    const reason = textOf(context['reason']) ?? error ?? 'Cancelled by an event';
    conclude(actor, report, {
      type,
      status: 'cancelled',
      nodeType: 'execution',
      duration,
      context: { reason, cancelled_at: actor.at, cancelled_by: 'event' },
    });
    return;
  }
  const failed = type === 'playbook.failed';
  const status = failed ? 'failed' : 'completed';
  const reason = error ?? textOf(context['reason']) ?? 'The execution was ended by an event';
  const data = report.result?.context?.['data'] ?? null;
  const body: JsonMap = {
    status,
    final_step: null,
    result: failed ? null : data,
    error: failed ? reason : null,
    reason,
    ...(failed ? { error_detail: { message: reason, failed_steps: [], errors: [] } } : {}),
  };
  const common = { status, context: body, error: failed ? reason : null, duration } as const;
  actor.decide(report, { ...common, type: `workflow.${status}`, nodeName: 'workflow', nodeType: 'workflow' });
  conclude(actor, report, { ...common, type: `playbook.${status}`, nodeType: 'playbook' });
}

function conclude(
  actor: ExecutionActor,
  report: LogEvent,
  draft: Omit<Parameters<ExecutionActor['decide']>[1], 'nodeName'>,
): void {
  actor.take(actor.decide(report, { ...draft, nodeName: actor.row.path }));
}

function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
