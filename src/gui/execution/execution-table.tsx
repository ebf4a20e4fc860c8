/** Executions as rows. A row shows what is known of it (core/executions.ts), so it is never behind its page. */
import { executionSignal } from '../core/executions.ts';
import { to } from '../core/router.ts';
import type { Execution } from '../core/wire.ts';
import { Lasting, When } from '../parts/instant.tsx';
import { StatusBadge } from '../parts/status.tsx';

export interface Choosing {
  readonly chosen: ReadonlySet<number>;
  onChoose(ids: readonly number[], on: boolean): void;
}

export function ExecutionTable({
  ids,
  compact = false,
  choosing,
}: {
  ids: readonly number[];
  compact?: boolean;
  choosing?: Choosing;
}) {
  const running = ids.filter((id) => executionSignal(id).value?.status === 'running');
  return (
    <div class="scroll-x">
      <table class="list">
        <thead>
          <tr>
            {choosing !== undefined && (
              <th class="check-cell">
                <input
                  type="checkbox"
                  aria-label="Choose all running executions of this page"
                  disabled={running.length === 0}
                  checked={running.length > 0 && running.every((id) => choosing.chosen.has(id))}
                  onChange={(event) => choosing.onChoose(running, event.currentTarget.checked)}
                />
              </th>
            )}
            <th>Status</th>
            <th>Playbook</th>
            {!compact && <th>Progress</th>}
            <th>Started</th>
            <th class="number">Duration</th>
          </tr>
        </thead>
        <tbody>
          {ids.map((id) => (
            <ExecutionRow key={id} id={id} compact={compact} choosing={choosing} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ExecutionRow({ id, compact, choosing }: { id: number; compact: boolean; choosing: Choosing | undefined }) {
  const row = executionSignal(id).value;
  if (row === null) return null;
  return (
    <tr>
      {choosing !== undefined && (
        <td class="check-cell">
          <input
            type="checkbox"
            aria-label={`Choose execution ${id}`}
            disabled={row.status !== 'running'}
            checked={choosing.chosen.has(id)}
            onChange={(event) => choosing.onChoose([id], event.currentTarget.checked)}
          />
        </td>
      )}
      <td>
        <StatusBadge status={row.status} />
      </td>
      <td class="grow">
        <a href={to.execution(id)} class="break">
          {row.path}
        </a>{' '}
        <span class="soft small nowrap">#{id}</span>
        <span class="sub" title={row.error ?? undefined}>
          {sentenceOf(row)}
        </span>
      </td>
      {!compact && (
        <td>
          {row.status === 'running' ? <Progress row={row} /> : <span class="soft small nowrap">{stepsText(row)}</span>}
        </td>
      )}
      <td>
        <When at={row.start_time} />
      </td>
      <td class="number">
        <Lasting from={row.start_time} to={row.end_time} />
      </td>
    </tr>
  );
}

/** The one line under the path: the error, or where it is, or what it was given. */
function sentenceOf(row: Execution): string {
  if (row.error !== null) return row.error;
  if (row.status === 'running') return row.current_step === null ? 'waiting to begin' : `at step ${row.current_step}`;
  const inputs = Object.entries(row.workload).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  return inputs.length === 0 ? 'no inputs' : inputs.join(', ');
}

function stepsText(row: Execution): string {
  const { completed_steps = 0, total_steps = 0 } = row.progress_detail;
  return `${completed_steps} of ${total_steps} ${total_steps === 1 ? 'step' : 'steps'}`;
}

export function Progress({ row }: { row: Execution }) {
  const { completed_steps = 0, total_steps = 0 } = row.progress_detail;
  return (
    <span class="progress" title={`${completed_steps} of ${total_steps} steps`}>
      <progress max={100} value={row.progress} aria-label={`Progress of execution ${row.execution_id}`} />
      <span class="small nowrap">{row.progress} %</span>
    </span>
  );
}
