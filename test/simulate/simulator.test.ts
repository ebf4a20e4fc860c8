import { describe, expect, test } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { simulatedToWire } from '../../src/simulate/answer.ts';
import { checkStore } from '../support/invariants.ts';
import { arc, step } from '../support/playbooks.ts';
import { documentOf, lines, simulated } from './simulations.ts';

const http = (keys: JsonMap = {}): JsonMap => ({ kind: 'http', url: 'https://api.example.test/items', ...keys });
/** A member called `then` makes an object a promise to those who look. */
const rule = (when: string, then: JsonMap): JsonMap =>
  Object.fromEntries([
    ['when', when],
    ['then', then],
  ]);
const to = (name: string): JsonMap => ({ arcs: [arc(name)] });

describe('a simulation', () => {
  test('writes the log a server writes', async () => {
    const run = await simulated([step('a', { tool: http(), next: to('b') }), step('b')], {
      outcomes: [{ step: 'a', result: { body: 1 }, duration_ms: 400 }],
    });
    expect(lines(run)).toEqual([
      'execution.started tests/simulated',
      'step.enter a',
      'command.issued a',
      'command.claimed a',
      'command.started a',
      'call.done a',
      'step.exit a',
      'command.completed a',
      'step.enter b',
      'command.issued b',
      'command.claimed b',
      'command.started b',
      'call.done b',
      'step.exit b',
      'command.completed b',
      'workflow.completed workflow',
      'playbook.completed tests/simulated',
    ]);
    expect(run).toMatchObject({ status: 'completed', virtualMs: 400 });
    checkStore(run.store);
  });

  test('goes through thirty days of retries at once', async () => {
    const patient = {
      rules: [rule("output.status == 'error'", { do: 'retry', attempts: 31, delay: 86_400, max_delay: 86_400 })],
    };
    const tool = http({ spec: { policy: patient } });
    const run = await simulated([step('a', { tool, spec: { timeout: 9_000_000 } })], {
      outcomes: [
        { step: 'a', try: 31, result: { ok: true } },
        { step: 'a', error: { kind: 'server_error', code: 'HTTP_503', message: 'not yet', status_code: 503 } },
      ],
    });
    expect(run).toMatchObject({ status: 'completed', virtualMs: 30 * 86_400_000 });
    expect(run.tries.map((each) => each.atMs / 86_400_000)).toEqual(Array.from({ length: 31 }, (_, day) => day));
    expect(run.wallMs).toBeLessThan(1_000);
    checkStore(run.store);
  });

  const race = [
    step('start', { next: { spec: { mode: 'inclusive' }, arcs: ['a', 'b', 'c', 'd'].map((name) => arc(name)) } }),
    ...['a', 'b', 'c', 'd'].map((name) => step(name, { tool: http(), next: to('join') })),
    step('join'),
  ];

  test('is the same for the same seed, and another one for another', async () => {
    const ends = async (seed: number) => {
      const run = await simulated(race, { seed, default_outcome: { result: 1 } });
      checkStore(run.store);
      expect(lines(run).filter((line) => line === 'step.enter join')).toHaveLength(1);
      return run;
    };
    const [once, again] = [await ends(7), await ends(7)];
    expect(again.events).toEqual(once.events);
    const orders = await Promise.all(
      Array.from({ length: 12 }, async (_, seed) => lines(await ends(seed)).filter((line) => line.startsWith('call.'))),
    );
    expect(new Set(orders.map(String)).size).toBeGreaterThan(3);
  });

  test('is the same however long the library takes for each child', async () => {
    const child = documentOf([step('one', { next: to('two') }), step('two')]);
    const called = (name: string) =>
      step(name, { tool: { kind: 'playbook', path: `tests/${name}` }, next: to('join') });
    const calls = [
      step('start', { next: { spec: { mode: 'inclusive' }, arcs: ['a', 'b', 'c'].map((name) => arc(name)) } }),
      called('a'),
      called('b'),
      step('c', { loop: { in: [1, 2, 3], iterator: 'i', spec: { mode: 'parallel' } }, tool: http(), next: to('join') }),
      step('join'),
    ];
    const told = async (turns: Readonly<Record<string, number>>) => {
      const run = await simulated(calls, { default_outcome: { result: 1 } }, async ({ path = '' }) => {
        for (let left = turns[path] ?? 0; left > 0; left -= 1) await new Promise((resolve) => setImmediate(resolve));
        return { found: { content: child, path, version: 1, catalogId: path.length + path.charCodeAt(6) } };
      });
      checkStore(run.store);
      return [run.events, run.children.map(({ events }) => events)];
    };
    const first = await told({});
    expect(first[1]).toHaveLength(2);
    expect(await told({ 'tests/a': 40 })).toEqual(first);
    expect(await told({ 'tests/a': 2, 'tests/b': 7 })).toEqual(first);
  });

  test('gives the command of a lost worker to another one', async () => {
    const run = await simulated([step('a', { tool: http() })], {
      outcomes: [
        { step: 'a', worker_lost: true, times: 1, duration_ms: 250 },
        { step: 'a', result: 2 },
      ],
    });
    const claims = run.events.filter(({ type }) => type === 'command.claimed');
    expect(claims.map(({ attempt, workerId }) => [attempt, workerId])).toEqual([
      [1, 'simulator-1'],
      [2, 'simulator-2'],
    ]);
    expect(run).toMatchObject({ status: 'completed', virtualMs: 10_250, unused: [] });
    checkStore(run.store);
  });

  test('gives up a command whose workers are always lost', async () => {
    const run = await simulated([step('a', { tool: http() })], { outcomes: [{ step: 'a', worker_lost: true }] });
    expect(run.row).toMatchObject({ status: 'failed', error: expect.stringContaining('claimed') });
    checkStore(run.store);
  });

  test('is cancelled when it is told to be, with its children', async () => {
    const tool = { kind: 'playbook', path: 'tests/child', wait: true };
    const child = documentOf([step('work', { tool: http() })], { metadata: { name: 'child', path: 'tests/child' } });
    const run = await simulated(
      [step('a', { tool })],
      { cancel_at_ms: 1_500, outcomes: [{ step: 'work', duration_ms: 60_000 }] },
      async () => ({ found: { content: child, path: 'tests/child', version: 4, catalogId: 77 } }),
    );
    expect(run).toMatchObject({ status: 'cancelled', virtualMs: 1_500 });
    expect(run.children.map(({ row }) => [row.path, row.version, row.status])).toEqual([
      ['tests/child', 4, 'cancelled'],
    ]);
  });

  test('ends a try at its time limit and a step at its own', async () => {
    const slow = { outcomes: [{ step: 'a', duration_ms: 90_000 }] };
    const tried = await simulated([step('a', { tool: http({ timeout: 5 }) })], slow);
    expect(tried).toMatchObject({ status: 'failed', virtualMs: 5_000 });
    expect(tried.row.errorDetail).toMatchObject({ errors: [{ kind: 'timeout', code: 'CONN_TIMEOUT' }] });
    const stepped = await simulated([step('a', { tool: http(), spec: { timeout: 30 } })], slow);
    expect(stepped).toMatchObject({ status: 'failed', virtualMs: 30_000 });
    expect(stepped.row.errorDetail).toMatchObject({ errors: [{ kind: 'timeout', code: 'STEP_TIMEOUT' }] });
  });

  test('stops at its limits', async () => {
    const forever = [step('a', { tool: http(), next: to('a') })];
    const slowly = { default_outcome: { duration_ms: 1_000 } };
    const byTime = await simulated(forever, { ...slowly, limits: { max_virtual_seconds: 60 } });
    expect(byTime).toMatchObject({ status: 'LIMIT', limit: 'virtual_time', virtualMs: 60_000 });
    const byEvents = await simulated(forever, { limits: { max_events: 100 } });
    expect(byEvents).toMatchObject({ status: 'LIMIT', limit: 'events' });
    expect(byEvents.events.length).toBeLessThan(130);
    const spinning = { kind: 'noop', spec: { policy: { rules: [rule('true', { do: 'jump', to: 'x' })] } } };
    const byWall = await simulated([step('a', { tool: [{ name: 'x', ...spinning }] })], {}, undefined, 100);
    expect(byWall).toMatchObject({ status: 'LIMIT', limit: 'wall_time' });
  });
});

