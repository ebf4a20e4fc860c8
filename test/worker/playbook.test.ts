import { describe, expect, it } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import type { StartAnswer } from '../../src/client/answers.ts';
import type { StartRequest } from '../../src/client/client.ts';
import { ApiError, TransportError } from '../../src/client/errors.ts';
import { executeCommand, type WorkerClient } from '../../src/worker/execute.ts';
import { commandOf, executeDeps, never } from './commands.ts';

const started = (more: Partial<StartAnswer> = {}): StartAnswer => ({
  execution_id: 41_031,
  status: 'started',
  path: 'hr/score',
  catalog_id: 9,
  version: 1,
  kind: 'playbook',
  commands_generated: 1,
  duplicate: false,
  ...more,
});

/** Runs a playbook task; `answers` are given to the calls of `execute` one after another. */
async function run(
  tool: JsonMap | readonly JsonMap[],
  answers: readonly (StartAnswer | Error)[],
  client: Partial<WorkerClient> = {},
) {
  const requests: StartRequest[] = [];
  let outside = 0;
  const execute: WorkerClient['execute'] = async (request) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)];
    requests.push(request);
    if (answer === undefined || answer instanceof Error) throw answer;
    return answer;
  };
  const deps = executeDeps([], { execute, ...client });
  const outsideSlot: typeof deps.outsideSlot = (wait) => {
    outside += 1;
    return wait();
  };
  const report = await executeCommand(commandOf({ tool, step: 'score' }), { ...deps, outsideSlot }, never);
  return { report, requests, outside };
}

const call = (more: JsonMap = {}): JsonMap => ({ kind: 'playbook', name: 'child', path: 'hr/score', ...more });

