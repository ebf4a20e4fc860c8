import { describe, expect, it } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { ApiError, TransportError } from '../../src/client/errors.ts';
import type { Tool } from '../../src/tools/tool.ts';
import type { WorkerClient } from '../../src/worker/execute.ts';
import { executeCommand } from '../../src/worker/execute.ts';
import { bad, type CommandOptions, commandOf, executeDeps, never, noop, ok, scripted } from './commands.ts';

function run(options: CommandOptions, tools: readonly Tool[] = [], client: Partial<WorkerClient> = {}) {
  return executeCommand(commandOf(options), executeDeps(tools, client), never);
}

const policy = (...rules: JsonMap[]): JsonMap => ({ spec: { policy: { rules } } });

/** A rule on the wire; null is the else rule. */
function rule(when: string | null, order: JsonMap): JsonMap {
  const orders = Object.fromEntries([['then', order]]);
  return when === null ? { else: orders } : { when, ...orders };
}
const REF = 'callboard://execution/41007/result/export/5';

describe('a single tool', () => {
  it('reports its data as it is', async () => {
    const report = await run({
      tool: { kind: 'noop', result: { n: '{{ workload.n + 1 }}' } },
      context: { workload: { n: 1 } },
    });
    expect(report).toMatchObject({
      outcome: 'ok',
      data: { n: 2 },
      tasks: { fetch_task: { status: 'ok', attempts: 1 } },
    });
  });

  it('is reachable in its own rules under the name of the step', async () => {
    const order = { do: 'continue', set: { 'ctx.seen': '{{ fetch.n }}' } };
    const report = await run({ tool: { kind: 'noop', result: { n: 7 }, ...policy(rule(null, order)) } });
    expect(report.ctx).toEqual({ seen: 7 });
  });

  it('fails with the error of its tool, its data and the label of the task', async () => {
    const { tool } = scripted('http', [bad('not_found', false, { status_code: 404 })]);
    expect(await run({ tool: { kind: 'http', url: 'x' } }, [tool])).toMatchObject({
      outcome: 'error',
      error: { kind: 'not_found', code: 'NOT_FOUND', source: 'http', retryable: false },
      data: { status_code: 404 },
      failed_task: 'fetch_task',
    });
  });

  it('tells with the error where its code failed', async () => {
    const py = { exception: 'KeyError', traceback: 'line 3' };
    const { tool } = scripted('python', [{ ...bad('schema'), py }]);
    expect(await run({ tool: { kind: 'python', code: 'x' } }, [tool])).toMatchObject({ error: { details: py } });
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('kaboom');
      },
    ],
    ['answers nothing', () => undefined],
    ['answers half an outcome', () => ({ ok: false })],
    ['answers what is no JSON', () => ({ ok: true, data: { f: () => {} } })],
    ['answers an infinite number', () => ({ ok: true, data: Number.POSITIVE_INFINITY })],
  ])('fails when its tool %s', async (_what, answer) => {
    const { tool } = scripted('http', [answer]);
    expect(await run({ tool: { kind: 'http' } }, [tool])).toMatchObject({
      outcome: 'error',
      error: { kind: 'unknown' },
    });
  });

  it('fails when this worker has no such tool', async () => {
    expect(await run({ tool: { kind: 'duckdb' } })).toMatchObject({ outcome: 'error', error: { kind: 'config' } });
  });

  it('fails with kind transform when a field cannot be rendered, and the tool never runs', async () => {
    const { tool, calls } = scripted('http', [ok(1)]);
    const report = await run({ tool: { kind: 'http', url: 'x', json: '{{ 1 / 0 }}' } }, [tool]);
    expect(report).toMatchObject({ outcome: 'error', error: { kind: 'transform' } });
    expect(calls).toHaveLength(0);
  });

  it('cannot hide a missing keychain entry behind default', async () => {
    const report = await run({ tool: { kind: 'noop', result: "{{ keychain.billing.token | default('x') }}" } });
    expect(report).toMatchObject({
      error: { kind: 'missing_reference', message: "keychain entry 'billing' is not available (not_found)" },
    });
  });
});

