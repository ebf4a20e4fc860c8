/**
 * What a new run takes over from an old one (api 2.3.10): the inputs, and for a run that begins at a step the values of
 * what was completed before it. Variables written by those steps come along, because they are part of what the steps did.
 */
import type { EventDraft, EventResult, LogEvent } from '../machines/events.ts';
import type { Plan } from '../machines/execution/plan.ts';
import type { Run } from '../machines/execution/run.ts';
import { isMap, type Json, type JsonMap } from '../machines/json.ts';
import { DomainError } from './errors.ts';
import type { Store } from './ports.ts';

/** The inputs an execution was started with, without the defaults of its playbook. */
export async function inputsOf(executionId: number, store: Pick<Store, 'events'>): Promise<JsonMap> {
  const [started] = await store.events(executionId, [1]);
  const args = started?.context['args'];
  return isMap(args) ? args : {};
}

/**
 * Rows for the new log. `plan` is that of the new run, `run` the state of the old one. Throws validation_error when the
 * step is unknown, or was never entered.
 */
export async function copiesFor(
  executionId: number,
  fromStep: string,
  plan: Plan,
  run: Run,
  store: Pick<Store, 'events'>,
  variableRows: (through: number) => Promise<readonly LogEvent[]>,
): Promise<readonly EventDraft[]> {
  if (!plan.steps.has(fromStep)) throw refusal(`the playbook has no step '${fromStep}'`);
  const entered = run.steps[fromStep]?.entered ?? 0;
  if (entered === 0) throw refusal(`step '${fromStep}' was never entered in execution ${executionId}`);
  const after = plan.graph.after(fromStep);
  const copied = new Map<string, number>();
  for (const name of plan.steps.keys()) {
    const step = run.steps[name];
    if (step === undefined || step.status !== 'completed' || step.value === null) continue;
    if (name === fromStep || after.has(name) || step.value >= entered) continue;
    copied.set(name, step.value);
  }
  const values = await store.events(
    executionId,
    [...copied.values()].sort((a, b) => a - b),
  );
  const rows = new Map(values.map((event) => [event.eventId, event]));
  const steps = [...copied]
    .sort(([, a], [, b]) => a - b)
    .map(([name, eventId]) => copyOfStep(executionId, name, rows.get(eventId)));
  const variables = await copyOfVariables(
    executionId,
    fromStep,
    new Set(copied.keys()),
    store,
    await variableRows(entered),
  );
  return variables === null ? steps : [...steps, variables];
}

function copyOfStep(executionId: number, name: string, event: LogEvent | undefined): EventDraft {
  // A command that was closed without a word has the value null.
  const result: EventResult = event?.result ?? { status: 'completed', context: { data: null } };
  return {
    type: 'step.exit',
    status: 'completed',
    nodeName: name,
    nodeType: 'step',
    context: { status: 'completed' },
    result,
    meta: { copied_from: { execution_id: executionId, event_id: event?.eventId ?? null } },
  };
}

/** One row with the last value each variable had from a copied step. */
async function copyOfVariables(
  executionId: number,
  fromStep: string,
  copied: ReadonlySet<string>,
  store: Pick<Store, 'events'>,
  rows: readonly LogEvent[],
): Promise<EventDraft | null> {
  const last = new Map<string, number>();
  for (const row of rows) {
    const values = row.context['values'];
    // An earlier rerun has brought variables along in one row of its own.
    const isOurs = copied.has(row.nodeName) || row.meta['copied_from'] !== undefined;
    if (isOurs && isMap(values)) for (const name of Object.keys(values)) last.set(name, row.eventId);
  }
  if (last.size === 0) return null;
  const events = await store.events(
    executionId,
    [...new Set(last.values())].sort((a, b) => a - b),
  );
  const byNumber = new Map(events.map((event) => [event.eventId, event.context]));
  const values: [string, Json][] = [];
  const references: [string, Json][] = [];
  for (const [name, eventId] of last) {
    const context = byNumber.get(eventId) ?? {};
    values.push([name, memberOf(context['values'], name) ?? null]);
    const reference = memberOf(context['references'], name);
    if (reference !== undefined) references.push([name, reference]);
  }
  return {
    type: 'ctx.updated',
    status: 'completed',
    nodeName: fromStep,
    nodeType: 'step',
    context: {
      step: fromStep,
      source: 'rerun',
      values: Object.fromEntries(values),
      ...(references.length === 0 ? {} : { references: Object.fromEntries(references) }),
    },
    meta: { copied_from: { execution_id: executionId } },
  };
}

function memberOf(map: Json | undefined, name: string): Json | undefined {
  return isMap(map) && Object.hasOwn(map, name) ? map[name] : undefined;
}

function refusal(sentence: string): DomainError {
  return new DomainError('validation_error', `body.from_step: ${sentence}`, {
    errors: [`body.from_step: ${sentence}`],
  });
}