describe('a script', () => {
  test('takes the first outcome that fits', async () => {
    const loop = { in: '{{ workload.items }}', iterator: 'item' };
    const tool = http({ method: 'POST', json: { n: '{{ iter.item }}' } });
    const run = await simulated(documentOf([step('a', { tool, loop })], { workload: { items: [1, 2, 3, 4] } }), {
      outcomes: [
        { step: 'a', when: 'json.n == 3', result: 'by its input' },
        { step: 'a', iteration: 0, result: 'by its place' },
        { step: 'a', times: 1, result: 'once' },
        { step: 'a', kind: 'postgres', result: 'by another kind' },
        { step: 'a', kind: 'http', result: 'by its kind' },
      ],
    });
    expect(run.row.result).toMatchObject({ results: ['by its place', 'once', 'by its input', 'by its kind'] });
    expect(run.tries.map(({ outcome }) => outcome)).toEqual([1, 2, 0, 4]);
    expect(run.unused).toEqual([3]);
  });

  test('answers what nobody thought of by the default, and says so', async () => {
    const steps = [
      step('a', { tool: http(), next: to('b') }),
      step('b', { tool: { kind: 'noop', result: '{{ a.n }}' } }),
    ];
    const told = simulatedToWire(await simulated(steps, { default_outcome: { result: { n: 5 } } }));
    expect(told).toMatchObject({ status: 'completed', result: 5 });
    expect(told.unmatched).toEqual([{ step: 'a', task: null, activation: 1, iteration: null, try: 1 }]);
    const failed = await simulated(steps, { default_outcome: 'fail' });
    expect(failed.row).toMatchObject({ status: 'failed', error: expect.stringContaining('no scripted outcome') });
  });

  test('shows the task as it would have been run, and no secret', async () => {
    const tool = http({
      url: 'https://x.test/{{ workload.who }}',
      headers: { authorization: '{{ keychain.api.token }}' },
    });
    const keychain = [
      { name: 'api', kind: 'secret_manager', provider: 'env', map: { token: 'API_TOKEN' }, scope: 'local' },
    ];
    const content = documentOf([step('a', { tool })], { keychain, workload: { who: 'ada' } });
    const run = await simulated(content, { outcomes: [{ step: 'a', when: "url == 'https://x.test/ada'", result: 1 }] });
    const [tried] = simulatedToWire(run).tries;
    expect(tried?.rendered).toMatchObject({ url: 'https://x.test/ada', headers: { authorization: '***' }, input: {} });
    expect(tried).toMatchObject({
      step: 'a',
      task: null,
      activation: 1,
      iteration: null,
      try: 1,
      outcome: 0,
      at_ms: 0,
    });
  });

  test('feeds rules with what a tool would have said', async () => {
    const rules = [rule('output.http.status == 429', { do: 'retry', attempts: 3, delay: 2 })];
    const run = await simulated([step('a', { tool: http({ spec: { policy: { rules } } }) })], {
      outcomes: [
        { step: 'a', try: 1, error: { kind: 'rate_limit', code: 'HTTP_429', message: 'slow down', status_code: 429 } },
        { step: 'a', try: 2, error: { kind: 'auth', code: 'HTTP_401', message: 'who are you', status_code: 401 } },
      ],
    });
    expect(run).toMatchObject({ status: 'failed', virtualMs: 2_000 });
    expect(run.row.errorDetail).toMatchObject({ errors: [{ kind: 'auth', code: 'HTTP_401' }] });
  });
});