describe('fields', () => {
  it('that are text stay text, values keep their type, inputs are bare names', async () => {
    const { tool, calls } = scripted('http', [ok(null)]);
    const config = {
      kind: 'http',
      url: 'http://x/{{ id }}',
      json: { id: '{{ id }}' },
      headers: { 'x-id': '{{ id }}' },
      input: { id: '{{ workload.n }}' },
      timeout: '{{ 2 + 3 }}',
    };
    await run({ tool: config, context: { workload: { n: 5 } } }, [tool]);
    expect(calls[0]).toMatchObject({
      fields: { url: 'http://x/5', json: { id: 5 }, headers: { 'x-id': '5' } },
      input: { id: 5 },
      timeoutMs: 5000,
    });
  });

  it('that are headers are left out where an expression yields null', async () => {
    const { tool, calls } = scripted('http', [ok(null)]);
    const headers = {
      a: '{{ none }}',
      b: '{{ workload.missing }}',
      c: 'x{{ none }}',
      d: '{{ true }}',
      e: null,
      f: true,
    };
    await run({ tool: { kind: 'http', url: 'http://x/', headers } }, [tool]);
    expect(calls[0]?.fields['headers']).toEqual({ a: null, b: null, c: 'x', d: 'True', e: null, f: true });
  });

  it('that are headers or an environment written as one template are the map of that template', async () => {
    const { tool, calls } = scripted('http', [ok(null)]);
    const context = { workload: { headers: { accept: 'text/csv', n: 1 } } };
    await run({ tool: { kind: 'http', url: 'http://x/', headers: '{{ workload.headers }}' }, context }, [tool]);
    expect(calls[0]?.fields['headers']).toEqual({ accept: 'text/csv', n: 1 });
  });

  it('that the step gives as inputs are rendered once for all tries of its tasks', async () => {
    const { tool, calls } = scripted('python', [bad('timeout', true), ok(1)]);
    const again = policy(
      rule("{{ output.status == 'error' }}", { do: 'retry', attempts: 2, set: { 'ctx.n': 2 } }),
      rule(null, { do: 'continue', set: { 'ctx.n': 3 } }),
    );
    const input = { own: '{{ ctx.n }}', given: '{{ ctx.n }}' };
    const task = { kind: 'python', code: 'x', input, step_input: ['given'] };
    await run(
      {
        tool: [
          { name: 'a', ...task, ...again },
          { name: 'b', ...task },
        ],
        context: { ctx: { n: 1 } },
      },
      [tool],
    );
    expect(calls.map((call) => call.input)).toEqual([
      { own: 1, given: 1 },
      { own: 2, given: 1 },
      { own: 3, given: 1 },
    ]);
  });

  it('of python get the names of the iteration where no input has them', async () => {
    const { tool, calls } = scripted('python', [ok(null)]);
    const iteration = { kind: 'item', iterator: 'user', item: { n: 1 }, index: 2, total: 3 } as const;
    await run({ tool: { kind: 'python', code: 'x', input: { _index: 99 } }, iteration }, [tool]);
    expect(calls[0]?.input).toEqual({ user: { n: 1 }, _index: 99, _total: 3, loop_index: 2 });
  });

  it('give code that asks for its context everything a template sees', async () => {
    const { tool, calls } = scripted('python', [async (call) => ok(await call.context())]);
    const step = { status: 'completed', value: { n: 1 }, ref: null, error: null, activation: 1 } as const;
    const context = { workload: { a: 1, b: 1 }, ctx: { b: 2 }, steps: { before: step } };
    const report = await run({ tool: { kind: 'python', code: 'x', input: { c: 3 } }, context }, [tool]);
    expect(report.data).toMatchObject({ a: 1, b: 2, before: { n: 1 }, ctx: { a: 1, b: 2 }, execution_id: '41007' });
    expect(calls).toHaveLength(1);
  });
});

