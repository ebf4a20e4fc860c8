/** How an execution's end is told: lines for a person, a code for a script. */
import { printable } from '../log.ts';
import { EXIT } from './exit-code.ts';
import type { SeenExecution } from './remote.ts';

export function outcomeCode(status: string): number {
  if (status === 'failed') return EXIT.failed;
  return status === 'cancelled' ? EXIT.cancelled : EXIT.ok;
}

export function outcomeLines(execution: SeenExecution): string {
  const { status, progress, current_step: step } = execution;
  const where = status === 'running' && step !== null ? `, at step ${printable(step)}` : '';
  const took = execution.duration_human === null ? '' : ` after ${execution.duration_human}`;
  const lines = [
    `${printable(execution.path)} version ${execution.version}, execution ${execution.execution_id}`,
    status === 'running' ? `running, ${progress} %${where}${took}` : `${status}${took}`,
    ...(execution.error === null ? [] : [printable(execution.error)]),
    ...(status === 'completed' ? [JSON.stringify(execution.result, null, 2)] : []),
  ];
  return `${lines.join('\n')}\n`;
}
