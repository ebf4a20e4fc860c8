/**
 * What a worker's token opens (api 4.4, 8.6). A worker is shown secrets while it works: of itself the token opens none of
 * them, so that one left lying about is not a key to all there is.
 */
import type { ReadService } from '../../actors/services.ts';

/** Whether the worker has claimed a command that is still open, of this execution where one is named. */
export async function holdsOpenCommand(
  reads: Pick<ReadService, 'commands'>,
  { workerId, executionId }: { readonly workerId: string | undefined; readonly executionId: number | null | undefined },
): Promise<boolean> {
  if (workerId === undefined) return false;
  const held = await reads.commands({
    workerId,
    statuses: ['CLAIMED', 'RUNNING'],
    limit: 1,
    ...(executionId == null ? {} : { executionId }),
  });
  return held.length > 0;
}