describe('a pipeline', () => {
  it('runs its tasks in order; each sees the data of those before', async () => {
    const tool = [
      { name: 'one', kind: 'noop', result: { n: 1 } },
      {
        name: 'two',
        kind: 'noop',
        result: { n: '{{ one.n + 1 }}', prev: '{{ _prev.n }}', status: '{{ output.status }}' },
      },
    ];
    const report = await run({ tool });
    expect(report).toMatchObject({
      outcome: 'ok',
      data: { one: { n: 1 }, two: { n: 2, prev: 1, status: 'ok' }, n: 2, results: { one: { n: 1 } } },
    });
  });

  it('swallows an error by continue and keeps its data under the label', async () => {
    const { tool } = scripted('http', [bad('not_found', false, { status_code: 404 })]);
    const order = { do: 'continue', set: { 'ctx.kind': '{{ output.error.kind }}' } };
    const report = await run(
      {
        tool: [
          { name: 'missing', kind: 'http', url: 'x', ...policy(rule("{{ output.status == 'error' }}", order)) },
          { name: 'report', kind: 'noop', result: { kind: '{{ ctx.kind }}' } },
        ],
      },
      [tool],
    );
    expect(report).toMatchObject({
      outcome: 'ok',
      data: { report: { kind: 'not_found' }, missing: { status_code: 404 } },
      ctx: { kind: 'not_found' },
      tasks: { missing: { status: 'error', attempts: 1 }, report: { status: 'ok' } },
    });
    expect(report.data).not.toHaveProperty('status_code');
  });

  it('tries again until the third answer is good', async () => {
    const { tool, calls } = scripted('http', [bad('server_error', true), bad('server_error', true), ok({ n: 3 })]);
    const again = rule('{{ output.error.retryable }}', { do: 'retry', attempts: 5, delay: 0.001 });
    const report = await run({ tool: [{ name: 'call', kind: 'http', url: 'x', ...policy(again) }] }, [tool]);
    expect(report).toMatchObject({ outcome: 'ok', data: { n: 3 }, tasks: { call: { attempts: 3, status: 'ok' } } });
    expect(calls).toHaveLength(3);
  });

  it("fails with the task's own error when the attempts are used up", async () => {
    const { tool, calls } = scripted('http', [bad('server_error', true)]);
    const again = rule('{{ true }}', { do: 'retry', attempts: '{{ workload.n }}' });
    const report = await run(
      { tool: [{ name: 'call', kind: 'http', url: 'x', ...policy(again) }], context: { workload: { n: 2 } } },
      [tool],
    );
    expect(report).toMatchObject({ outcome: 'error', error: { kind: 'server_error' }, failed_task: 'call' });
    expect(calls).toHaveLength(2);
  });

  it('fails as exhausted when a good outcome was to be repeated too often', async () => {
    const report = await run({
      tool: [{ name: 'call', kind: 'noop', ...policy(rule(null, { do: 'retry', attempts: 2 })) }],
    });
    expect(report).toMatchObject({ error: { kind: 'logic', code: 'RETRY_EXHAUSTED' } });
  });

  it('is failed by a rule although the task is ok', async () => {
    const report = await run({ tool: [{ name: 'call', kind: 'noop', ...policy(rule(null, { do: 'fail' })) }] });
    expect(report).toMatchObject({
      error: { kind: 'logic', code: 'POLICY_FAIL', message: "task 'call' failed by policy rule 1" },
    });
  });

  it('ends early and well by break', async () => {
    const report = await run({
      tool: [
        { name: 'opening', kind: 'noop', result: { first: 1 }, ...policy(rule(null, { do: 'break' })) },
        { name: 'never', kind: 'noop' },
      ],
    });
    expect(report).toMatchObject({ outcome: 'ok', data: { opening: { first: 1 } } });
    expect(report.data).not.toHaveProperty('never');
  });

  it('tells of its tasks in the order in which they last ran', async () => {
    const twice = policy(rule('{{ ctx.again is undefined }}', { do: 'jump', to: 'a', set: { 'ctx.again': true } }));
    const ends = policy(rule('{{ ctx.again is defined }}', { do: 'break' }));
    const report = await run({
      tool: [
        { name: 'a', kind: 'noop', ...ends },
        { name: 'b', kind: 'noop', ...twice },
      ],
    });
    expect(Object.keys(report.tasks ?? {})).toEqual(['b', 'a']);
    expect(report.tasks).toMatchObject({ a: { attempts: 2 }, b: { attempts: 1 } });
  });

  it('counts up by jumping back, with a fresh count of tries per visit', async () => {
    const again = policy(rule('{{ ctx.n < 3 }}', { do: 'jump', to: 'add' }), rule(null, { do: 'continue' }));
    const report = await run({
      tool: [
        { name: 'init', kind: 'noop', ...policy(rule(null, { do: 'continue', set: { 'ctx.n': 0 } })) },
        { name: 'add', kind: 'noop', result: { n: '{{ ctx.n + 1 }}' }, set: { 'ctx.n': '{{ output.n }}' } },
        { name: 'again', kind: 'noop', result: '{{ _attempt }}', ...again },
        { name: 'closing', kind: 'noop', result: { final: '{{ ctx.n }}' } },
      ],
    });
    expect(report).toMatchObject({
      outcome: 'ok',
      data: { final: 3, closing: { final: 3 }, again: 1 },
      ctx: { n: 3 },
      tasks: { add: { attempts: 3 }, again: { attempts: 3 } },
    });
  });

  it('collects pages in iter, which stays in the command', async () => {
    const { tool } = scripted('http', [ok({ items: [1], more: true }), ok({ items: [2], more: false })]);
    const set = { 'iter.rows': '{{ iter.rows + output.data.items }}' };
    const report = await run(
      {
        tool: [
          { name: 'init', kind: 'noop', ...policy(rule(null, { do: 'continue', set: { 'iter.rows': [] } })) },
          {
            name: 'page',
            kind: 'http',
            url: 'x',
            ...policy(
              rule('{{ output.data.more }}', { do: 'jump', to: 'page', set }),
              rule(null, { do: 'continue', set }),
            ),
          },
          { name: 'sum', kind: 'noop', result: '{{ iter.rows }}' },
        ],
      },
      [tool],
    );
    expect(report).toMatchObject({ data: { sum: [1, 2] } });
    expect(report.ctx).toBeUndefined();
  });

  it('stops at its limit of tries', async () => {
    const report = await run({
      tool: [{ name: 'spin', kind: 'noop', ...policy(rule(null, { do: 'jump', to: 'spin' })) }],
    });
    expect(report).toMatchObject({ outcome: 'error', error: { kind: 'logic', code: 'PIPELINE_LIMIT' } });
  });

  it('jumps to the task before by @previous, and not before the first', async () => {
    const back = policy(rule(null, { do: 'jump', to: '@previous' }));
    const report = await run({ tool: [{ name: 'first', kind: 'noop', ...back }] });
    expect(report).toMatchObject({ error: { kind: 'config', code: 'JUMP_TARGET' } });
  });
});

