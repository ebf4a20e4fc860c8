/** One step of a run beside the graph: how it stands, what it was given, what came of it, and its iterations. */
import { useResource } from '../core/resource.ts';
import { setQuery, to } from '../core/router.ts';
import { durationText } from '../core/time.ts';
import type { Execution, GraphNode, StepGraph } from '../core/wire.ts';
import { Icon } from '../parts/icons.tsx';
import { When } from '../parts/instant.tsx';
import { JsonView } from '../parts/json.tsx';
import { Card } from '../parts/page.tsx';
import { Loading, Problem } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';
import { ITERATIONS_SHOWN, iterationsOf, stepData } from './step-data.ts';
import { loopText } from './summary.tsx';

interface StepCardProps {
  readonly node: GraphNode;
  readonly row: Execution;
  readonly graph: StepGraph;
  readonly onAgain: (step: string) => void;
}

export function StepCard({ node, row, graph, onAgain }: StepCardProps) {
  const { state } = node;
  const id = row.execution_id;
  const entered = (state?.activations ?? 0) > 0;
  return (
    <Card
      title={node.step}
      reveal={node.step}
      actions={
        <button type="button" class="button quiet tiny" aria-label="Close" onClick={() => setQuery({ step: null })}>
          <Icon name="cross" size={14} />
        </button>
      }
    >
      <div class="stack">
        {state?.error != null && <p class="problem">{state.error}</p>}
        <StepFacts node={node} graph={graph} />
        {entered && state !== null && (
          <Data id={id} step={node.step} turn={`${state.status} ${state.activations} ${state.iterations?.done ?? 0}`} />
        )}
        {entered && node.loop !== null && <Iterations id={id} step={node.step} done={state?.iterations?.done ?? 0} />}
        <p class="row">
          <a class="button tiny" href={`${to.execution(id, 'events')}?step=${encodeURIComponent(node.step)}`}>
            Events of this step
          </a>
          {entered && (
            <button type="button" class="button tiny" onClick={() => onAgain(node.step)}>
              <Icon name="again" size={12} /> Run again from here…
            </button>
          )}
        </p>
      </div>
    </Card>
  );
}

function StepFacts({ node, graph }: { node: GraphNode; graph: StepGraph }) {
  const { state } = node;
  const next = graph.edges.filter((each) => each.from === node.id);
  return (
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
  );
}

function Data({ id, step, turn }: { id: number; step: string; turn: string }) {
  const data = useResource(
    `step ${id} ${step}`,
    (signal) => stepData(id, step, signal),
    () => null,
    turn,
  );
  if (data.data === null)
    return data.error === null ? <Loading what="what the step was given" /> : <Problem error={data.error} />;
  const { input, output } = data.data;
  return (
    <>
      {output !== undefined && (
        <div class="field step-data">
          <span class="label">Output</span>
          <JsonView value={output} label={`output of ${step}`} />
        </div>
      )}
      {input !== null && (
        <details>
          <summary>Input</summary>
          <JsonView value={input} label={`input of ${step}`} />
        </details>
      )}
    </>
  );
}

/** A loop is one node of the graph; its iterations are told here. */
function Iterations({ id, step, done }: { id: number; step: string; done: number }) {
  const iterations = useResource(
    `iterations ${id} ${step}`,
    (signal) => iterationsOf(id, step, signal),
    () => null,
    done,
  );
  if (iterations.data === null || iterations.data.length === 0) return null;
  const shown = iterations.data.slice(0, ITERATIONS_SHOWN);
  return (
    <div class="field">
      <span class="label">Iterations, failed ones first</span>
      <ul class="rows boxed" aria-label={`Iterations of ${step}`}>
        {shown.map((each) => (
          <li key={each.eventId}>
            <span>
              <a href={`${to.execution(id, 'events')}?event=${each.eventId}`}>Iteration {each.index + 1}</a>
              <span class="sub" title={each.error ?? undefined}>
                {each.error ?? each.worker ?? ''}
              </span>
            </span>
            <span class="row nowrap small">
              {durationText(each.durationMs)} <StatusBadge status={each.status} />
            </span>
          </li>
        ))}
      </ul>
      {done > shown.length && <span class="hint">The latest {shown.length} are shown.</span>}
    </div>
  );
}
