/** The failed step, its error in full, and what it was given: the answer most people open the page for. */
import { get, orNull } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { to } from '../core/router.ts';
import type { EventPage, Execution, JsonMap, LogEvent, StepError } from '../core/wire.ts';
import { Copy } from '../parts/copy.tsx';
import { JsonView } from '../parts/json.tsx';
import { Card } from '../parts/page.tsx';

const SHOWN = 5;

interface CommandBody {
  readonly context: JsonMap;
}

export function FailureCard({ row }: { row: Execution }) {
  const errors: readonly StepError[] = row.error_detail?.errors ?? [
    { step: null, message: row.error ?? 'It failed without a word.' },
  ];
  return (
    <Card tone="failed" title={titleOf(row, errors)} actions={<Copy text={row.error ?? ''} what="error" />}>
      <div class="stack">
        {errors.slice(0, SHOWN).map((error, index) => (
          <OneFailure
            key={`${error.step} ${error.iteration} ${index}`}
            id={row.execution_id}
            error={error}
            withInput={index === 0}
          />
        ))}
        {errors.length > SHOWN && (
          <p>
            <a href={`${to.execution(row.execution_id, 'events')}?status=failed`}>
              All {errors.length} errors are among the events.
            </a>
          </p>
        )}
      </div>
    </Card>
  );
}

function titleOf(row: Execution, errors: readonly StepError[]): string {
  const steps = row.error_detail?.failed_steps ?? [];
  if (steps.length === 1) return `Step ${steps[0]} failed`;
  if (steps.length > 1) return `${steps.length} steps failed: ${steps.join(', ')}`;
  return errors[0]?.step == null ? 'The execution failed' : `Step ${errors[0].step} failed`;
}

function OneFailure({ id, error, withInput }: { id: number; error: StepError; withInput: boolean }) {
  const given = useResource(withInput && error.step !== null ? `input ${id} ${error.step}` : null, (signal) =>
    inputOf(id, error.step ?? '', signal),
  );
  const facts = [
    error.code,
    error.kind === null || error.kind === undefined || error.kind === 'unknown' ? null : error.kind,
    error.task == null ? null : `task ${error.task}`,
    error.iteration == null ? null : `round ${error.iteration}`,
  ].filter((each) => each != null);
  return (
    <div class="failure">
      <p class="failure-message" data-testid="error">
        {error.message}
      </p>
      <p class="row small">
        {facts.map((each) => (
          <span key={each} class="badge plain">
            {each}
          </span>
        ))}
        {error.step !== null && (
          <a href={`${to.execution(id, 'events')}?step=${encodeURIComponent(error.step)}`}>Events of {error.step}</a>
        )}
      </p>
      {given.data !== null && given.data !== undefined && (
        <details>
          <summary>What the step was given</summary>
          <JsonView value={given.data} label="what the step was given" />
        </details>
      )}
    </div>
  );
}

/** The command behind the last error of a step: its task and what its templates could read. */
async function inputOf(id: number, step: string, signal: AbortSignal): Promise<JsonMap | null> {
  const page = await get<EventPage>(
    `/api/executions/${id}/events`,
    { event_type: 'command.failed,call.error', step, page_size: 10 },
    signal,
  );
  const commandId = page.events.map(commandOf).find((each) => each !== null);
  if (commandId === undefined || commandId === null) return null;
  const command = await orNull(get<CommandBody>(`/api/commands/${commandId}`, {}, signal));
  if (command === null) return null;
  const { tool_config, render_context, iteration } = command.context;
  return { task: tool_config ?? null, values: render_context ?? null, ...(iteration == null ? {} : { iteration }) };
}

function commandOf(event: LogEvent): number | null {
  const id = event.meta?.['command_id'];
  return typeof id === 'number' ? id : null;
}
