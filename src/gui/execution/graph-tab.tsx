/** The whole plan with the live state of each step, and what is known of the step that is chosen. */
import { useResource } from '../core/resource.ts';
import { query, setQuery } from '../core/router.ts';
import type { Execution } from '../core/wire.ts';
import { GraphView } from '../graph/graph-view.tsx';
import { executionGraph } from '../graph/source.ts';
import { Failed, Loading } from '../parts/states.tsx';
import { StepCard } from './step-card.tsx';

export function GraphTab({
  row,
  events,
  onAgain,
}: {
  row: Execution;
  events: number;
  onAgain: (step: string) => void;
}) {
  const graph = useResource(
    `graph ${row.execution_id}`,
    (signal) => executionGraph(row, signal),
    () => null,
    `${row.status} ${events}`,
  );
  const shown = graph.data;
  const step = query.value.get('step');
  const chosen = shown?.nodes.find((each) => each.step === step) ?? null;
  if (shown === null)
    return graph.error === null ? <Loading what="the graph" /> : <Failed error={graph.error} retry={graph.reload} />;
  return (
    <div class={chosen === null ? 'stack' : 'columns wide-first'}>
      <GraphView graph={shown} chosen={step} onChoose={(id) => setQuery({ step: id })} />
      {chosen !== null && <StepCard key={chosen.id} node={chosen} row={row} graph={shown} onAgain={onAgain} />}
    </div>
  );
}
