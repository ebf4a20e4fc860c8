/** The whole plan with the live state of each step, and what is known of the step that is chosen. */
import { useEffect, useState } from 'preact/hooks';
import { useResource } from '../core/resource.ts';
import { query, setQuery, to } from '../core/router.ts';
import { durationText } from '../core/time.ts';
import type { Execution, GraphNode, StepGraph } from '../core/wire.ts';
import { GraphView } from '../graph/graph-view.tsx';
import { executionGraph } from '../graph/source.ts';
import { Icon } from '../parts/icons.tsx';
import { When } from '../parts/instant.tsx';
import { Card } from '../parts/page.tsx';
import { Failed, Loading } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';
import { loopText } from './summary.tsx';

/** A busy run is not drawn anew for every event. */
const REDRAW_MS = 700;

export function GraphTab({ row, events }: { row: Execution; events: number }) {
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
      {chosen !== null && <StepCard node={chosen} id={row.execution_id} graph={shown} />}
    </div>
  );
}

function StepCard({ node, id, graph }: { node: GraphNode; id: number; graph: StepGraph }) {
  const { state } = node;
  const next = graph.edges.filter((each) => each.from === node.id);
  return (
    <Card
      title={node.step}
      actions={
        <button type="button" class="button quiet tiny" aria-label="Close" onClick={() => setQuery({ step: null })}>
          <Icon name="cross" size={14} />
        </button>
      }
    >
      <div class="stack">
        {state?.error != null && <p class="problem">{state.error}</p>}
        <dl class="facts">
          <dt>Status</dt>
          <dd>{state === null ? 'not reached' : <StatusBadge status={state.status} />}</dd>
          <dt>Tools</dt>
          <dd>{node.kinds.join(', ')}</dd>
          {state?.iterations != null && (
            <>
              <dt>Loop</dt>
              <dd>{loopText(state.iterations)}</dd>
            </>
          )}
          {state !== null && (
            <>
              <dt>Entered</dt>
              <dd>
                {state.activations} {state.activations === 1 ? 'time' : 'times'}, first <When at={state.started_at} />
              </dd>
              <dt>Duration</dt>
              <dd>{durationText(state.duration_ms)}</dd>
            </>
          )}
          <dt>Leads to</dt>
          <dd>
            {next.length === 0
              ? 'nothing: the branch ends here'
              : next.map((edge) => (
                  <span key={edge.id} class="lead-to">
                    <a href={`?step=${encodeURIComponent(edge.to)}`}>{edge.to}</a>
                    {(edge.taken ?? 0) > 0 && ' (taken)'}
                    {edge.when !== null && <code class="small"> when {edge.when}</code>}
                  </span>
                ))}
          </dd>
        </dl>
        <p class="row">
          <a class="button tiny" href={`${to.execution(id, 'events')}?step=${encodeURIComponent(node.step)}`}>
            Events of this step
          </a>
        </p>
      </div>
    </Card>
  );
}