describe('children', () => {
  const tool = { kind: 'playbook', path: 'tests/child', args: { n: 2 }, wait: true };

  test('answer with a scripted result', async () => {
    const run = await simulated([step('a', { tool })], { children: { 'tests/child': { total: 7 } } });
    expect(run.row).toMatchObject({ status: 'completed', result: { total: 7, child_status: 'completed' } });
    expect(run.tries.map(({ answeredBy }) => answeredBy)).toEqual(['child']);
  });

  test('are simulated where nothing is scripted', async () => {
    const child = documentOf([step('double', { tool: { kind: 'noop', result: '{{ workload.n * 2 }}' } })], {
      metadata: { name: 'child', path: 'tests/child' },
    });
    const run = await simulated([step('a', { tool })], {}, async () => ({
      found: { content: child, path: 'tests/child', version: 1, catalogId: 9 },
    }));
    expect(run.row.result).toMatchObject({ value: 4, child_status: 'completed' });
    checkStore(run.store);
  });

  test('can be failed by an outcome of the step that calls them', async () => {
    const run = await simulated([step('a', { tool })], {
      outcomes: [{ step: 'a', error: { kind: 'tool_error', code: 'CHILD_FAILED', message: 'it broke' } }],
    });
    expect(run.row).toMatchObject({ status: 'failed', error: expect.stringContaining('it broke') });
    expect(run.children).toEqual([]);
  });

  test('that do not exist fail the step', async () => {
    const run = await simulated([step('a', { tool })]);
    expect(run.row.errorDetail).toMatchObject({ errors: [{ kind: 'missing_reference', code: 'CHILD_NOT_FOUND' }] });
  });
});

test('a value too large for the log is read back from where it is stored', async () => {
  const rows = Array.from({ length: 5_000 }, (_, id) => ({ id, text: 'a row of some length' }));
  const steps = [
    step('a', { tool: http(), next: to('b') }),
    step('b', { tool: { kind: 'noop', result: '{{ a.rows[-1].id }}' } }),
  ];
  const run = await simulated(steps, { outcomes: [{ step: 'a', result: { rows } }] });
  expect(run.row).toMatchObject({ status: 'completed', result: 4_999 });
});

test('a document that does not pass its checks is refused', async () => {
  await expect(simulated('workflow: []')).rejects.toMatchObject({ code: 'playbook_invalid' });
});

test('the answer has every part of the contract', async () => {
  const told = simulatedToWire(await simulated([step('a', { next: to('b') }), step('b')]));
  expect(Object.keys(told)).toEqual(
    expect.arrayContaining(['status', 'result', 'error', 'virtual_ms', 'wall_ms', 'events', 'tries', 'unmatched']),
  );
  expect(told.events[0]).toMatchObject({
    event_id: 1,
    event_type: 'execution.started',
    created_at: '2026-01-01T00:00:00.000Z',
  });
  expect(told.graph.nodes.map(({ id, state }) => [id, state?.status])).toEqual([
    ['a', 'completed'],
    ['b', 'completed'],
  ]);
  expect(told.graph.edges.map(({ id, taken }) => [id, taken])).toEqual([['a>b#0', 1]]);
});
