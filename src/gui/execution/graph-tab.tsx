/** The whole plan with the live state of each step, and what is known of the step that is chosen. */
import { useEffect, useState } from 'preact/hooks';
import { useResource } from '../core/resource.ts';
import { query, setQuery } from '../core/router.ts';
import type { Execution, StepGraph } from '../core/wire.ts';
import { GraphView } from '../graph/graph-view.tsx';
import { executionGraph } from '../graph/source.ts';
import { Failed, Loading } from '../parts/states.tsx';
import { StepCard } from './step-card.tsx';

/** A busy run is not drawn anew for every event. */
const REDRAW_MS = 700;

export function GraphTab({
  row,
  events,
  onAgain,
}: {
  row: Execution;
  events: number;
  onAgain: (step: string) => void;
}) {
  const [turn, setTurn] = useState(events);
  useEffect(() => {
    const timer = setTimeout(() => setTurn(events), REDRAW_MS);
    return () => clearTimeout(timer);
  }, [events]);
  const [held, setHeld] = useState<StepGraph | null>(null);
  const graph = useResource(`graph ${row.execution_id} ${turn} ${row.status}`, (signal) => executionGraph(row, signal));
  useEffect(() => {
    if (graph.data !== null) setHeld(graph.data);
  }, [graph.data]);
  const shown = graph.data ?? held;
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
