/**
 * A dry run of the text in the editor: what would happen, without anything being stored or sent. What the tools answer
 * is scripted in the form; tries that nothing was scripted for are listed, each with a button that scripts it.
 */
import { useState } from 'preact/hooks';
import { post } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { durationText } from '../core/time.ts';
import type { Json, LogEvent, StepGraph } from '../core/wire.ts';
import { GraphView } from '../graph/graph-view.tsx';
import { withoutUnreached } from '../graph/source.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { JsonView } from '../parts/json.tsx';
import { Failed, Loading, Problem } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';
import { OutcomeRow } from './outcome-row.tsx';
import { byStep, newDraft, type Script, simulationRequest, type Tried } from './outcomes.ts';

interface Simulated {
  readonly status: string;
  readonly result: Json;
  readonly error: string | null;
  readonly virtual_ms: number;
  readonly events: readonly LogEvent[];
  readonly unmatched: readonly Tried[];
  /** Places in the list of outcomes. */
  readonly unused_outcomes: readonly number[];
  readonly graph: Pick<StepGraph, 'nodes' | 'edges'> | null;
}

const NOTHING: Script = { workload: '', drafts: [], strict: false };

export function Simulation({
  content,
  steps,
  onClose,
}: {
  content: string;
  steps: readonly string[];
  onClose: () => void;
}) {
  const [script, setScript] = useState(NOTHING);
  const [asked, setAsked] = useState<{ readonly turn: number; readonly body: Json }>({
    turn: 0,
    body: simulationRequest(content, NOTHING),
  });
  const [problem, setProblem] = useState<Error | null>(null);
  const run = useResource(`simulation ${asked.turn}`, (signal) =>
    post<Simulated>('/api/catalog/playbooks/simulate', asked.body, signal),
  );
  const simulate = (next: Script): void => {
    setScript(next);
    try {
      setAsked({ turn: asked.turn + 1, body: simulationRequest(content, next) });
      setProblem(null);
    } catch (caught) {
      setProblem(caught instanceof Error ? caught : new Error(String(caught)));
    }
  };
  const add = (step: string): void =>
    setScript({ ...script, drafts: [...script.drafts, newDraft((script.drafts.at(-1)?.id ?? 0) + 1, step)] });
  return (
    <Dialog title="Simulation" wide onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          simulate(script);
        }}
      >
        <p class="soft">No tool is called and nothing is stored. Time jumps to the next moment somebody waits for.</p>
        <ScriptFields script={script} steps={steps} onScript={setScript} onAdd={add} />
        <Problem error={problem} />
        {run.error !== null && <Failed error={run.error} retry={run.reload} />}
        {run.loading && <Loading what="the simulation" />}
        {run.data !== null && <Outcome data={run.data} steps={steps} onScript={add} />}
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            Close
          </button>
          <button type="submit" class="button primary">
            <Icon name="play" size={14} /> Simulate again
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function ScriptFields({
  script,
  steps,
  onScript,
  onAdd,
}: {
  script: Script;
  steps: readonly string[];
  onScript: (script: Script) => void;
  onAdd: (step: string) => void;
}) {
  const { drafts } = script;
  return (
    <>
      <details>
        <summary>Inputs</summary>
        <textarea
          rows={4}
          aria-label="Inputs as JSON"
          placeholder='{ "who": "Ada" }'
          spellcheck={false}
          value={script.workload}
          onInput={(event) => onScript({ ...script, workload: event.currentTarget.value })}
        />
      </details>
      <fieldset class="plain stack">
        <legend class="label">What the tools answer</legend>
        {drafts.length === 0 && <p class="soft small">Nothing is scripted: each try yields an empty result.</p>}
        {drafts.map((draft) => (
          <OutcomeRow
            key={draft.id}
            draft={draft}
            steps={steps}
            onDraft={(next) =>
              onScript({ ...script, drafts: drafts.map((each) => (each.id === next.id ? next : each)) })
            }
            onRemove={() => onScript({ ...script, drafts: drafts.filter((each) => each.id !== draft.id) })}
          />
        ))}
        <div class="row">
          <button type="button" class="button tiny" disabled={steps.length === 0} onClick={() => onAdd(steps[0] ?? '')}>
            <Icon name="plus" size={12} /> Script an outcome
          </button>
          <label class="row small">
            <input
              type="checkbox"
              checked={script.strict}
              onChange={(event) => onScript({ ...script, strict: event.currentTarget.checked })}
            />
            A try without an outcome fails
          </label>
        </div>
      </fieldset>
    </>
  );
}

function Outcome({
  data,
  steps,
  onScript,
}: {
  data: Simulated;
  steps: readonly string[];
  onScript: (step: string) => void;
}) {
  const [step, setStep] = useState<string | null>(null);
  const unmatched = byStep(data.unmatched);
  return (
    <section class="stack" aria-label="Outcome of the simulation" aria-live="polite">
      <p class="row">
        <StatusBadge status={data.status} /> after {durationText(data.virtual_ms)} of simulated time and{' '}
        {data.events.length} events
      </p>
      {data.error !== null && <p class="problem">{data.error}</p>}
      {unmatched.length > 0 && (
        <div class="notice stack">
          <p>Unmatched: nothing was scripted for these tries.</p>
          <ul class="plain-list">
            {unmatched.map((each) => (
              <li key={each.step} class="row between">
                <span>
                  {each.step} <span class="soft small">{each.count === 1 ? 'once' : `${each.count} times`}</span>
                </span>
                {steps.includes(each.step) && (
                  <button
                    type="button"
                    class="button tiny"
                    aria-label={`Script ${each.step}`}
                    onClick={() => onScript(each.step)}
                  >
                    Script it
                  </button>
                )}
              </li>
            ))}
          </ul>
        </div>
      )}
      {data.unused_outcomes.length > 0 && (
        <p class="warn">
          {data.unused_outcomes.length === 1 ? 'Outcome' : 'Outcomes'}{' '}
          {data.unused_outcomes.map((place) => place + 1).join(', ')} of the list never answered.
        </p>
      )}
      {data.graph !== null && data.graph.nodes.length > 0 && (
        <GraphView
          graph={{ path: '', version: null, entry: data.graph.nodes[0]?.id ?? null, ...withoutUnreached(data.graph) }}
          chosen={step}
          onChoose={setStep}
          label="What would run"
        />
      )}
      <div class="field">
        <span class="label">Result</span>
        <JsonView value={data.result} label="result" />
      </div>
    </section>
  );
}
