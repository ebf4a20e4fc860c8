/**
 * What a run waited for at some point of its log, in one sentence, as far as the log alone can tell: nothing is known of
 * workers there. The present is explained by who knows them (`/explain`).
 */
import type { Run } from './run.ts';

/** `state` is the name of the innermost state of the chart. */
export function explainRun(run: Run, state: string): string {
  if (state === 'created') return 'Nothing has happened yet.';
  if (state !== 'working' && state !== 'failing') return `The execution is ${state}; nothing is waited for.`;
  const open = Object.entries(run.open);
  const parked = open.filter(([, command]) => command.parkedOn !== null);
  const [first] = open;
  const joins = run.joins.length === 0 ? '' : `; ${listOf(run.joins)} waits at its barrier`;
  if (first === undefined) return `No command is open${joins}.`;
  const prefix = state === 'failing' ? 'Failing: nothing new starts. ' : '';
  const [id, command] = first;
  if (open.length === 1) {
    const what =
      command.parkedOn === null
        ? `the outcome of command ${id} (step '${command.step}')`
        : `child execution ${command.parkedOn} (step '${command.step}')`;
    return `${prefix}Waiting for ${what}${joins}.`;
  }
  const children = parked.length === 0 ? '' : `, ${parked.length} of them for child executions`;
  const steps = [...new Set(open.map(([, each]) => each.step))];
  return `${prefix}Waiting for ${open.length} commands of ${listOf(steps)}${children}${joins}.`;
}

function listOf(steps: readonly string[]): string {
  const shown = steps.slice(0, 3).map((step) => `'${step}'`);
  const rest = steps.length - shown.length;
  return `${steps.length === 1 ? 'step' : 'steps'} ${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}