describe('set', () => {
  it('of a task sees raw data with accessors, and its bare names stay in the command', async () => {
    const report = await run({
      tool: [
        {
          name: 'fetch',
          kind: 'noop',
          result: { rates: [1] },
          set: { rates: '{{ output.data.rates }}', 'ctx.n': '{{ output.rates | length }}' },
        },
        { name: 'store', kind: 'noop', result: '{{ rates }}' },
      ],
    });
    expect(report).toMatchObject({ data: { store: [1] }, ctx: { n: 1 } });
  });

  it('renders all values before it assigns the first', async () => {
    const report = await run({
      tool: { kind: 'noop', set: { 'ctx.a': '{{ ctx.b }}', 'ctx.b': '{{ ctx.a }}' } },
      context: { ctx: { a: 1, b: 2 } },
    });
    expect(report.ctx).toEqual({ a: 2, b: 1 });
  });

  it('into a nested path keeps its siblings and travels by path', async () => {
    const report = await run({
      tool: [
        { name: 'write', kind: 'noop', set: { 'ctx.cfg.limit': 5 } },
        { name: 'read', kind: 'noop', result: '{{ ctx.cfg }}' },
      ],
      context: { workload: { cfg: { keep: 1, limit: 1 } } },
    });
    expect(report).toMatchObject({ data: { read: { keep: 1, limit: 5 } } });
    expect(report.ctx).toEqual({ 'cfg.limit': 5 });
  });

  it('that cannot be rendered fails an ok task, and its rules are asked about that', async () => {
    const rules = policy(rule("{{ output.error.kind == 'transform' }}", { do: 'continue' }));
    const report = await run({ tool: { kind: 'noop', set: { 'ctx.a': '{{ 1 / 0 }}' }, ...rules } });
    expect(report).toMatchObject({ outcome: 'ok', tasks: { fetch_task: { status: 'error' } } });
    const unruled = await run({ tool: { kind: 'noop', set: { 'ctx.a': '{{ 1 / 0 }}' } } });
    expect(unruled).toMatchObject({ outcome: 'error', error: { kind: 'transform' } });
  });

  it('of a rule that cannot be rendered fails an ok task, and the other rules are asked about that', async () => {
    const broken = rule(null, { do: 'break', set: { 'ctx.a': '{{ 1 / 0 }}' } });
    const alone = await run({ tool: { kind: 'noop', ...policy(broken) } });
    expect(alone).toMatchObject({
      outcome: 'error',
      error: { kind: 'transform' },
      tasks: { fetch_task: { status: 'error' } },
    });
    const other = rule("{{ output.error.kind == 'transform' }}", { do: 'continue' });
    const forgiven = await run({ tool: { kind: 'noop', ...policy(other, broken) } });
    expect(forgiven).toMatchObject({ outcome: 'ok', tasks: { fetch_task: { status: 'error' } } });
  });

  it('of a rule that cannot be rendered is dropped on a failed task', async () => {
    const set = { 'ctx.a': '{{ 1 / 0 }}' };
    const { tool } = scripted('http', [bad('not_found')]);
    const failed = await run({ tool: { kind: 'http', url: 'x', ...policy(rule(null, { do: 'fail', set })) } }, [tool]);
    expect(failed).toMatchObject({ outcome: 'error', error: { kind: 'not_found' } });
  });

  it('with text that no log can hold fails the task where the value would go home', async () => {
    const text = "{{ '\\x00' }}";
    const kept = await run({ tool: { kind: 'noop', set: { 'ctx.a': text } } });
    expect(kept).toMatchObject({ outcome: 'error', error: { kind: 'transform' } });
    const own = [
      { name: 'a', kind: 'noop', set: { 'iter.a': text, b: text } },
      { name: 'b', kind: 'noop', result: '{{ (iter.a ~ b) | length }}' },
    ];
    expect(await run({ tool: own })).toMatchObject({ outcome: 'ok', data: { b: 2 } });
  });

  it('travels home although the command fails', async () => {
    const report = await run({
      tool: { kind: 'noop', ...policy(rule(null, { do: 'fail', set: { 'ctx.why': 'x' } })) },
    });
    expect(report).toMatchObject({ outcome: 'error', ctx: { why: 'x' } });
  });
});

