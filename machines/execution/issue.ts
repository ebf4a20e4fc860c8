/** Issuing a command: its event, and the row with what it may render from. */
import { type Decision, failExecution } from './decision.ts';
import { type StepPlan, toolKindOf } from './plan.ts';
import type { Iteration } from './render-context.ts';
import { renderContextOf } from './render-context-of.ts';

/** Where in a cursor loop a command stands (language 14.3). */
export interface CursorPlace {
  readonly phase: 'claim' | 'body';
  readonly frame: number;
  readonly row: number;
}

/** `iteration` is null outside loops. */
export function issueCommand(
  decision: Decision,
  plan: StepPlan,
  activation: number,
  iteration: Iteration | null,
  cursor: CursorPlace | null = null,
): void {
  const { stage } = decision;
  const { name } = plan.step;
  const commandId = stage.newId();
  const index = iteration?.kind === 'item' ? iteration.index : null;
  const total = iteration?.kind === 'item' ? iteration.total : null;
  const claim = cursor?.phase === 'claim' ? plan.claimConfig : null;
  const toolKind = toolKindOf(plan, cursor?.phase === 'claim');
  const event = stage.record({
    type: 'command.issued',
    status: 'pending',
    nodeName: name,
    nodeId: index === null ? name : `${name}#${index}`,
    nodeType: toolKind,
    commandId,
    attempt: 0,
    context: { tool_config: claim ?? plan.toolConfig, input: {}, spec: {} },
    meta: {
      command_id: commandId,
      step: name,
      activation,
      tool_kind: toolKind,
      attempt: 0,
      ...(index === null ? {} : { iteration_index: index, iteration_total: total }),
      ...(cursor === null ? {} : { cursor: { ...cursor } }),
    },
  });
  const item = index === null ? '' : `#${index}`;
  const place = cursor === null ? '' : `/${cursor.phase}.${cursor.frame}.${cursor.row}`;
  stage.issue({
    commandId,
    event,
    step: plan,
    toolKind,
    activation,
    iterationIndex: index,
    iterationTotal: total,
    key: `${name}@${activation}${item}${place}`,
    context: renderContextOf(stage, plan, iteration),
  });
}

/** Steps that end within the decision that reached them could go on for ever; false when they have gone on too long. */
export function countCascade(decision: Decision, step: string): boolean {
  decision.cascade += 1;
  if (decision.cascade <= decision.stage.limits.maxDenials) return true;
  failExecution(decision, step, {
    kind: 'logic',
    code: 'DENIAL_LIMIT',
    message: `more than ${decision.stage.limits.maxDenials} steps were denied or empty in one decision`,
  });
  return false;
}
