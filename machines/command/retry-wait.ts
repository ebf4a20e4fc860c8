/**
 * A command whose next try lies ahead (language 7.7): no worker holds it and no memory keeps it. What the next worker needs
 * to go on is in its row under `context.resume`, with the attempt that left it there; a later attempt works on it again.
 */
import { isMap, type Json, type JsonMap } from '../json.ts';

/** `parked_on` of a command that waits for a time and for no child. */
export const NO_CHILD = 0;

export interface RetryWait {
  /** When it is offered again; never after the deadline. ISO 8601 UTC. */
  readonly at: string;
  /** The attempt that asked for the wait. */
  readonly attempt: number;
  /** End of the step's time, waits included (language 4.4). ISO 8601 UTC. */
  readonly deadline: string;
  /** The worker's; the server only keeps it. */
  readonly state: Json;
  /** Variables written so far, by path. They count even if no further try comes. */
  readonly ctx: JsonMap;
}

interface Row {
  readonly attempt: number;
  readonly context: JsonMap;
}

/** What a worker goes on from; null where the command begins at its beginning. */
export function resumeOf({ context }: Pick<Row, 'context'>): RetryWait | null {
  const resume = context['resume'];
  if (!isMap(resume)) return null;
  const { at, attempt, deadline, state = null, ctx } = resume;
  if (typeof at !== 'string' || typeof attempt !== 'number' || typeof deadline !== 'string') return null;
  return { at, attempt, deadline, state, ctx: isMap(ctx) ? ctx : {} };
}

/** The wait an open command is in; null while somebody works on it or could. */
export function retryWaitOf(row: Row & { readonly parkedOn: number | null }): RetryWait | null {
  if (row.parkedOn !== NO_CHILD) return null;
  const resume = resumeOf(row);
  return resume?.attempt === row.attempt ? resume : null;
}