describe('a playbook task', () => {
  it('that does not wait answers as soon as the child is started', async () => {
    const { report, requests, outside } = await run(call({ args: { a: 1, b: 1 }, input: { b: '{{ 1 + 1 }}' } }), [
      started(),
    ]);
    expect(report).toMatchObject({
      outcome: 'ok',
      data: { status: 'started', execution_id: '41031', path: 'hr/score', async: true },
    });
    expect(requests).toEqual([
      {
        path: 'hr/score',
        workload: { a: 1, b: 2 },
        parent_execution_id: 41_007,
        parent_command_id: 41_012,
        idempotency_key: '41012:child:1',
      },
    ]);
    expect(outside).toBe(0);
  });

  it.each([{}, { wait: true }])('whose inputs are no map starts nothing (%j)', async (more) => {
    const { report, requests } = await run(call({ args: '{{ 5 }}', ...more }), [started()]);
    expect(report).toMatchObject({
      outcome: 'error',
      error: { kind: 'config', message: "field 'args' must be a map" },
    });
    expect(requests).toEqual([]);
  });

  it('that waits, alone and without rules, is parked', async () => {
    const { report, requests } = await run(call({ wait: true }), [started()]);
    expect(report).toMatchObject({ outcome: 'parked', child_execution_id: 41_031 });
    expect(requests[0]).not.toHaveProperty('wait_ms');
  });

  it('in a pipeline waits outside its slot, with the same body each time', async () => {
    const ended = started({ execution_status: 'completed', result: { score: 7 } });
    const { report, requests, outside } = await run(
      [call({ wait: true })],
      [started({ execution_status: 'running' }), ended],
    );
    expect(report).toMatchObject({ data: { child: { score: 7, child_status: 'completed', execution_id: '41031' } } });
    expect(requests[0]).toEqual(requests[1]);
    expect(requests[0]?.wait_ms).toBeGreaterThan(0);
    expect(outside).toBe(1);
  });

  it('returns the value of the step it asks for, payloads in full', async () => {
    const row = {
      execution_id: 41_031,
      event_id: 9,
      event_type: 'call.done',
      node_name: 'total',
      status: 'completed',
      created_at: 'now',
      result: { status: 'completed', context: { _ref: 'r' }, reference: { ref: 'r' } },
    };
    const events: WorkerClient['events'] = async (executionId) => ({
      execution_id: executionId,
      status: 'completed',
      events: [row],
      pagination: { page: 1, has_next: false },
    });
    const ended = started({ execution_status: 'completed', result: 'other' });
    const { report } = await run([call({ return_step: 'total' })], [ended], {
      events,
      resolveResult: async () => ({ score: 9 }),
    });
    expect(report).toMatchObject({ data: { child: { score: 9 } } });
  });

  it.each([
    ['failed when it was entered again', [{ event_type: 'call.error', status: 'failed' }], false],
    ['failed by its `set`', [{ event_type: 'ctx.updated', meta: { failed: { kind: 'transform' } } }], false],
    ['set a variable', [{ event_type: 'ctx.updated', meta: {} }], true],
    ['was told of a second time', [{ event_type: 'call.error', status: 'failed', meta: { stale: true } }], true],
  ])('asked for a step that %s', async (_, after, isReturned) => {
    const rows = [...after, { event_type: 'call.done', result: { status: 'completed', context: { data: { v: 1 } } } }];
    const events: WorkerClient['events'] = async (executionId, query) => ({
      execution_id: executionId,
      status: 'completed',
      events: rows
        .filter((row) => query?.event_type?.includes(row.event_type))
        .map((row) => ({
          ...{ execution_id: executionId, event_id: 9, node_name: 'total', created_at: 'now', status: 'completed' },
          ...row,
        })),
      pagination: { page: 1, has_next: false },
    });
    const ended = started({ execution_status: 'completed', result: { v: 2 } });
    const { report } = await run([call({ return_step: 'total' })], [ended], { events });
    expect(report).toMatchObject({ data: { child: { v: isReturned ? 1 : 2 } } });
  });

  it('returns a stored result in full, and a result with a `_ref` of its own as it is', async () => {
    const asked: string[] = [];
    const resolveResult: WorkerClient['resolveResult'] = async (ref) => {
      asked.push(ref);
      return { score: 9 };
    };
    const returned = async (result: JsonMap) => {
      const ended = started({ execution_status: 'completed', result });
      return (await run([call({ wait: true })], [ended], { resolveResult })).report;
    };
    const ref = 'callboard://execution/41031/result/total/9';
    const stored = { _ref: ref, _store: 'db', _size_bytes: 70_000 };
    expect(await returned(stored)).toMatchObject({ data: { child: { score: 9 } } });
    const own = { _ref: 'refs/heads/main', n: 1 };
    expect(await returned(own)).toMatchObject({ data: { child: own } });
    expect(asked).toEqual([ref]);
  });

  it('fails with the child', async () => {
    const { report } = await run(
      [call({ wait: true })],
      [started({ execution_status: 'failed', error: 'Failed steps: a' })],
    );
    expect(report).toMatchObject({
      outcome: 'error',
      error: { kind: 'tool_error', code: 'CHILD_FAILED', message: 'child playbook hr/score (41031): Failed steps: a' },
    });
  });

  it('fails when the child takes longer than its time-out', async () => {
    const { report } = await run([call({ wait: true, timeout: 0.03 })], [started({ execution_status: 'running' })], {
      execute: async (_request, options) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        options?.signal?.throwIfAborted();
        return started({ execution_status: 'running' });
      },
    });
    expect(report).toMatchObject({ error: { kind: 'timeout', code: 'CHILD_TIMEOUT' } });
  });

  it('tells a wait that was too long from a start that failed, also when the first answer comes late', async () => {
    const asked: StartRequest[] = [];
    const { report } = await run([call({ wait: true, timeout: 0.03 })], [], {
      execute: async (request) => {
        asked.push(request);
        // As a server does: it answers when the wait is over, not when the caller has lost patience.
        await new Promise((resolve) => setTimeout(resolve, (request.wait_ms ?? 0) + 20));
        return started({ execution_status: 'running' });
      },
    });
    expect(report).toMatchObject({
      error: { kind: 'timeout', code: 'CHILD_TIMEOUT', message: expect.stringContaining('(41031)') },
    });
    expect(asked.map((request) => request.wait_ms)).toEqual([30]);
  });

  it('waits on while the server is away', async () => {
    const ended = started({ execution_status: 'completed', result: 1 });
    const answers = [started({ execution_status: 'running' }), new TransportError('gone'), ended];
    expect((await run([call({ wait: true })], answers)).report).toMatchObject({ outcome: 'ok', data: { value: 1 } });
  });

  it.each([
    [
      new ApiError(404, { detail: 'Executable catalog entry not found: hr/score', code: 'not_found' }, null),
      'missing_reference',
    ],
    [new ApiError(422, { detail: 'no', code: 'resource_kind_required' }, null), 'config'],
    [new ApiError(503, { detail: 'no', code: 'db_unavailable' }, null), 'connection'],
    [new TransportError('gone'), 'connection'],
  ])('fails when the child cannot be started: %s', async (error, kind) => {
    expect((await run(call(), [error])).report).toMatchObject({ outcome: 'error', error: { kind } });
    expect((await run(call({ wait: true }), [error])).report).toMatchObject({ outcome: 'error', error: { kind } });
  });
});