describe('time', () => {
  const patient: Tool = {
    kind: 'shell',
    run: ({ signal }) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve(bad('unknown')), { once: true })),
  };

  it('of the step ends a running tool and asks no rule', async () => {
    const rules = policy(rule(null, { do: 'continue' }));
    const report = await run({ tool: { kind: 'shell', command: 'x', ...rules }, timeoutSeconds: 0.02 }, [patient]);
    expect(report).toMatchObject({
      outcome: 'error',
      error: { kind: 'timeout', code: 'STEP_TIMEOUT', retryable: false },
    });
  });

  it('of the step ends a pause between tries', async () => {
    const { tool } = scripted('http', [bad('server_error', true)]);
    const rules = policy(rule(null, { do: 'retry', attempts: 9, delay: 5 }));
    const report = await run({ tool: { kind: 'http', url: 'x', ...rules }, timeoutSeconds: 0.02 }, [tool]);
    expect(report).toMatchObject({ error: { code: 'STEP_TIMEOUT' } });
  });

  it('is over at once when the command is stopped', async () => {
    const stop = new AbortController();
    const running = executeCommand(
      commandOf({ tool: { kind: 'shell', command: 'x' } }),
      executeDeps([patient]),
      stop.signal,
    );
    stop.abort(new Error('stopped'));
    await expect(running).rejects.toThrow('stopped');
  });
});

