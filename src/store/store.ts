/**
 * The Store of the actors on PostgreSQL. Commits alternate between two connections, so that a second flush can be on
 * its way while one is being written; the caller sees to it that two such flushes touch different executions. Reads of
 * the engine share a third connection.
 */
import type { BatchJob, Store } from '../../actors/ports.ts';
import {
  commandById,
  commandsClaimedBy,
  commandsHeldBy,
  earliestWake,
  holdsOf,
  overdueCommands,
  parkedCommands,
  parkedUntil,
  pendingCommands,
  postponeCommands,
  standingOf,
  touchCommands,
} from './commands.ts';
import { commitFlush } from './commit.ts';
import { withKeyOrders } from './key-order.ts';
import {
  abandonedChildren,
  endedExecutions,
  endingOf,
  eventsByNumber,
  eventsOfCommand,
  executionById,
  executionByKey,
  executionsWithInbox,
  issuedAtStart,
  iterationEvents,
  loadExecutions,
  payloadOf,
  reportedEvents,
  runningDescendants,
  runningSince,
} from './load.ts';
import type { Statement } from './pipeline.ts';
import type { Database } from './pool.ts';

/** `enqueue` says how jobs are put into the queue by the transaction that makes them. */
export function createStore(
  database: Database,
  enqueue: (jobs: readonly BatchJob[]) => Promise<readonly Statement[]> = async () => [],
): Store {
  const { commits, lookups } = database.hot;
  const inFlight = commits.map(() => 0);

  return {
    async commit(flush, onPhase) {
      const { jobs } = flush.batches;
      const extra = jobs.length === 0 ? [] : await enqueue(jobs);
      const lane = inFlight.indexOf(Math.min(...inFlight));
      const pipeline = commits[lane];
      if (pipeline === undefined) throw new Error('a database has commit connections');
      inFlight[lane] = (inFlight[lane] ?? 0) + 1;
      try {
        await commitFlush(pipeline, withKeyOrders(flush), extra, onPhase);
      } finally {
        inFlight[lane] = (inFlight[lane] ?? 1) - 1;
      }
    },
    load: (executionIds) => loadExecutions(lookups, executionIds),
    events: (executionId, eventIds) => eventsByNumber(lookups, executionId, eventIds),
    iterations: (executionId, step, activation) => iterationEvents(lookups, executionId, step, activation),
    reported: (executionId, reportIds) => reportedEvents(lookups, executionId, reportIds),
    commandEvents: (executionId, commandId) => eventsOfCommand(lookups, executionId, commandId),
    ending: (executionId) => endingOf(lookups, executionId),
    command: (commandId) => commandById(lookups, commandId),
    commandsClaimedBy: (claimId, workerId) => commandsClaimedBy(lookups, claimId, workerId),
    pending: (pools, limit) => pendingCommands(lookups, pools, limit),
    overdue: (limit) => overdueCommands(lookups, limit),
    heldBy: (workerId) => commandsHeldBy(lookups, workerId),
    holds: (commandIds) => holdsOf(lookups, commandIds),
    standing: (commandIds) => standingOf(lookups, commandIds),
    nextWakeAt: () => earliestWake(lookups),
    parked: (childIds) => parkedCommands(lookups, childIds),
    parkedUntil: (seconds, limit) => parkedUntil(lookups, seconds, limit),
    postpone: (commands) => postponeCommands(lookups, commands),
    touch: (holds) => touchCommands(lookups, holds),
    execution: (executionId) => executionById(lookups, executionId),
    ended: (executionIds) => endedExecutions(lookups, executionIds),
    byIdempotencyKey: (path, key) => executionByKey(lookups, path, key),
    issuedAtStart: (executionId) => issuedAtStart(lookups, executionId),
    runningDescendants: (executionId) => runningDescendants(lookups, executionId),
    abandoned: (seconds, limit) => abandonedChildren(lookups, seconds, limit),
    runningSince: (before, limit) => runningSince(lookups, before, limit),
    withInbox: (limit) => executionsWithInbox(lookups, limit),
    payload: (ref) => payloadOf(lookups, ref),
  };
}
