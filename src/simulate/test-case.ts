/**
 * A test of a playbook: inputs and scripted outcomes, and what is expected of the run. A try nobody thought of and an
 * outcome nobody needed are findings too: a test that does not say what its tools answer tests something else.
 */
import * as v from 'valibot';
import { runOf } from '../../machines/execution/take-turn.ts';
import type { Json } from '../../machines/json.ts';
import { replayExecution } from '../../machines/replay.ts';
import type { SimulatedDocument } from '../../machines/simulation.ts';
import { json, list, map, maybe, text } from '../wire/fields.ts';
import { simulationFields, toSimulation } from '../wire/simulate.ts';
import { differences } from './differences.ts';
import type { Library } from './simulated-catalog.ts';
import { type Simulation, simulate } from './simulator.ts';

const stepNames = list(text(256, 1), 10_000);
const { workload, ...scriptFields } = simulationFields;

export const testCase = v.strictObject({
  name: text(256, 1),
  inputs: workload,
  ...scriptFields,
  expect: v.strictObject({
    status: maybe(v.picklist(['completed', 'failed', 'cancelled', 'LIMIT'], 'must be completed, failed or cancelled')),
    result: v.optional(json),
    /** A part of the error's sentence. */
    error: maybe(text(65_536)),
    /** Values of steps at the end. */
    steps: maybe(map),
    /** Values of variables at the end. */
    ctx: maybe(map),
    ran: maybe(stepNames),
    notRan: maybe(stepNames),
    /** These were entered in this order; others may lie between. */
    order: maybe(stepNames),
    /** How many tries were made of a step. */
    tries: maybe(v.record(v.string(), v.pipe(v.number('must be a number'), v.integer('must be a whole number')))),
    /** Milliseconds of virtual time. */
    virtual_ms: maybe(v.number('must be a number')),
  }),
});
export type TestCase = v.InferOutput<typeof testCase>;

export interface CaseResult {
  readonly name: string;
  /** Empty: it is as expected. */
  readonly failures: readonly string[];
  readonly simulation: Simulation;
}

export async function runCase(test: TestCase, document: SimulatedDocument, library: Library): Promise<CaseResult> {
  const request = toSimulation(document, { ...test, workload: test.inputs });
  const simulation = await simulate(request, library);
  const failures = [...(await expectationFailures(test.expect, simulation)), ...scriptFailures(test, simulation)];
  return { name: test.name, failures, simulation };
}

async function expectationFailures(expected: TestCase['expect'], simulation: Simulation): Promise<readonly string[]> {
  const { row, status } = simulation;
  const failures: string[] = [];
  const entered = simulation.events.filter(({ type }) => type === 'step.enter').map(({ nodeName }) => nodeName);
  if (expected.status != null && expected.status !== status) {
    failures.push(`status: expected ${expected.status}, got ${status}${row.error === null ? '' : ` (${row.error})`}`);
  }
  if (expected.error != null && !(row.error ?? '').includes(expected.error)) {
    failures.push(`error: expected a sentence with "${expected.error}", got ${JSON.stringify(row.error)}`);
  }
  if (expected.result !== undefined)
    failures.push(...differences(expected.result, await resultOf(simulation), 'result'));
  if (expected.steps != null) failures.push(...(await valueFailures(expected.steps, simulation)));
  if (expected.ctx != null) {
    const variables = await variablesOf(simulation);
    for (const [name, value] of Object.entries(expected.ctx)) {
      failures.push(...differences(value, variables.get(name), `ctx.${name}`));
    }
  }
  for (const step of expected.ran ?? []) if (!entered.includes(step)) failures.push(`ran: ${step} did not run`);
  for (const step of expected.notRan ?? []) if (entered.includes(step)) failures.push(`notRan: ${step} ran`);
  failures.push(...orderFailures(expected.order ?? [], entered));
  for (const [step, count] of Object.entries(expected.tries ?? {})) {
    const made = simulation.tries.filter((each) => each.step === step && each.executionId === row.executionId).length;
    if (made !== count) failures.push(`tries.${step}: expected ${count}, got ${made}`);
  }
  if (expected.virtual_ms != null && expected.virtual_ms !== simulation.virtualMs) {
    failures.push(`virtual_ms: expected ${expected.virtual_ms}, got ${simulation.virtualMs}`);
  }
  return failures;
}

function scriptFailures(test: TestCase, { tries, unused }: Simulation): readonly string[] {
  const isSaid = test.default_outcome != null;
  const unmatched = isSaid ? [] : tries.filter((each) => each.answeredBy === 'default');
  return [
    ...[...new Set(unmatched.map(({ step }) => step))].map(
      (step) => `outcomes: nothing is said for step ${step}; say what it answers, or give default_outcome`,
    ),
    ...unused.map((index) => `outcomes[${index}]: no try has used it (step ${test.outcomes?.[index]?.step})`),
  ];
}

/** The first step that does not come where it is expected. */
function orderFailures(expected: readonly string[], entered: readonly string[]): readonly string[] {
  let at = 0;
  for (const step of expected) {
    const found = entered.indexOf(step, at);
    if (found < 0) return [`order: expected ${expected.join(', ')}; got ${entered.join(', ')} (${step} is missing)`];
    at = found + 1;
  }
  return [];
}

async function valueFailures(expected: { readonly [step: string]: Json }, simulation: Simulation) {
  const failures: string[] = [];
  const state = replayExecution(simulation.events);
  const { steps } = runOf(state);
  for (const [name, value] of Object.entries(expected)) {
    const step = steps[name];
    const body = state.materials.body(step?.value ?? null);
    const isThere = step !== undefined && body !== undefined;
    const actual = isThere ? await full(simulation, body.data ?? null, body.reference?.ref ?? null) : undefined;
    failures.push(...differences(value, actual, `steps.${name}`));
  }
  return failures;
}

/** Variables as they were written last; inputs nobody wrote to are as they came. */
async function variablesOf(simulation: Simulation): Promise<ReadonlyMap<string, Json>> {
  const state = replayExecution(simulation.events);
  const found = new Map(Object.entries(simulation.row.workload));
  for (const [name, eventId] of Object.entries(runOf(state).written)) {
    const body = state.materials.body(eventId);
    const ref = body?.references?.[name];
    found.set(name, await full(simulation, body?.values?.[name] ?? null, typeof ref === 'string' ? ref : null));
  }
  return found;
}

function resultOf(simulation: Simulation): Promise<Json> {
  const { row } = simulation;
  return full(simulation, row.status === 'completed' ? row.result : null, row.resultRef);
}

async function full({ store }: Simulation, value: Json, ref: string | null): Promise<Json> {
  return ref === null ? value : ((await store.payload(ref)) ?? value);
}