describe('values stored apart', () => {
  const step = { status: 'completed', value: { count: 2, _ref: REF }, ref: REF, error: null, activation: 1 } as const;

  it('are fetched at most once per command, and only when needed', async () => {
    const asked: string[] = [];
    const resolveResult = async (ref: string) => {
      asked.push(ref);
      return { count: 2, rows: [{ id: 1 }, { id: 2 }] };
    };
    const tool = { kind: 'noop', result: { n: '{{ export.count }}', big: '{{ export._ref is defined }}' } };
    expect((await run({ tool, context: { steps: { export: step } } }, [], { resolveResult })).data).toEqual({
      n: 2,
      big: true,
    });
    expect(asked).toEqual([]);
    const needing = { kind: 'noop', result: ['{{ export.rows[-1].id }}', '{{ steps.export.data.rows | length }}'] };
    expect((await run({ tool: needing, context: { steps: { export: step } } }, [], { resolveResult })).data).toEqual([
      2, 2,
    ]);
    expect(asked).toEqual([REF]);
  });

  it('that are gone fail the try', async () => {
    const resolveResult = async () => {
      throw new ApiError(404, { detail: 'Result not found', code: 'not_found' }, null);
    };
    const report = await run(
      { tool: { kind: 'noop', result: '{{ export.rows }}' }, context: { steps: { export: step } } },
      [],
      { resolveResult },
    );
    expect(report).toMatchObject({ error: { kind: 'missing_reference', message: `Result not found: ${REF}` } });
  });

  it('are made of results above the limit, with what the author selected', async () => {
    const stored: unknown[] = [];
    const putResult: WorkerClient['putResult'] = async (executionId, request) => {
      stored.push([executionId, request.name, request.data]);
      return { ref: REF, store: 'kv', bytes: 3000, sha256: 'ab', summary: {} };
    };
    const value = { status: 'ok', meta: { total: 9 }, text: 'x'.repeat(3000) };
    const tool = { kind: 'noop', result: value, output: { select: [{ path: 'meta.total', as: 'total' }] } };
    const report = await run({ tool }, [], { putResult });
    expect(report).toMatchObject({
      reference: { ref: REF, store: 'kv' },
      summary: { status: 'ok', total: 9, _ref: REF },
    });
    expect(report.data).toBeUndefined();
    expect(stored).toEqual([[41_007, 'fetch', value]]);
  });

  it('are stored again while the server is away', async () => {
    let calls = 0;
    const putResult: WorkerClient['putResult'] = async () => {
      calls += 1;
      if (calls === 1) throw new TransportError('gone');
      return { ref: REF, store: 'kv', bytes: 3000, sha256: 'ab', summary: {} };
    };
    const report = await run({ tool: { kind: 'noop', result: 'x'.repeat(3000) } }, [], { putResult });
    expect(report).toMatchObject({ outcome: 'ok', reference: { ref: REF } });
    expect(calls).toBe(2);
  });

  it('that the store refuses fail the command', async () => {
    const putResult = async () => {
      throw new ApiError(413, { detail: 'too large', code: 'payload_too_large' }, null);
    };
    const report = await run({ tool: { kind: 'noop', result: 'x'.repeat(3000) } }, [], { putResult });
    expect(report).toMatchObject({ outcome: 'error', error: { kind: 'storage_quota', code: 'PAYLOAD_TOO_LARGE' } });
  });

  it('are measured with each datum counted once', async () => {
    const report = await run({ tool: [{ name: 'one', kind: 'noop', result: { text: 'x'.repeat(1500) } }] });
    expect(report).toMatchObject({ outcome: 'ok', data: { one: { text: 'x'.repeat(1500) } } });
  });
});

