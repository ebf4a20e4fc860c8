/**
 * A call of a tool that is a playbook (api 2.14.4): start it, wait for its end, tell how far it is. The execution does
 * not depend on the call: when time is up or the client has left it goes on, and its id says where to look.
 */
import type { ExecutionRow } from '../../actors/ports.ts';
import type { ExecutionService } from '../../actors/services.ts';
import type { JsonMap } from '../../machines/json.ts';
import { type ToolCaller, toolResult } from './tool.ts';

export interface PlaybookCallParts {
  readonly executions: Pick<ExecutionService, 'start' | 'whenEnded' | 'follow' | 'insight'>;
  readonly callTimeoutMs: number;
}

export interface CallablePlaybook {
  readonly path: string;
  readonly kind: string;
}

/** Throws what a start throws. */
export async function callPlaybook(
  { path, kind }: CallablePlaybook,
  workload: JsonMap,
  { executions, callTimeoutMs }: PlaybookCallParts,
  { signal, progress, idempotencyKey }: ToolCaller,
): Promise<JsonMap> {
  const { executionId } = await executions.start({ path, resourceKind: kind, workload, idempotencyKey });
  const isOver = AbortSignal.any([signal, AbortSignal.timeout(callTimeoutMs)]);
  const stop = progress === null ? () => {} : reportProgress(executions, executionId, progress);
  try {
    return resultOf(await executions.whenEnded(executionId, isOver));
  } finally {
    stop();
  }
}

/** `result` is there when there is one; what failed or was cancelled is an error to the model that called. */
function resultOf({ executionId, status, result, error }: ExecutionRow): JsonMap {
  const shown = status === 'completed' ? result : null;
  const isError = status === 'failed' || status === 'cancelled';
  return toolResult({ execution_id: executionId, status, result: shown, error }, isError);
}

/** After each commit, as long as the last look is over; a value that does not rise is not told. */
function reportProgress(
  executions: PlaybookCallParts['executions'],
  executionId: number,
  tell: (percent: number, message: string) => void,
): () => void {
  let last = -1;
  let seen = 0;
  let isLooking = false;
  let again = false;
  let isStopped = false;
  const look = async (): Promise<void> => {
    if (isLooking) {
      again = true;
      return;
    }
    isLooking = true;
    try {
      do {
        again = false;
        const { progress, currentStep } = await executions.insight({ executionId, lastEventId: seen });
        const percent = Math.min(100, Math.max(0, progress));
        if (isStopped || percent <= last) continue;
        last = percent;
        tell(percent, currentStep === null ? 'running' : `at step ${currentStep}`);
      } while (again && !isStopped);
    } catch {
      // Progress is a courtesy; the end is told by the result.
    } finally {
      isLooking = false;
    }
  };
  const unfollow = executions.follow(executionId, (lastEventId) => {
    seen = lastEventId;
    void look();
  });
  void look();
  return () => {
    isStopped = true;
    unfollow();
  };
}
