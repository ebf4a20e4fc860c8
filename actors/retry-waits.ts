/**
 * Commands whose next try lies ahead, when their moment has come (language 7.7): offered to whoever claims, or ended where the
 * step's time is over first. Everything is read from the row, so it does not matter which process looks or how often.
 */

import { instantOf } from '../machines/command/instant.ts';
import { type RetryWait, retryWaitOf } from '../machines/command/retry-wait.ts';
import { nodeIdOf } from '../machines/events.ts';
import { stepTimeout } from '../machines/execution/child-data.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import type { JsonMap } from '../machines/json.ts';
import { hintOf } from './command-hint.ts';
import type { ExecutionActor } from './execution-actor.ts';
import type { Flusher } from './flush.ts';
import { endsStep, metaOf } from './grant.ts';
import type { CommandHint, CommandRow, ParkedCommand, Store } from './ports.ts';
import { stepTimeoutSeconds } from './report.ts';
import type { Supervisor } from './supervisor.ts';

export interface RetryWaitsParts {
  readonly store: Store;
  readonly flusher: Flusher;
  readonly supervisor: Supervisor;
  /** Tells the workers of this process, and the other processes. */
  announce(hints: readonly CommandHint[]): void;
}

export class RetryWaits {
  readonly #parts: RetryWaitsParts;

  constructor(parts: RetryWaitsParts) {
    this.#parts = parts;
  }

  /** Offers the command, or ends it where the step's time is over; true when it was ended. Throws what a flush throws. */
  async wake({ executionId, commandId }: ParkedCommand): Promise<boolean> {
    const { store, flusher, supervisor, announce } = this.#parts;
    const row = await store.command(commandId);
    if (row === null || row.completedAt !== null || retryWaitOf(row) === null) return false;
    supervisor.refresh(executionId, row.latestEventId);
    const found = await flusher.submit({
      executionId,
      apply: (actor) => {
        const open = actor.commands.get(commandId);
        const wait = open === undefined ? null : retryWaitOf(open);
        if (open === undefined || wait === null) return null;
        const now = instantOf(actor.at);
        if (instantOf(wait.at) > now) return null;
        if (instantOf(wait.deadline) > now) return 'due';
        failOverdue(actor, open, wait);
        return 'failed';
      },
    });
    if (found === 'due') announce([{ ...hintOf(row), retry: true }]);
    return found === 'failed';
  }
}

/** The time of the step ended while it waited: what a worker would report (language 4.4), written by the server. */
function failOverdue(actor: ExecutionActor, row: CommandRow, wait: RetryWait): void {
  const failure = stepTimeout(row.stepName, stepTimeoutSeconds(actor, row), row.toolKind);
  const { message } = failure;
  const error = { ...failure } as JsonMap;
  const common = {
    nodeName: row.stepName,
    nodeId: nodeIdOf(row.stepName, row.iterationIndex),
    nodeType: row.toolKind,
    parentEventId: row.eventId,
    commandId: row.commandId,
    attempt: row.attempt,
    status: 'failed',
  } as const;
  const meta = metaOf(row);
  actor.note({
    ...common,
    type: 'call.error',
    error: message,
    context: { command_id: row.commandId, attempt: row.attempt },
    result: { status: 'failed', context: { error } },
    meta: Object.keys(wait.ctx).length > 0 ? { ...meta, ctx: wait.ctx } : meta,
  });
  if (endsStep(row)) {
    const context = { status: 'failed', activation: row.activation };
    actor.append({ ...common, type: 'step.exit', nodeType: 'step', context, meta });
  }
  const { event } = actor.deliver({
    ...common,
    type: 'command.failed',
    error: message,
    closes: true,
    context: { command_id: row.commandId, error },
    meta,
  });
  const { settled } = runOf(actor.state);
  const ok = settled?.commandId === row.commandId && settled.ok;
  actor.change(actor.closed(row, ok ? 'COMPLETED' : 'FAILED', event, ok ? null : message));
}
