/** What happened, on one screen: what failed, why, and with which input; else the result, or what it is waiting for. */
import { get, getWithHeaders, orNull } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { to } from '../core/router.ts';
import { durationText } from '../core/time.ts';
import type { Execution, GraphNode } from '../core/wire.ts';
import { executionGraph } from '../graph/source.ts';
import { When } from '../parts/instant.tsx';
import { JsonView } from '../parts/json.tsx';
import { Card } from '../parts/page.tsx';
import { Loading } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';
import { Progress } from './execution-table.tsx';
import { FailureCard } from './failure-card.tsx';

interface Explanation {
  readonly sentence: string;
  readonly stuck: boolean;
}

export function Summary({ row, events, onAgain }: { row: Execution; events: number; onAgain: (step: string) => void }) {
  const graph = useResource(
    `steps ${row.execution_id}`,
    (signal) => executionGraph(row, signal),
    () => null,
    `${row.status} ${events}`,
  );
  return (
    <div class="stack">
      {row.status === 'running' && <Waiting row={row} events={events} />}
      {row.status === 'failed' && <FailureCard row={row} onAgain={onAgain} />}
      {row.status === 'cancelled' && (
        <Card title="Cancelled">
          <p>{row.error ?? 'Somebody ended it.'}</p>
        </Card>
      )}
      <div class="columns">
        <div class="stack">
          {row.status === 'completed' && (
            <Card title="Result">
              <JsonView value={row.result} label="result" />
            </Card>
          )}
          <Card title="Steps" flush actions={<a href={to.execution(row.execution_id, 'graph')}>Graph</a>}>
            {graph.data === null ? <Loading what="steps" /> : <Steps nodes={graph.data.nodes} id={row.execution_id} />}
          </Card>
        </div>
        <div class="stack">
          <Card title="Input">
            <JsonView value={row.workload} label="input" />
          </Card>
          <Card title="Details">
            <Facts row={row} />
          </Card>
        </div>
      </div>
    </div>
  );
}

function Waiting({ row, events }: { row: Execution; events: number }) {
  const why = useResource(
    `explain ${row.execution_id}`,
    (signal) => orNull(get<Explanation>(`/api/executions/${row.execution_id}/explain`, {}, signal)),
    (data) => (data === null ? null : 5_000),
    events,
  );
  const { running_steps = 0 } = row.progress_detail;
  const plain =
    row.current_step === null
      ? 'It is about to begin.'
      : `At step ${row.current_step}; ${running_steps} ${running_steps === 1 ? 'step runs' : 'steps run'} now.`;
  return (
    <Card title="Running" actions={<Progress row={row} />}>
      <p class={why.data?.stuck === true ? 'warn' : undefined}>{why.data?.sentence ?? plain}</p>
      <p class="row small">
        <a href={to.commands}>Workers and commands</a>
        <a href={to.execution(row.execution_id, 'graph')}>Where it is in the graph</a>
      </p>
    </Card>
  );
}

function Steps({ nodes, id }: { nodes: readonly GraphNode[]; id: number }) {
  return (
    <div class="scroll-x">
      <table class="list">
        <thead>
          <tr>
            <th>Step</th>
            <th>Status</th>
            <th class="number">Duration</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <tr key={node.id}>
              <td class="grow">
                <a href={`${to.execution(id, 'events')}?step=${encodeURIComponent(node.step)}`}>{node.step}</a>{' '}
                <span class="soft small">{node.kinds.join(', ')}</span>
                {node.state?.error != null && <span class="sub">{node.state.error}</span>}
              </td>
              <td>
                {node.state === null ? (
                  <span class="soft nowrap">not reached</span>
                ) : (
                  <StatusBadge status={node.state.status} />
                )}
                {node.state?.iterations != null && <span class="soft small"> {loopText(node.state.iterations)}</span>}
              </td>
              <td class="number">{durationText(node.state?.duration_ms ?? null)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function loopText(loop: {
  readonly total: number | null;
  readonly done: number;
  readonly failed: number;
}): string {
  return `${loop.done}${loop.total === null ? '' : `/${loop.total}`} iterations${loop.failed === 0 ? '' : `, ${loop.failed} failed`}`;
}

/** How many executions this one started; null while it is not known. */
function useChildCount(row: Execution): number | null {
  const count = useResource(
    `child count ${row.execution_id}`,
    async (signal) => {
      const filter = { parent_execution_id: row.execution_id, page_size: 10 };
      const { body, headers } = await getWithHeaders<readonly Execution[]>('/api/executions', filter, signal);
      return Number.parseInt(headers.get('x-total-count') ?? '', 10) || body.length;
    },
    () => (row.status === 'running' ? 5_000 : null),
    row.status,
  );
  return count.data;
}

function Facts({ row }: { row: Execution }) {
  const children = useChildCount(row);
  const labels = Object.entries(row.labels);
  return (
    <dl class="facts">
      <dt>Playbook</dt>
      <dd>
        <a href={to.playbook(row.path)}>{row.path}</a> version {row.version}
      </dd>
      <dt>Started</dt>
      <dd>
        <When at={row.start_time} />
      </dd>
      <dt>Ended</dt>
      <dd>
        <When at={row.end_time} />
      </dd>
      <dt>Steps</dt>
      <dd>
        {row.progress_detail['completed_steps'] ?? 0} completed, {row.progress_detail['failed_steps'] ?? 0} failed,{' '}
        {row.progress_detail['skipped_steps'] ?? 0} skipped
      </dd>
      <dt>Events</dt>
      <dd>
        <a href={to.execution(row.execution_id, 'events')}>{row.last_event_id.toLocaleString('en')}</a>
      </dd>
      <dt>Pool</dt>
      <dd>
        {row.pool}, priority {row.priority}
      </dd>
      {row.parent_execution_id !== null && (
        <>
          <dt>Parent</dt>
          <dd>
            <a href={to.execution(row.parent_execution_id)}>#{row.parent_execution_id}</a>
          </dd>
        </>
      )}
      {children !== null && children > 0 && (
        <>
          <dt>Children</dt>
          <dd>
            <a href={to.execution(row.execution_id, 'children')}>
              {children.toLocaleString('en')} {children === 1 ? 'execution' : 'executions'}
            </a>
          </dd>
        </>
      )}
      {labels.length > 0 && (
        <>
          <dt>Labels</dt>
          <dd>{labels.map(([key, value]) => `${key}=${value}`).join(', ')}</dd>
        </>
      )}
      {row.created_by !== null && (
        <>
          <dt>Started by</dt>
          <dd>{row.created_by}</dd>
        </>
      )}
    </dl>
  );
}
