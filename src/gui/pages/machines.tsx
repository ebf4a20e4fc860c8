/** Every chart of the service, to look at, to take away, and to play through with its own events. */
import { useEffect, useState } from 'preact/hooks';
import { chartModel, eventsOf, initialStates, withOuter } from '../chart/chart-model.ts';
import { ChartView } from '../chart/chart-view.tsx';
import { get, orNull, post } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { query, segments, to } from '../core/router.ts';
import type { Json, JsonMap, MachineDetail, MachineItem } from '../core/wire.ts';
import { Download } from '../parts/download.tsx';
import { Icon } from '../parts/icons.tsx';
import { JsonView } from '../parts/json.tsx';
import { Card, PageHead, Tabs } from '../parts/page.tsx';
import { Failed, Loading, NotAvailable, Problem } from '../parts/states.tsx';
import { parseJson } from '../playbook/workload-fields.ts';

interface NextEvent {
  readonly type: string;
  readonly guards: readonly string[];
}

interface Moved {
  readonly snapshot: Json;
  readonly changed: boolean;
  readonly states: readonly string[];
  readonly recorded: readonly Json[];
  readonly next_events: readonly (string | NextEvent)[];
}

interface Step {
  readonly event: string;
  readonly before: readonly string[];
  readonly moved: Moved;
}

export function Machines() {
  const list = useResource('machines', (signal) =>
    orNull(get<{ readonly machines: readonly MachineItem[] }>('/api/machines', {}, signal)),
  );
  const wanted = segments.value[1];
  const name = wanted ?? list.data?.machines[0]?.name ?? null;
  const item = list.data?.machines.find((each) => each.name === name);
  return (
    <>
      <PageHead
        title="Machines"
        lead={item?.description ?? 'The state machines that decide what happens, as they run in production.'}
      />
      {list.error !== null ? (
        <Failed error={list.error} retry={list.reload} />
      ) : list.loading ? (
        <Loading what="machines" />
      ) : list.data === null ? (
        <section class="card">
          <NotAvailable title="Machines are not available">This server does not show its machines.</NotAvailable>
        </section>
      ) : (
        <>
          <Tabs
            label="Machines"
            current={name ?? ''}
            tabs={list.data.machines.map((each) => ({ id: each.name, name: each.name, href: to.machine(each.name) }))}
          />
          {name !== null && <Machine key={name} name={name} />}
        </>
      )}
    </>
  );
}

function Machine({ name }: { name: string }) {
  const detail = useResource(`machine ${name}`, (signal) => get<MachineDetail>(`/api/machines/${name}`, {}, signal));
  if (detail.error !== null) return <Failed error={detail.error} retry={detail.reload} />;
  if (detail.data === null) return <Loading what="the machine" />;
  return <Simulator key={query.value.toString()} machine={detail.data} />;
}

function Simulator({ machine }: { machine: MachineDetail }) {
  const params = query.value;
  const execution = params.get('execution');
  const at = params.get('at');
  const model = chartModel(machine.name, machine.config);
  const [steps, setSteps] = useState<readonly Step[]>([]);
  const [forked, setForked] = useState<{
    readonly states: readonly string[];
    readonly next: readonly NextEvent[];
  } | null>(null);
  const [payload, setPayload] = useState('{}');
  const [error, setError] = useState<Error | null>(null);

  useEffect(() => {
    if (execution === null) return;
    get<{ states: readonly string[]; next_events: readonly NextEvent[] }>(`/api/executions/${execution}/machine`, {
      at,
    }).then(
      (view) => setForked({ states: view.states, next: view.next_events }),
      (caught: unknown) => setError(caught instanceof Error ? caught : new Error(String(caught))),
    );
  }, [execution, at]);

  const last = steps.at(-1);
  const start = forked?.states ?? initialStates(model);
  const active = last?.moved.states ?? start;
  const next: readonly NextEvent[] =
    last === undefined
      ? (forked?.next ?? eventsOf(model, withOuter(active)).map((type) => ({ type, guards: [] })))
      : last.moved.next_events.map((each) => (typeof each === 'string' ? { type: each, guards: [] } : each));

  const send = async (type: string): Promise<void> => {
    setError(null);
    try {
      const more = parseJson('The event', payload);
      const from =
        last !== undefined
          ? { snapshot: last.moved.snapshot }
          : execution === null
            ? {}
            : { execution_id: Number(execution), ...(at === null ? {} : { at: Number(at) }) };
      const event = { ...(isMap(more) ? more : {}), type };
      const moved = await post<Moved>(`/api/machines/${machine.name}/transition`, { ...from, event });
      setSteps([...steps, { event: type, before: active, moved }]);
    } catch (caught) {
      setError(caught instanceof Error ? caught : new Error(String(caught)));
    }
  };
  return (
    <div class="stack">
      <ChartView
        name={machine.name}
        config={machine.config}
        active={active}
        taken={last === undefined ? null : { event: last.event, before: last.before }}
      />
      <div class="columns wide-first">
        <Card
          title="Simulator"
          actions={
            <>
              <button
                type="button"
                class="button tiny"
                disabled={steps.length === 0}
                onClick={() => setSteps(steps.slice(0, -1))}
              >
                Step back
              </button>
              <button type="button" class="button tiny" disabled={steps.length === 0} onClick={() => setSteps([])}>
                <Icon name="again" size={12} /> Reset
              </button>
            </>
          }
        >
          <div class="stack">
            <p class="soft">
              {execution === null
                ? 'A copy of the machine'
                : `A copy of execution ${execution}${at === null ? '' : ` at event ${at}`}`}
              : nothing is stored. Press an event that could happen next.
            </p>
            <Problem error={error} />
            <div class="row">
              {next.length === 0 && <span>Nothing can happen any more: this state is final.</span>}
              {next.map((each) => (
                <button key={each.type} type="button" class="button" onClick={() => void send(each.type)}>
                  {each.type} {each.guards.length > 0 && <span class="soft small">if {each.guards.join(', ')}</span>}
                </button>
              ))}
            </div>
            <details>
              <summary>What the event carries</summary>
              <textarea
                rows={4}
                aria-label="What the event carries, as JSON"
                spellcheck={false}
                value={payload}
                onInput={(event) => setPayload(event.currentTarget.value)}
              />
            </details>
            {steps.length > 0 && (
              <ol class="plain-list">
                {steps.map((each, index) => (
                  <li key={`${index} ${each.event}`}>
                    <code>{each.event}</code> {each.moved.changed ? '→' : 'changed nothing in'}{' '}
                    {each.moved.states.map((state) => state.slice(machine.name.length + 1)).join(' and ')}
                    {each.moved.recorded.length > 0 && (
                      <span class="soft small"> and recorded {each.moved.recorded.length}</span>
                    )}
                  </li>
                ))}
              </ol>
            )}
            {last !== undefined && last.moved.recorded.length > 0 && (
              <JsonView value={last.moved.recorded} label="what it recorded" />
            )}
          </div>
        </Card>
        <Card title="Export">
          <div class="stack">
            <p class="soft">Version {machine.version}. The drawing on this page is made from the first of these.</p>
            <p class="row">
              <Download path={`/api/machines/${machine.name}`} name={`${machine.name}.json`}>
                JSON
              </Download>
              <Download path={`/api/machines/${machine.name}?format=mermaid`} name={`${machine.name}.mmd`}>
                Mermaid
              </Download>
              <Download path={`/api/machines/${machine.name}?format=scxml`} name={`${machine.name}.scxml`}>
                SCXML
              </Download>
            </p>
          </div>
        </Card>
      </div>
    </div>
  );
}

function isMap(value: Json): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
