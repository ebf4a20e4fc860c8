import { describe, expect, it } from 'vitest';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { WorkerClient } from '../../src/worker/execute.ts';
import { executeCommand, type Outcome } from '../../src/worker/execute.ts';
import { bad, type CommandOptions, commandOf, executeDeps, never, ok, scripted } from './commands.ts';

const policy = (rule: JsonMap): JsonMap => ({ spec: { policy: { rules: [rule] } } });
const then = (order: JsonMap): JsonMap => Object.fromEntries([['then', order]]);
const HOUR = { attempts: 4, backoff: 'fixed', delay: 3600 };
const onError = (more: JsonMap = {}): JsonMap =>
  policy({ when: "{{ output.status == 'error' }}", ...then({ do: 'retry', ...HOUR, ...more }) });

/** What the server gives to the next worker. */
function resumeOf(report: Outcome): NonNullable<CommandOptions['resume']> {
  // As it arrives after a journey through JSON and the database.
  const state = JSON.parse(JSON.stringify(report.resume?.state ?? null)) as Json;
  return { state, ctx: report.ctx ?? {} };
}

describe('a retry that waits long', () => {
  it('is left to the server with what the next try needs, and nothing is waited for', async () => {
    const { tool, calls } = scripted('http', [bad('server_error', true)]);
    const report = await executeCommand(
      commandOf({ tool: { kind: 'http', ...onError() }, timeoutSeconds: 7200 }),
      executeDeps([tool]),
      never,
    );
    expect(report).toMatchObject({
      outcome: 'parked',
      resume: { after_seconds: 3600 },
      error: { kind: 'server_error', source: 'http' },
    });
    expect(report.resume?.timeout_seconds).toBeGreaterThan(7190);
    expect(report.resume?.timeout_seconds).toBeLessThanOrEqual(7200);
    expect(calls).toHaveLength(1);
  });

  it('of a few seconds is waited for here', async () => {
    const { tool } = scripted('http', [bad('server_error', true), ok({ n: 1 })]);
    const report = await executeCommand(
      commandOf({ tool: { kind: 'http', ...onError({ delay: 0.01 }) } }),
      executeDeps([tool]),
      never,
    );
    expect(report).toMatchObject({ outcome: 'ok', data: { n: 1 } });
  });

  it('goes on with the next try elsewhere, seeing all that was made before', async () => {
    const tool: readonly JsonMap[] = [
      {
        name: 'first',
        kind: 'noop',
        result: { n: 7 },
        ...policy({ else: then({ do: 'continue', set: { 'ctx.seen': '{{ output.data.n }}', 'iter.mark': 'm' } }) }),
      },
      {
        name: 'flaky',
        kind: 'http',
        set: { local: 'l{{ _attempt }}' },
        ...onError(),
      },
      {
        name: 'last',
        kind: 'noop',
        result: {
          from_first: '{{ first.n }}',
          seen: '{{ ctx.seen }}',
          mark: '{{ iter.mark }}',
          local: '{{ local }}',
          previous: '{{ _prev.done }}',
          tries: '{{ output.meta.attempt }}',
        },
      },
    ];
    const { tool: http, calls } = scripted('http', [
      bad('server_error', true),
      bad('server_error', true),
      ok({ done: true }),
    ]);
    let resume: CommandOptions['resume'];
    const reports: Outcome[] = [];
    for (let grant = 0; grant < 3; grant += 1) {
      const command = commandOf({ tool, ...(resume === undefined ? {} : { resume }) });
      const report = await executeCommand(command, executeDeps([http]), never);
      reports.push(report);
      if (report.outcome === 'parked') resume = resumeOf(report);
    }
    expect(reports.map((report) => report.outcome)).toEqual(['parked', 'parked', 'ok']);
    expect(calls).toHaveLength(3);
    expect(reports[2]).toMatchObject({
      data: {
        first: { n: 7 },
        flaky: { done: true },
        last: { from_first: 7, seen: 7, mark: 'm', local: 'l3', previous: true, tries: 3 },
      },
      ctx: { seen: 7 },
      tasks: { first: { attempts: 1 }, flaky: { status: 'ok', attempts: 3 }, last: { attempts: 1 } },
    });
  });

  it('counts its tries over all workers', async () => {
    const { tool, calls } = scripted('http', [bad('server_error', true)]);
    let resume: CommandOptions['resume'];
    let report: Outcome | null = null;
    for (let grant = 0; grant < 4; grant += 1) {
      const command = commandOf({ tool: { kind: 'http', ...onError() }, ...(resume === undefined ? {} : { resume }) });
      report = await executeCommand(command, executeDeps([tool]), never);
      resume = resumeOf(report);
    }
    expect(report).toMatchObject({ outcome: 'error', error: { kind: 'server_error' } });
    expect(calls).toHaveLength(4);
  });

  it('keeps a large state apart and finds it again', async () => {
    const kept = new Map<string, Json>();
    const ref = 'callboard://execution/41007/result/fetch/9';
    const client: Partial<WorkerClient> = {
      putResult: async (_id, { data }) => {
        kept.set(ref, data);
        // The rest of the answer is not looked at.
        return { ref, store: 'db', bytes: 1, sha256: 'x' } as Awaited<ReturnType<WorkerClient['putResult']>>;
      },
      resolveResult: async (wanted) => kept.get(wanted) ?? null,
    };
    const { tool: http } = scripted('http', [bad('server_error', true), ok(1)]);
    const tool: readonly JsonMap[] = [
      { name: 'big', kind: 'noop', result: { text: 'x'.repeat(5000) } },
      { name: 'flaky', kind: 'http', ...onError() },
      { name: 'size', kind: 'noop', result: '{{ big.text | length }}' },
    ];
    const parked = await executeCommand(commandOf({ tool }), executeDeps([http], client), never);
    expect(parked.resume?.state).toEqual({ ref });
    kept.set(ref, JSON.parse(JSON.stringify(kept.get(ref) ?? null)) as Json);
    const report = await executeCommand(
      commandOf({ tool, resume: resumeOf(parked) }),
      executeDeps([http], client),
      never,
    );
    expect(report.outcome).toBe('ok');
    expect(isMap(kept.get(ref) ?? null)).toBe(true);
    expect(report.summary ?? report.data).toBeDefined();
  });

  it('polls in the same way: a result that is not there yet is no failure', async () => {
    const { tool } = scripted('http', [ok({ state: 'queued' }), ok({ state: 'done' })]);
    const rule = { when: "{{ output.data.state != 'done' }}", ...then({ do: 'retry', ...HOUR }) };
    const config = { kind: 'http', ...policy(rule) };
    const parked = await executeCommand(commandOf({ tool: config }), executeDeps([tool]), never);
    expect(parked).toMatchObject({ outcome: 'parked' });
    expect(parked.error).toBeUndefined();
    const report = await executeCommand(
      commandOf({ tool: config, resume: resumeOf(parked) }),
      executeDeps([tool]),
      never,
    );
    expect(report).toMatchObject({ outcome: 'ok', data: { state: 'done' } });
  });
});
