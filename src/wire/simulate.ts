/** Simulating a playbook (api 2.2.16): the request as it is sent, and the answer. */
import * as v from 'valibot';
import type { Json } from '../../machines/json.ts';
import { compileCondition } from '../../machines/playbook/template/compiled.ts';
import {
  DEFAULT_LIMITS,
  DEFAULT_OUTCOME,
  DEFAULT_START_TIME,
  type DefaultOutcome,
  type ScriptedError,
  type ScriptedOutcome,
  type SimulatedDocument,
  type SimulationRequest,
} from '../../machines/simulation.ts';
import { diagnostic } from './catalog.ts';
import { event } from './event.ts';
import { decimal, flag, instant, integer, json, list, map, maybe, text } from './fields.ts';
import { stepGraph } from './graph.ts';
import { catalogPath, id, idOut } from './ids.ts';
import { INPUTS_DIFFER, inputFields, inputsAgree, inputsOf } from './inputs.ts';
import { version } from './start.ts';

const CONTENT_MAX = 1_048_576;
const COUNT_MAX = 1_000_000_000;
/** A year of virtual time takes as long as its events; ten are the most anybody may ask for. */
const VIRTUAL_SECONDS_MAX = 315_360_000;

const scriptedError = v.object({
  kind: maybe(text(64, 1)),
  code: maybe(text(128)),
  message: maybe(text(65_536)),
  status_code: maybe(integer(0, 999)),
  retryable: maybe(flag),
});

const answered = {
  result: v.optional(json),
  error: maybe(scriptedError),
  duration_ms: maybe(decimal(0, VIRTUAL_SECONDS_MAX * 1000)),
};

const when = v.pipe(
  v.union([v.boolean(), text(65_536, 1)], 'must be true, false or a condition'),
  v.check(
    (source) => faultOf(source) === null,
    ({ input }) => `must be a condition that can be read: ${faultOf(input)}`,
  ),
);

export const scriptedOutcome = v.strictObject({
  step: text(256, 1),
  path: maybe(catalogPath),
  task: maybe(text(256, 1)),
  kind: maybe(text(64, 1)),
  activation: maybe(integer(1, COUNT_MAX)),
  iteration: maybe(integer(0, COUNT_MAX)),
  try: maybe(integer(1, COUNT_MAX)),
  when: maybe(when),
  ...answered,
  worker_lost: maybe(flag),
  times: maybe(integer(1, COUNT_MAX)),
});

/** Everything but the document; also what a test case and a file of outcomes may say. */
export const simulationFields = {
  workload: maybe(map),
  outcomes: maybe(list(scriptedOutcome, 10_000)),
  default_outcome: maybe(v.union([v.literal('fail'), v.strictObject(answered)], "must be 'fail' or {result, error}")),
  pure_tools: maybe(flag),
  children: maybe(map),
  cancel_at_ms: maybe(decimal(0, VIRTUAL_SECONDS_MAX * 1000)),
  seed: maybe(integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)),
  start_time: maybe(instant),
  limits: maybe(
    v.object({
      max_events: maybe(integer(1, 100_000)),
      max_virtual_seconds: maybe(decimal(0, VIRTUAL_SECONDS_MAX)),
    }),
  ),
};

const options = v.object(simulationFields);
export type SimulationOptions = v.InferOutput<typeof options>;

export const simulateBody = v.pipe(
  v.object({
    content: maybe(text(CONTENT_MAX, 1)),
    path: maybe(catalogPath),
    version: maybe(version),
    catalog_id: maybe(id),
    ...simulationFields,
    ...inputFields,
  }),
  v.check(
    (body) => body.content != null || body.path != null || body.catalog_id != null,
    'needs content, path or catalog_id',
  ),
  v.check((body) => inputsAgree(body), INPUTS_DIFFER),
);

export function toSimulation(document: SimulatedDocument, given: SimulationOptions): SimulationRequest {
  const { limits, default_outcome: fallback } = given;
  return {
    document,
    workload: inputsOf(given) ?? {},
    outcomes: (given.outcomes ?? []).map(toScripted),
    defaultOutcome: fallback === 'fail' ? 'fail' : fallback == null ? DEFAULT_OUTCOME : toOutcome(fallback),
    pureTools: given.pure_tools ?? true,
    children: given.children ?? {},
    cancelAtMs: given.cancel_at_ms ?? null,
    seed: given.seed ?? 1,
    startTime: given.start_time ?? DEFAULT_START_TIME,
    limits: {
      maxEvents: limits?.max_events ?? DEFAULT_LIMITS.maxEvents,
      maxVirtualSeconds: limits?.max_virtual_seconds ?? DEFAULT_LIMITS.maxVirtualSeconds,
    },
  };
}

function toScripted(given: v.InferOutput<typeof scriptedOutcome>): ScriptedOutcome {
  return {
    step: given.step,
    path: given.path ?? null,
    task: given.task ?? null,
    kind: given.kind ?? null,
    activation: given.activation ?? null,
    iteration: given.iteration ?? null,
    try: given.try ?? null,
    when: given.when ?? null,
    workerLost: given.worker_lost ?? false,
    times: given.times ?? null,
    ...toOutcome(given),
  };
}

interface Answered {
  readonly result?: Json | undefined;
  readonly error?: v.InferOutput<typeof scriptedError> | null | undefined;
  readonly duration_ms?: number | null | undefined;
}

/** A failed try has data only where the script says so. */
function toOutcome({ result, error, duration_ms: durationMs }: Answered): DefaultOutcome {
  return {
    result: result ?? (error == null && result === undefined ? DEFAULT_OUTCOME.result : null),
    error: error == null ? null : toError(error),
    durationMs: durationMs ?? 0,
  };
}

function toError(given: v.InferOutput<typeof scriptedError>): ScriptedError {
  return {
    kind: given.kind ?? 'tool_error',
    code: given.code ?? 'SCRIPTED',
    message: given.message ?? 'a scripted failure',
    statusCode: given.status_code ?? null,
    retryable: given.retryable ?? null,
  };
}

const tried = {
  step: v.string(),
  task: v.nullable(v.string()),
  activation: v.number(),
  iteration: v.nullable(v.number()),
  try: v.number(),
  /** Only for tries of children: the playbook they belong to. */
  path: v.optional(v.string()),
};

export const simulated = v.object({
  status: v.picklist(['running', 'completed', 'failed', 'cancelled', 'LIMIT']),
  result: json,
  error: v.nullable(v.string()),
  virtual_ms: v.number(),
  wall_ms: v.number(),
  events: v.array(event),
  tries: v.array(v.object({ ...tried, rendered: map, outcome: v.nullable(v.number()), at_ms: v.number() })),
  unmatched: v.array(v.object(tried)),
  unused_outcomes: v.array(v.number()),
  diagnostics: v.array(diagnostic),
  graph: stepGraph,
  /** Executions that were started by it. */
  children: v.array(
    v.object({
      execution_id: idOut,
      path: v.string(),
      status: v.string(),
      result: json,
      error: v.nullable(v.string()),
      parent_execution_id: v.nullable(idOut),
      events: v.array(event),
    }),
  ),
});
export type Simulated = v.InferOutput<typeof simulated>;

/** Why it cannot be read; null where it can. */
function faultOf(source: string | boolean): string | null {
  try {
    compileCondition(source);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : 'it cannot be read';
  }
}
