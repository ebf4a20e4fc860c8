/** A dry run of the text in the editor: what would happen, without anything being stored or sent. */
import { useState } from 'preact/hooks';
import { post } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { durationText } from '../core/time.ts';
import type { Json, LogEvent, StepGraph } from '../core/wire.ts';
import { GraphView } from '../graph/graph-view.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { JsonView } from '../parts/json.tsx';
import { Failed, Loading } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';

interface Simulated {
  readonly status: string;
  readonly result: Json;
  readonly error: string | null;
  readonly virtual_ms: number;
  readonly events: readonly LogEvent[];
  readonly graph: Pick<StepGraph, 'nodes' | 'edges'> | null;
}

export function Simulation({ content, onClose }: { content: string; onClose: () => void }) {
  const [step, setStep] = useState<string | null>(null);
  const run = useResource('simulation', (signal) =>
    post<Simulated>('/api/catalog/playbooks/simulate', { content }, signal),
  );
  const { data } = run;
  return (
    <Dialog title="Simulation" onClose={onClose}>
      {run.error !== null && <Failed error={run.error} retry={run.reload} />}
      {run.loading && <Loading what="the simulation" />}
      {data !== null && (
        <>
          <p class="row">
            <StatusBadge status={data.status} /> after {durationText(data.virtual_ms)} of simulated time and{' '}
            {data.events.length} events
          </p>
          <p class="soft small">Tools were not called: each step got an empty result. Nothing was stored.</p>
          {data.error !== null && <p class="problem">{data.error}</p>}
          {data.graph !== null && data.graph.nodes.length > 0 && (
            <GraphView
              graph={{ path: '', version: null, entry: data.graph.nodes[0]?.id ?? null, ...data.graph }}
              chosen={step}
              onChoose={setStep}
              label="What would run"
            />
          )}
          <JsonView value={data.result} label="result" />
        </>
      )}
      <div class="actions">
        <button type="button" class="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
