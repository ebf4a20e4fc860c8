/**
 * The promise to a parent that has failed: a child it no longer waits for ends with it (language 5.7), also when the server
 * dies between the two. Judged by the rows: when the wait was given up, and when and how the child ended.
 */
import { TERMINAL_TYPES } from '../../machines/events.ts';
import type { Invariant, Witness } from './invariants.ts';

/** A child that a fault kept from being ended may go on for this long besides two rounds of reconciliation. */
const GRACE_SECONDS = 8;
/** In a world that is well it is ended right after the wait for it: a few turns of the database away. */
const SOON_MS = 500;
const SOON_TURNS = 12;
/** As the network delays them at most. */
const SLOWEST_WRITE_MS = 4_000;

export function childrenEnd({ database, plan, now }: Witness, demand: (holds: boolean, what: string) => void) {
  const givenUp = new Map<number, number>();
  const ended = new Map<number, number>();
  let healedAt = 0;
  const made: Omit<Invariant, 'name'> = {
    onCommit({ commands, events }, before) {
      for (const { commandId, status, latestEventId, executionId } of commands) {
        const child = before.commands.get(commandId)?.parkedOn ?? 0;
        if (status !== 'CANCELLED' || child === 0 || givenUp.has(child)) continue;
        const closing = events.find((event) => event.executionId === executionId && event.eventId === latestEventId);
        // Whoever ends a run from outside says himself what becomes of its children.
        const isOwn =
          closing?.type === 'ctx.updated' || (closing?.type === 'playbook.failed' && hasFailedStep(closing));
        if (isOwn) givenUp.set(child, now());
      }
      for (const { executionId, type } of events)
        if (TERMINAL_TYPES.has(type) && !ended.has(executionId)) ended.set(executionId, now());
    },
    atEnd(isFinal) {
      if (!isFinal) healedAt = now();
      const { reconcileSeconds, leaseSeconds } = plan.pace;
      // The end of a run bears the time of the server that wrote it; it counts as over when that time has come.
      const skewMs = Math.max(0, ...plan.servers.map((each) => each.skewMs));
      const afterFault = (2 * reconcileSeconds + leaseSeconds + GRACE_SECONDS) * 1_000 + skewMs;
      const soon = SOON_MS + SOON_TURNS * plan.pace.latencyMs;
      for (const [child, since] of isFinal ? givenUp : []) {
        // A row by hand ends the child when it is written; no flush of ours writes it.
        const byHand = database.store.log(child).find((event) => TERMINAL_TYPES.has(event.type))?.at;
        const end = ended.get(child) ?? (byHand === undefined ? Number.POSITIVE_INFINITY : Date.parse(byHand));
        // A write that was on its way while all was healed may be of a server that is gone by the time it arrives.
        const isWell = since > healedAt + SLOWEST_WRITE_MS;
        const until = isWell ? since + soon : Math.max(since, healedAt) + afterFault;
        const isInTime = end <= until;
        demand(
          database.store.executions().every((row) => row.executionId !== child) || isInTime,
          `nobody waits for ${child}, and it goes on`,
        );
      }
    },
  };
  return made;
}

function hasFailedStep(event: { readonly context: { readonly [key: string]: unknown } }): boolean {
  const detail = event.context['error_detail'];
  return JSON.stringify(detail ?? {}).includes('"failed_steps":["');
}
