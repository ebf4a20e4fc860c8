/** Rows as the engine would write them, with defaults that are legal; a test names only what it is about. */
import type {
  CommandChange,
  CommandRow,
  EventRow,
  ExecutionRow,
  Flush,
  HeadChange,
  ResultRow,
} from '../../actors/ports.ts';

export const START = '2026-11-20T10:15:00.000Z';

export function execution(executionId: number, catalogId: number, more: Partial<ExecutionRow> = {}): ExecutionRow {
  return {
    executionId,
    rootExecutionId: executionId,
    parentExecutionId: null,
    parentCommandId: null,
    parentEventId: null,
    rerunOf: null,
    catalogId,
    path: 'suite/flow',
    version: 1,
    kind: 'playbook',
    pool: 'shared',
    priority: 0,
    status: 'running',
    workload: { who: 'world' },
    result: null,
    resultRef: null,
    error: null,
    errorDetail: null,
    progressDetail: null,
    currentStep: null,
    progress: 0,
    lastEventId: 1,
    handledThrough: 1,
    lastEventType: 'execution.started',
    lastNodeName: 'suite/flow',
    engineVersion: 1,
    machineVersion: 1,
    openCommands: 0,
    nextWakeAt: null,
    startTime: START,
    endTime: null,
    idempotencyKey: null,
    requestHash: null,
    labels: {},
    trace: null,
    createdBy: null,
    ...more,
  };
}

export function event(executionId: number, catalogId: number, eventId: number, more: Partial<EventRow> = {}): EventRow {
  return {
    executionId,
    catalogId,
    eventId,
    causeId: eventId,
    type: eventId === 1 ? 'execution.started' : 'step.enter',
    status: 'started',
    nodeId: 'suite/flow',
    nodeName: 'suite/flow',
    nodeType: 'execution',
    parentEventId: null,
    parentExecutionId: null,
    commandId: null,
    attempt: null,
    workerId: null,
    reportId: null,
    reportSeq: null,
    closes: false,
    stale: false,
    duration: null,
    context: {},
    result: null,
    error: null,
    meta: {},
    engineVersion: null,
    at: START,
    ...more,
  };
}

export function command(
  executionId: number,
  catalogId: number,
  commandId: number,
  more: Partial<CommandRow> = {},
): CommandRow {
  return {
    executionId,
    commandId,
    eventId: commandId,
    catalogId,
    commandKey: `step${commandId}@1`,
    stepName: `step${commandId}`,
    toolKind: 'http',
    pool: 'shared',
    activation: 1,
    iterationIndex: null,
    status: 'PENDING',
    attempt: 0,
    maxAttempts: 5,
    priority: 0,
    workerId: null,
    claimId: null,
    claimedAt: null,
    startedAt: null,
    heartbeatAt: null,
    completedAt: null,
    parkedOn: null,
    nextWakeAt: '2099-01-01T00:00:00.000Z',
    republishedAt: null,
    republishCount: 0,
    context: { render_context: {} },
    contextRef: null,
    error: null,
    latestEventId: 1,
    meta: {},
    createdAt: START,
    ...more,
  };
}

/** Columns of a command that somebody holds. */
export const held = (workerId: string, more: Partial<CommandRow> = {}): Partial<CommandRow> => ({
  status: 'CLAIMED',
  attempt: 1,
  workerId,
  claimId: 'claim-1',
  claimedAt: START,
  ...more,
});

export function change(row: CommandRow, more: Partial<CommandChange>): CommandChange {
  const { executionId, commandId, status, attempt, maxAttempts, workerId, claimId, claimedAt } = row;
  const { startedAt, completedAt, parkedOn, nextWakeAt, error, latestEventId } = row;
  return {
    ...{ executionId, commandId, status, attempt, maxAttempts, workerId, claimId, claimedAt },
    ...{ startedAt, completedAt, parkedOn, nextWakeAt, error, latestEventId },
    ...more,
  };
}

export function head(executionId: number, from: number, to: number, more: Partial<HeadChange> = {}): HeadChange {
  return {
    executionId,
    expectedLastEventId: from,
    expectedHandledThrough: from,
    lastEventId: to,
    handledThrough: to,
    lastEventType: 'step.enter',
    lastNodeName: 'fetch',
    currentStep: 'fetch',
    progress: 10,
    openCommands: 0,
    nextWakeAt: null,
    late: false,
    end: null,
    snapshot: null,
    ...more,
  };
}

export function result(executionId: number, resultId: number, data: unknown, more: Partial<ResultRow> = {}): ResultRow {
  const text = JSON.stringify(data);
  return {
    executionId,
    resultId,
    ref: `callboard://execution/${executionId}/result/fetch/${resultId}`,
    name: 'fetch',
    commandId: null,
    scope: 'execution',
    store: 'db',
    data: text,
    bytes: Buffer.byteLength(text),
    sha256: `sha-${text.length}`,
    mediaType: 'application/json',
    summary: null,
    expiresAt: null,
    ...more,
  };
}

export const NO_BATCHES: Flush['batches'] = { accepted: [], moved: [], jobs: [] };

/** A flush of these rows; the locks follow from them. */
export function flush(rows: Partial<Omit<Flush, 'locks'>>): Flush {
  const full = {
    started: [],
    events: [],
    issued: [],
    commands: [],
    heads: [],
    results: [],
    batches: NO_BATCHES,
    ...rows,
  };
  const ids = new Set<number>();
  for (const list of [full.started, full.events, full.issued, full.commands, full.heads, full.results]) {
    for (const row of list) ids.add(row.executionId);
  }
  return { ...full, locks: [...ids].sort((a, b) => a - b) };
}
