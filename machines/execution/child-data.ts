/**
 * What a waiting `playbook` task makes of its child (language 11.7): data when the child completed, a failure when it
 * did not. The worker asks when it waits itself, the server when the command is parked; both must say the same.
 */
import type { Failure } from '../events.ts';
import { isMap, type Json, type JsonMap } from '../json.ts';

export interface EndedChild {
  readonly executionId: number;
  readonly path: string;
  readonly status: 'completed' | 'failed' | 'cancelled';
  /** Value of `return_step` if that step completed in the child, else the child's execution result. */
  readonly returned: Json;
  readonly error: string | null;
}

/** The step value of the waiting task. */
export function childData(child: EndedChild): JsonMap {
  const members: JsonMap = isMap(child.returned) ? child.returned : { data: child.returned, value: child.returned };
  return {
    ...(Object.hasOwn(members, 'status') ? {} : { status: child.status }),
    ...members,
    execution_id: String(child.executionId),
    path: child.path,
    child_status: child.status,
  };
}

/** Null for a child that completed. */
export function childFailure(child: EndedChild): Failure | null {
  if (child.status === 'completed') return null;
  const error = child.error ?? child.status;
  return {
    kind: 'tool_error',
    code: child.status === 'failed' ? 'CHILD_FAILED' : 'CHILD_CANCELLED',
    message: `child playbook ${child.path} (${child.executionId}): ${error}`,
    retryable: false,
    source: 'playbook',
  };
}

/** The child did not end within `timeout`; it keeps running. */
export function childTimeout(child: Pick<EndedChild, 'executionId' | 'path'>, timeoutSeconds: number): Failure {
  return {
    kind: 'timeout',
    code: 'CHILD_TIMEOUT',
    message: `child playbook ${child.path} (${child.executionId}): not finished after ${timeoutSeconds} s`,
    retryable: true,
    source: 'playbook',
  };
}

/** A command took longer than its step may take (language 4.4); no policy rule is asked. */
export function stepTimeout(step: string, timeoutSeconds: number, source: string): Failure {
  return {
    kind: 'timeout',
    code: 'STEP_TIMEOUT',
    message: `step '${step}' did not end within ${timeoutSeconds} s`,
    retryable: false,
    source,
  };
}

/** What a task that does not wait answers as soon as the child is started. */
export function startedChildData(child: Pick<EndedChild, 'executionId' | 'path'>): JsonMap {
  return { status: 'started', execution_id: String(child.executionId), path: child.path, async: true };
}
