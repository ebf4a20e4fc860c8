/** Cancelling several executions: first the list of what ends, children included, then a word to type. */
import { useState } from 'preact/hooks';
import { get, post } from '../core/api.ts';
import { executionSignal, loadExecution } from '../core/executions.ts';
import { useResource } from '../core/resource.ts';
import type { Execution } from '../core/wire.ts';
import { Confirm } from '../parts/dialog.tsx';
import { Failed, Loading } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';
import { say } from '../parts/toasts.tsx';

const WORD_FROM = 2;

interface Cancelled {
  readonly cancelled_executions: readonly string[];
}

export function BulkCancel({
  ids,
  onClose,
  onDone,
}: {
  ids: readonly number[];
  onClose: () => void;
  onDone: () => void;
}) {
  const [reason, setReason] = useState('');
  const preview = useResource(`cancel ${ids.join()}`, (signal) => runningBelow(ids, signal));
  const found = preview.data ?? [];
  const act = async (): Promise<void> => {
    const ended = new Set<string>();
    for (const id of ids) {
      const answer = await post<Cancelled>(`/api/executions/${id}/cancel`, {
        cascade: true,
        ...(reason.trim() === '' ? {} : { reason: reason.trim() }),
      });
      for (const each of answer.cancelled_executions) ended.add(each);
    }
    await Promise.all(ids.map((id) => loadExecution(id)));
    say(`Cancelled ${ended.size} ${ended.size === 1 ? 'execution' : 'executions'}`);
    onDone();
  };
  const count = found.length;
  return (
    <Confirm
      title={ids.length === 1 ? `Cancel execution ${ids[0]}?` : `Cancel ${ids.length} executions?`}
      act={count === 1 ? 'Cancel it' : `Cancel ${count}`}
      {...(count >= WORD_FROM ? { word: 'cancel' } : {})}
      disabled={preview.data === null || count === 0}
      onAct={act}
      onClose={onClose}
    >
      {preview.loading && <Loading what="what would be cancelled" />}
      {preview.error !== null && <Failed error={preview.error} retry={preview.reload} />}
      {preview.data !== null && (
        <>
          <p>
            {count === 0
              ? 'Nothing of it runs any more, so there is nothing to cancel.'
              : 'These end now. Work that a worker has begun may still finish, but its outcome changes nothing.'}
          </p>
          {count > 0 && (
            <ul class="rows boxed">
              {found.map((row) => (
                <li key={row.execution_id}>
                  <span class="break">
                    {row.path} <span class="soft">#{row.execution_id}</span>
                    {row.parent_execution_id !== null && <span class="sub">child of #{row.parent_execution_id}</span>}
                  </span>
                  <StatusBadge status={row.status} />
                </li>
              ))}
            </ul>
          )}
          <label class="field">
            <span class="label">Reason (kept with the execution)</span>
            <input
              value={reason}
              placeholder="User requested cancellation"
              onInput={(event) => setReason(event.currentTarget.value)}
            />
          </label>
        </>
      )}
    </Confirm>
  );
}

/** The chosen ones that run, and every running execution below them. */
async function runningBelow(ids: readonly number[], signal: AbortSignal): Promise<readonly Execution[]> {
  const found = new Map<number, Execution>();
  for (const id of ids) {
    const row = executionSignal(id).peek() ?? (await loadExecution(id, signal));
    if (row.status === 'running') found.set(id, row);
    const family = await get<readonly Execution[]>(
      '/api/executions',
      { root_execution_id: row.root_execution_id, status: 'running', page_size: 200 },
      signal,
    );
    const below = new Set([id]);
    // Children are started after their parents.
    for (const each of [...family].sort((a, b) => a.execution_id - b.execution_id)) {
      if (each.parent_execution_id === null || !below.has(each.parent_execution_id)) continue;
      below.add(each.execution_id);
      found.set(each.execution_id, each);
    }
  }
  return [...found.values()];
}
