/**
 * What flushes wrote, as figures (api 7.1). Counting is on the path of every command, so it only adds to numbers here;
 * the meter hears the sums when somebody reads them.
 */
import { instantOf } from '../machines/command/instant.ts';
import { KNOWN_KINDS } from '../machines/playbook/tool-fields.ts';
import type { ExecutionActor, Writing } from './execution-actor.ts';
import type { CommandRow, Meter } from './ports.ts';
import { endsWith } from './traces.ts';

/** Types of language 13.2, and what else the service writes itself; a client may write any other. */
const TYPES: ReadonlySet<string> = new Set([
  'execution.started',
  'step.enter',
  'step.skipped',
  'step.exit',
  'command.issued',
  'command.claimed',
  'command.started',
  'command.heartbeat',
  'command.completed',
  'command.failed',
  'command.cancelled',
  'call.done',
  'call.error',
  'loop.done',
  'loop.stalled',
  'ctx.updated',
  'workflow.completed',
  'workflow.failed',
  'playbook.completed',
  'playbook.failed',
  'execution.cancelled',
  'batch.accepted',
  'batch.processing',
  'batch.completed',
  'batch.failed',
]);
const KINDS: ReadonlySet<string> = new Set(KNOWN_KINDS);
/** What an execution or a command can be of; anything else counts as `other`. */
const EXECUTION_KINDS: ReadonlySet<string> = new Set(['playbook', 'agent', 'tool']);

export class CommitTally {
  readonly #meter: Meter;
  readonly #events = new Map<string, number>();
  #late = 0;
  #stale = 0;

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  /** One execution's part of a committed flush. */
  add(actor: ExecutionActor, writing: Writing): void {
    for (const event of writing.events) {
      const type = TYPES.has(event.type) ? event.type : 'other';
      this.#events.set(type, (this.#events.get(type) ?? 0) + 1);
      if (event.stale) this.#stale += 1;
      else if (event.meta['late'] === true) this.#late += 1;
      if (event.type === 'execution.started') this.#started(actor);
    }
    for (const command of writing.issued.values()) this.#command(command, true);
    for (const command of writing.changed.values()) this.#command(command, false);
    if (endsWith(actor, writing)) this.#ended(actor);
  }

  /** Hands the sums to the meter. */
  tell(): void {
    for (const [type, count] of this.#events) this.#meter.count('svc_events_appended_total', { type }, count);
    this.#events.clear();
    if (this.#late > 0) this.#meter.count('svc_events_late_total', {}, this.#late);
    if (this.#stale > 0) this.#meter.count('svc_events_stale_total', {}, this.#stale);
    this.#late = 0;
    this.#stale = 0;
  }

  #started({ row }: ExecutionActor): void {
    this.#meter.count('svc_executions_started_total', { kind: EXECUTION_KINDS.has(row.kind) ? row.kind : 'other' });
  }

  #ended({ row }: ExecutionActor): void {
    const { status, startTime, endTime } = row;
    this.#meter.count('svc_executions_ended_total', { status });
    if (endTime !== null) this.#meter.observe('svc_execution_seconds', seconds(startTime, endTime), { status });
  }

  /** A command is issued and first claimed by one flush or by two; it is settled by a later one. */
  #command(command: CommandRow, isNew: boolean): void {
    const { claimedAt, completedAt, createdAt, status, attempt, toolKind } = command;
    const isClaimed = status === 'CLAIMED' && attempt === 1 && claimedAt !== null;
    if (isClaimed) this.#meter.observe('svc_step_dispatch_seconds', isNew ? 0 : seconds(createdAt, claimedAt));
    if (completedAt === null || claimedAt === null) return;
    const labels = { tool_kind: KINDS.has(toolKind) ? toolKind : 'other', status };
    this.#meter.observe('svc_command_seconds', seconds(claimedAt, completedAt), labels);
  }
}

function seconds(from: string, to: string): number {
  return Math.max(0, instantOf(to) - instantOf(from)) / 1000;
}
