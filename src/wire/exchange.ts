/**
 * The worker exchange (api 2.5.1): report finished work and take the next commands in one call. A malformed report is
 * answered with `invalid` in its place and never stops its neighbours, so reports are parsed one by one.
 */
import * as v from 'valibot';
import type {
  ExchangeReceipt,
  ExchangeRequest,
  Report,
  ReportedOutcome,
  ReportReceipt,
} from '../../actors/services.ts';
import { isMap } from '../../machines/json.ts';
import { stopOrder, stopOrderToWire } from './claim.ts';
import { command, commandToWire } from './command.ts';
import { eventItem, toEventInput } from './event-input.ts';
import { decimal, instant, integer, json, list, map, maybe, text, word } from './fields.ts';
import { id, idOut, name, parseId } from './ids.ts';
import { problemsOf } from './sentences.ts';
import { holds, toHolds } from './worker.ts';

/** No instant that is computed with it leaves the calendar. */
const SECONDS_MAX = 10_000_000_000;

const reference = v.object({
  ref: text(1024, 1),
  store: text(64, 1),
  bytes: integer(0, Number.MAX_SAFE_INTEGER),
  sha256: text(64),
});

export const report = v.pipe(
  v.object({
    report_id: text(64, 1),
    command_id: id,
    attempt: integer(0, Number.MAX_SAFE_INTEGER),
    execution_id: maybe(id),
    outcome: maybe(v.picklist(['ok', 'error', 'cancelled', 'parked'], 'must be one of ok, error, cancelled, parked')),
    started_at: maybe(instant),
    duration_ms: maybe(decimal(0, Number.MAX_SAFE_INTEGER)),
    /** Null is a value here: a tool may answer null. */
    data: v.optional(json),
    reference: maybe(reference),
    summary: maybe(map),
    error: maybe(map),
    child_execution_id: maybe(id),
    /** The command waits for its next try; `state` comes back with the command (language 7.7). */
    resume: maybe(
      v.object({
        after_seconds: decimal(0, SECONDS_MAX),
        timeout_seconds: decimal(0, SECONDS_MAX),
        state: json,
      }),
    ),
    ctx: maybe(map),
    tasks: maybe(map),
    failed_task: maybe(text(256)),
    warnings: maybe(list(text(4096), 256)),
    log: maybe(map),
    events: maybe(list(eventItem, 64)),
  }),
  v.check((given) => (given.outcome == null) !== (given.events == null), 'needs either outcome or events'),
  v.check((given) => given.outcome !== 'error' || given.error != null, 'needs error when the outcome is error'),
  v.check(
    (given) => given.outcome !== 'parked' || (given.child_execution_id == null) !== (given.resume == null),
    'needs either child_execution_id or resume when parked',
  ),
);
export type ReportBody = v.InferInput<typeof report>;

const claim = v.object({
  claim_id: text(64, 1),
  max: maybe(integer(1, 256)),
  wait_ms: maybe(integer(0, 60_000)),
  pools: maybe(list(name, 64)),
  tool_kinds: maybe(list(text(64, 1), 64)),
});

/** The envelope; `reports` are looked at one by one by `toExchangeRequest`. */
export const exchangeBody = v.object({
  worker_id: name,
  instance: maybe(text(64, 1)),
  status: maybe(word('ready', 'draining')),
  holding: maybe(holds),
  reports: maybe(list(json, 256)),
  claim: maybe(claim),
});

/** What a worker sends. */
export type ExchangeBody = Omit<v.InferInput<typeof exchangeBody>, 'reports'> & {
  readonly reports?: readonly ReportBody[] | null;
};

const reportAnswer = v.object({
  report_id: v.nullable(v.string()),
  command_id: v.nullable(idOut),
  attempt: v.nullable(v.number()),
  result: v.picklist(['accepted', 'duplicate', 'stale', 'late', 'unknown', 'invalid', 'deferred']),
  event_ids: v.array(v.number()),
  commands_generated: v.number(),
  execution_status: v.nullable(v.string()),
  error: v.nullable(v.string()),
});
export type ReportAnswer = v.InferOutput<typeof reportAnswer>;

export const exchangeAnswer = v.object({
  status: v.literal('ok'),
  server_time: v.string(),
  reports: v.array(reportAnswer),
  commands: v.array(command),
  stop: v.array(stopOrder),
  queue: v.object({ pending: v.number() }),
});
export type ExchangeAnswer = v.InferOutput<typeof exchangeAnswer>;

export interface ParsedExchange {
  readonly request: ExchangeRequest;
  /** Answers for malformed reports by their place in the list; empty in the ordinary case. */
  readonly invalid: ReadonlyMap<number, ReportAnswer>;
}

