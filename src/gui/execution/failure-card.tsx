/** The failed step, its error in full, and what it was given: the answer most people open the page for. */
import { useState } from 'preact/hooks';
import { useResource } from '../core/resource.ts';
import { to } from '../core/router.ts';
import type { Execution, StepError } from '../core/wire.ts';
import { Copy } from '../parts/copy.tsx';
import { Icon } from '../parts/icons.tsx';
import { JsonView } from '../parts/json.tsx';
import { Card } from '../parts/page.tsx';
import { Loading } from '../parts/states.tsx';
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
            isFirst={index === 0}
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
  isFirst,
  onAgain,
}: {
  id: number;
  error: StepError;
  isFirst: boolean;
  onAgain: (step: string) => void;
}) {
  const { step } = error;
  const iteration = error.iteration ?? null;
  const [wanted, setWanted] = useState(isFirst);
  const given = useResource(wanted && step !== null ? `input ${id} ${step} ${iteration}` : null, (signal) =>
    failedInput(id, step ?? '', iteration, signal).then((input) => ({ input })),
  );
  const isKnown = given.data === null ? !isFirst : given.data.input !== null;
  const facts = [
    error.code,
    error.kind === null || error.kind === undefined || error.kind === 'unknown' ? null : error.kind,
    error.task == null ? null : `task ${error.task}`,
    iteration === null ? null : `iteration ${iteration + 1}`,
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
      {step !== null && isKnown && (
        <details open={isFirst} onToggle={(event) => event.currentTarget.open && setWanted(true)}>
          <summary>Input of the step</summary>
          {given.loading && <Loading what="what the step was given" />}
          {given.data !== null && <JsonView value={given.data.input} label="input of the step" />}
        </details>
      )}
    </div>
  );
}
