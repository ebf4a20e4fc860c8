/** The failed step, its error in full, and what it was given: the answer most people open the page for. */
import { useResource } from '../core/resource.ts';
import { to } from '../core/router.ts';
import type { Execution, StepError } from '../core/wire.ts';
import { Copy } from '../parts/copy.tsx';
import { Icon } from '../parts/icons.tsx';
import { JsonView } from '../parts/json.tsx';
import { Card } from '../parts/page.tsx';
import { failedInput } from './step-data.ts';

const SHOWN = 5;

export function FailureCard({ row, onAgain }: { row: Execution; onAgain: (step: string) => void }) {
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
            onAgain={onAgain}
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

function OneFailure({
  id,
  error,
  withInput,
  onAgain,
}: {
  id: number;
  error: StepError;
  withInput: boolean;
  onAgain: (step: string) => void;
}) {
  const { step } = error;
  const given = useResource(withInput && error.step !== null ? `input ${id} ${error.step}` : null, (signal) =>
    failedInput(id, error.step ?? '', signal),
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
        {step !== null && (
          <>
            <a href={`${to.execution(id, 'events')}?step=${encodeURIComponent(step)}`}>Events of {step}</a>
            <button type="button" class="button tiny" onClick={() => onAgain(step)}>
              <Icon name="again" size={12} /> Run again from {step}…
            </button>
          </>
        )}
      </p>
      {given.data !== null && given.data !== undefined && (
        <details open>
          <summary>What the step was given</summary>
          <JsonView value={given.data} label="what the step was given" />
        </details>
      )}
    </div>
  );
}