/** `signal` ends the wait of `claim`. A call with reports never waits (rule 4). */
export function toExchangeRequest(body: v.InferOutput<typeof exchangeBody>, signal: AbortSignal): ParsedExchange {
  const given = body.reports ?? [];
  const reports: Report[] = [];
  const invalid = new Map<number, ReportAnswer>();
  for (let index = 0; index < given.length; index++) {
    const parsed = v.safeParse(report, given[index]);
    if (parsed.success) reports.push(toReport(parsed.output));
    else invalid.set(index, refusedReport(given[index], parsed.issues, index));
  }
  const status = body.status ?? 'ready';
  const asked = body.claim ?? null;
  return {
    invalid,
    request: {
      workerId: body.worker_id,
      instance: body.instance ?? null,
      status,
      holding: toHolds(body.holding),
      reports,
      claim:
        asked === null || status === 'draining'
          ? null
          : {
              workerId: body.worker_id,
              max: asked.max ?? 1,
              waitMs: given.length > 0 ? 0 : (asked.wait_ms ?? 0),
              pools: asked.pools ?? null,
              toolKinds: asked.tool_kinds ?? null,
              claimId: asked.claim_id,
              signal,
            },
    },
  };
}

export function exchangeToWire(
  receipt: ExchangeReceipt,
  invalid: ReadonlyMap<number, ReportAnswer>,
  serverTime: string,
): ExchangeAnswer {
  return {
    status: 'ok',
    server_time: serverTime,
    reports: inOrder(receipt.reports.map(reportToWire), invalid),
    commands: receipt.commands.map((granted) => commandToWire(granted, serverTime)),
    stop: receipt.stop.map(stopOrderToWire),
    queue: { pending: receipt.pending },
  };
}

function toReport(body: v.InferOutput<typeof report>): Report {
  return {
    reportId: body.report_id,
    commandId: body.command_id,
    attempt: body.attempt,
    executionId: body.execution_id ?? null,
    outcome: body.outcome == null ? null : toOutcome(body, body.outcome),
    events: body.events?.map((event) => toEventInput(event)) ?? null,
  };
}

function toOutcome(body: v.InferOutput<typeof report>, outcome: ReportedOutcome['outcome']): ReportedOutcome {
  return {
    outcome,
    startedAt: body.started_at ?? null,
    durationMs: body.duration_ms ?? null,
    ...(body.data === undefined ? {} : { data: body.data }),
    ...(body.reference == null ? {} : { reference: body.reference }),
    ...(body.summary == null ? {} : { summary: body.summary }),
    ...(body.error == null ? {} : { error: body.error }),
    ...(body.child_execution_id == null ? {} : { childExecutionId: body.child_execution_id }),
    ...(body.resume == null || outcome !== 'parked'
      ? {}
      : {
          resume: {
            afterSeconds: body.resume.after_seconds,
            timeoutSeconds: body.resume.timeout_seconds,
            state: body.resume.state,
          },
        }),
    ctx: body.ctx ?? {},
    tasks: body.tasks ?? {},
    failedTask: body.failed_task ?? null,
    warnings: body.warnings ?? [],
    log: body.log ?? null,
  };
}

function reportToWire(receipt: ReportReceipt): ReportAnswer {
  return {
    report_id: receipt.reportId,
    command_id: receipt.commandId,
    attempt: receipt.attempt,
    result: receipt.result,
    event_ids: [...receipt.eventIds],
    commands_generated: receipt.commandsGenerated,
    execution_status: receipt.executionStatus,
    error: receipt.error,
  };
}

function refusedReport(given: unknown, issues: Parameters<typeof problemsOf>[0], index: number): ReportAnswer {
  const fields = isMap(given) ? given : {};
  return {
    report_id: typeof fields['report_id'] === 'string' ? fields['report_id'] : null,
    command_id: parseId(fields['command_id']),
    attempt: Number.isSafeInteger(fields['attempt']) ? Number(fields['attempt']) : null,
    result: 'invalid',
    event_ids: [],
    commands_generated: 0,
    execution_status: null,
    error: problemsOf(issues, `body.reports[${index}]`)
      .map((problem) => problem.sentence)
      .join('; '),
  };
}

/** Answers of the service for the reports it got, with those for malformed ones put back in their places. */
function inOrder(answers: ReportAnswer[], invalid: ReadonlyMap<number, ReportAnswer>): ReportAnswer[] {
  if (invalid.size === 0) return answers;
  const all: ReportAnswer[] = [];
  let next = 0;
  for (let index = 0; index < answers.length + invalid.size; index++) {
    const answer = invalid.get(index) ?? answers[next++];
    if (answer !== undefined) all.push(answer);
  }
  return all;
}