describe('credentials', () => {
  const credential: WorkerClient['credential'] = async (name) => {
    if (name === 'gone') throw new ApiError(404, { detail: 'Credential not found', code: 'not_found' }, null);
    if (name === 'away') throw new TransportError('no answer');
    return { name, type: 'bearer', data: { token: 's3cr3t-value/+', host: 'db.internal' } };
  };

  it('are read just before the try and reach the tool alone', async () => {
    const echo = scripted('http', [
      ({ auth }) => ok({ said: `Bearer ${String(auth?.data['token'])}`, at: auth?.data['host'] ?? null }),
    ]);
    const tool = { kind: 'http', url: 'x', auth: '{{ workload.cred }}', set: { 'ctx.copy': '{{ output.said }}' } };
    const report = await run({ tool, context: { workload: { cred: 'api' } } }, [echo.tool], { credential });
    expect(echo.calls[0]).toMatchObject({ auth: { name: 'api', type: 'bearer' }, fields: { url: 'x' } });
    expect(report).toMatchObject({ data: { said: 'Bearer ***', at: 'db.internal' }, ctx: { copy: 'Bearer ***' } });
    expect(JSON.stringify(report)).not.toContain('s3cr3t');
  });

  it('are scrubbed in every encoding they may have picked up', async () => {
    const secret = 's3cr3t-value/+';
    const bytes = Buffer.from(secret);
    const forms = [
      bytes.toString('base64'),
      bytes.toString('base64url'),
      bytes.toString('hex'),
      encodeURIComponent(secret),
    ];
    const { tool } = scripted('http', [
      { ...bad('client_error', false, { forms }), log: { stdout: secret, stderr: '' } },
    ]);
    const report = await run({ tool: { kind: 'http', url: 'x', auth: 'api' } }, [tool], { credential });
    expect(report).toMatchObject({ data: { forms: ['***', '***', '***', '***'] }, log: { stdout: '***' } });
  });

  it('that do not exist fail the try, as do those nobody can read', async () => {
    const { tool } = scripted('http', [ok(1)]);
    expect(await run({ tool: { kind: 'http', url: 'x', auth: 'gone' } }, [tool], { credential })).toMatchObject({
      error: { kind: 'missing_reference', message: "Credential 'gone' not found" },
    });
    expect(await run({ tool: { kind: 'http', url: 'x', auth: 'away' } }, [tool], { credential })).toMatchObject({
      error: { kind: 'connection' },
    });
  });

  it('may be inline', async () => {
    const { tool, calls } = scripted('http', [ok(1)]);
    const auth = { type: 'basic', username: 'u', password: '{{ workload.pw }}' };
    await run({ tool: { kind: 'http', url: 'x', auth }, context: { workload: { pw: 'hunter22' } } }, [tool]);
    expect(calls[0]?.auth).toEqual({ name: null, type: 'basic', data: { username: 'u', password: 'hunter22' } });
    await run({ tool: { kind: 'http', url: 'x', auth: { type: 'none' } } }, [tool]);
    expect(calls[1]?.auth).toBeNull();
    expect(await run({ tool: { kind: 'http', url: 'x', auth: { token: 'x' } } }, [tool])).toMatchObject({
      error: { kind: 'config' },
    });
  });
});

describe('an iteration', () => {
  it('sees its item, its place and the loop', async () => {
    const iteration = { kind: 'item', iterator: 'user', item: { name: 'x' }, index: 1, total: 2 } as const;
    const result = {
      bare: '{{ user.name }}',
      iter: '{{ iter }}',
      place: '{{ _index }}/{{ _total }}/{{ loop_index }}',
      loop: '{{ loop }}',
    };
    const report = await run({ tool: { kind: noop.kind, result }, iteration });
    expect(report.data).toEqual({
      bare: 'x',
      iter: { user: { name: 'x' }, _index: 1, _total: 2, _first: false, _last: true },
      place: '1/2/1',
      loop: { index: 1, first: false, last: true, length: 2, done: false },
    });
  });

  it('that claims a frame sees how many rows it may take', async () => {
    const { tool, calls } = scripted('postgres', [ok([])]);
    const iteration = { kind: 'claim', frame: 0, max_rows: 50 } as const;
    await run({ tool: { kind: 'postgres', command: 'limit {{ __frame_max_rows }}' }, iteration }, [tool]);
    expect(calls[0]?.fields['command']).toBe('limit 50');
  });
});
