/** Running children that nobody waits for any more, as PostgreSQL finds them (src/store/load.ts). */
import { isMap } from '../../machines/json.ts';
import type { AbandonedChild, CommandRow, EventRow, ExecutionRow } from '../ports.ts';

export interface Rows {
  executions(): readonly ExecutionRow[];
  command(commandId: number): CommandRow | undefined;
  log(executionId: number): readonly EventRow[];
}

/** Given up at `before` (milliseconds since the epoch) or earlier; by execution. */
export function abandonedChildren(rows: Rows, before: number, limit: number): readonly AbandonedChild[] {
  const found: AbandonedChild[] = [];
  for (const { executionId, status, parentExecutionId, parentCommandId } of rows.executions()) {
    if (status !== 'running' || parentExecutionId === null) continue;
    const log = rows.log(parentExecutionId);
    const end = cascaded(log) ?? givenUp(log, executionId, rows.command(parentCommandId ?? 0));
    if (end !== null && Date.parse(end.at) <= before) found.push({ executionId, parentExecutionId });
  }
  return found.sort((a, b) => a.executionId - b.executionId).slice(0, limit);
}

/** The parent itself ended because of what is above it. */
function cascaded(log: readonly EventRow[]): EventRow | null {
  return (
    log.find(({ type, context }) => type === 'execution.cancelled' && context['cancelled_by'] === 'cascade') ?? null
  );
}

/** The failure that ended the wait for this very child. */
function givenUp(log: readonly EventRow[], child: number, command: CommandRow | undefined): EventRow | null {
  if (command === undefined || command.status !== 'CANCELLED') return null;
  const waited = log.some(
    ({ type, stale, commandId, context }) =>
      type === 'command.completed' &&
      !stale &&
      commandId === command.commandId &&
      context['child_execution_id'] === child,
  );
  const closing = log.find(({ eventId }) => eventId === command.latestEventId);
  return waited && closing !== undefined && isFailing(closing) ? closing : null;
}

/** A failure the run came to by itself; whoever ends it from outside says what becomes of its children. */
function isFailing({ type, context }: EventRow): boolean {
  // Its own row closes a wait that began when the run was failing already.
  if (type === 'ctx.updated' || type === 'command.completed') return true;
  const detail = context['error_detail'];
  const steps = isMap(detail) ? detail['failed_steps'] : null;
  return type === 'playbook.failed' && Array.isArray(steps) && steps.length > 0;
}
