/**
 * The acceptance scenarios of language 16 on a real server with a real worker, each under its number. Two are told elsewhere:
 * 16 with the keychain of the worker (test/worker/keychain.e2e.test.ts), 18 with rows (test/actors/reports.test.ts).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type LanguageStack, startLanguageStack } from '../support/language-stack.ts';

let stack: LanguageStack;
beforeAll(async () => {
  stack = await startLanguageStack();
});
afterAll(() => stack.close());

const retry = (attempts: number) => `
      spec: { policy: { rules: [{ when: "{{ output.status == 'error' }}", then: { do: retry, attempts: ${attempts}, backoff: fixed, delay: 0.2 } }] } }`;

describe('language 16', () => {
  test('1: an end that no arc reaches is not run', async () => {
    const ran = await stack.run(`
  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: a }] } }
  - { step: a, tool: { kind: noop } }
  - { step: end, tool: { kind: noop } }`);
    expect(ran.status).toBe('completed');
    expect(ran.events.filter((event) => event.node_name === 'end')).toEqual([]);
  });

  test('2: exclusive arcs run one branch and skip the other', async () => {
    const ran = await stack.run(
      `
  - { step: start, tool: { kind: noop }, next: { spec: { mode: exclusive }, arcs: [{ step: high, when: "{{ x > 10 }}" }, { step: low }] } }
  - { step: high, tool: { kind: noop }, next: { arcs: [{ step: beyond }] } }
  - { step: beyond, tool: { kind: noop } }
  - { step: low, tool: { kind: noop } }`,
      { x: 3 },
    );
    expect(ran.steps('step.enter')).toEqual(['start', 'low']);
    expect(ran.steps('step.skipped')).toEqual(['high']);
    expect(ran.events.filter((event) => event.node_name === 'beyond')).toEqual([]);
  });

  test('3: a join of three branches of different length runs once, after all of them', async () => {
    const sleep = (seconds: number) => `{ kind: shell, command: sleep ${seconds} }`;
    const ran = await stack.run(`
  - { step: start, tool: { kind: noop }, next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }, { step: c }] } }
  - { step: a, tool: ${sleep(0.05)}, next: { arcs: [{ step: join }] } }
  - { step: b, tool: ${sleep(0.1)}, next: { arcs: [{ step: join }] } }
  - { step: c, tool: ${sleep(0.05)}, next: { arcs: [{ step: c2 }] } }
  - { step: c2, tool: { kind: noop }, next: { arcs: [{ step: join }] } }
  - { step: join, tool: { kind: noop } }`);
    expect(ran.steps('step.enter').filter((name) => name === 'join')).toEqual(['join']);
    const entered = ran.events.find((event) => event.event_type === 'step.enter' && event.node_name === 'join');
    for (const event of ran.events.filter((each) => each.event_type === 'command.completed')) {
      if (event.node_name !== 'join') expect(event.event_id).toBeLessThan(entered?.event_id ?? 0);
    }
  });

  test('4: a join waits for a loop inside a branch; a join inside a loop has one activation a round', async () => {
    const inside = await stack.run(`
  - { step: start, tool: { kind: noop }, next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] } }
  - step: a
    tool: { kind: noop }
    set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }
    next: { spec: { mode: exclusive }, arcs: [{ step: a, when: "{{ ctx.n < 4 }}" }, { step: join }] }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: join }] } }
  - { step: join, tool: { kind: noop, result: "{{ ctx.n }}" } }`);
    expect(inside.result).toBe(4);
    expect(inside.steps('step.enter').filter((name) => name === 'join')).toHaveLength(1);
    const around = await stack.run(`
  - { step: fork, tool: { kind: noop }, next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] } }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: join }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: join }] } }
  - step: join
    tool: { kind: noop }
    set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }
    next: { spec: { mode: exclusive }, arcs: [{ step: fork, when: "{{ ctx.n < 3 }}" }, { step: end }] }
  - { step: end, tool: { kind: noop } }`);
    expect(around.steps('step.enter').filter((name) => name === 'join')).toHaveLength(3);
    expect(around.status).toBe('completed');
  });

  test.each([
    [3, 'completed', 3],
    [2, 'failed', 2],
  ])('5: two times HTTP 500, then 200, with %i attempts: %s after %i requests', async (attempts, status, requests) => {
    let asked = 0;
    const site = await stack.site((_request, response) => {
      asked += 1;
      response.writeHead(asked < 3 ? 500 : 200, { 'content-type': 'application/json' }).end('{"ok":true}');
    });
    const ran = await stack.run(`
  - step: start
    tool:
      kind: http
      url: ${site}${retry(attempts)}`);
    expect([ran.status, asked]).toEqual([status, requests]);
  });

  test.each([
    ['{ step: next }', 'failed', ['start']],
    [`{ step: next, when: "{{ event.name == 'call.error' }}" }`, 'completed', ['start', 'next']],
  ])('6: a failing step with the arc %s', async (arc, status, entered) => {
    const ran = await stack.run(`
  - { step: start, tool: { kind: shell, command: exit 3 }, next: { arcs: [${arc}] } }
  - { step: next, tool: { kind: noop } }`);
    expect([ran.status, ran.steps('step.enter')]).toEqual([status, entered]);
  });

  test('7: results of a loop are in the order of the index', async () => {
    const ran = await stack.run(`
  - step: start
    loop: { in: [10, 20, 30], iterator: n, spec: { mode: parallel } }
    tool: { kind: python, code: "import time\\ntime.sleep(0.06 - n / 500)\\nresult = n * 2" }
    next: { arcs: [{ step: after }] }
  - { step: after, tool: { kind: noop, result: { results: "{{ start.results }}", stats: "{{ start.stats }}" } } }`);
    expect(ran.result).toEqual({ results: [20, 40, 60], stats: { total: 3, success: 3, failed: 0 } });
  });

  test('8: a parallel loop keeps its bound and uses it', async () => {
    let under = 0;
    let most = 0;
    const site = await stack.site((_request, response) => {
      under += 1;
      most = Math.max(most, under);
      setTimeout(() => {
        under -= 1;
        response.end('{}');
      }, 15);
    });
    const ran = await stack.run(`
  - step: start
    loop: { in: 20, iterator: n, spec: { mode: parallel, max_in_flight: 3 } }
    tool: { kind: http, url: ${site} }`);
    expect(ran.status).toBe('completed');
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(3);
  });

  test('9: a loop over null fails by name; one over nothing is done at once', async () => {
    const loop = `
  - step: start
    loop: { in: "{{ workload.items }}", iterator: n }
    tool: { kind: noop }
    next: { arcs: [{ step: after, when: "{{ event.name == 'loop.done' }}" }] }
  - { step: after, tool: { kind: noop, result: "{{ start.stats }}" } }`;
    const broken = await stack.run(loop, { items: null });
    expect(broken.error).toContain("loop step 'start': '{{ workload.items }}' is not iterable (got null)");
    const empty = await stack.run(loop, { items: [] });
    expect([empty.status, empty.result]).toEqual(['completed', { total: 0, success: 0, failed: 0 }]);
  });

  test.each([
    ['{}', 'failed', 5],
    ['{ policy: { failure: { mode: fail_fast } } }', 'failed', 2],
    ['{ policy: { failure: { mode: best_effort } } }', 'completed', 5],
  ])('10: one of five iterations fails with %s', async (spec, status, most) => {
    const ran = await stack.run(`
  - step: start
    loop: { in: 5, iterator: n }
    tool: { kind: python, code: "result = 1 / (n - 1)" }
    spec: ${spec}`);
    expect(ran.status).toBe(status);
    expect(ran.steps('command.issued')).toHaveLength(most);
    const done = ran.events.find((event) => event.event_type === 'loop.done');
    expect(done?.context?.['stats']).toMatchObject({ failed: 1 });
  });

  test('11: a sequential loop appends to ctx a hundred times, in order', async () => {
    const ran = await stack.run(`
  - step: start
    loop: { in: 100, iterator: n }
    tool:
      kind: noop
      spec: { policy: { rules: [{ else: { then: { do: continue, set: { ctx.seen: "{{ (ctx.seen | default([])) + [iter.n] }}" } } } }] } }
    next: { arcs: [{ step: after }] }
  - { step: after, tool: { kind: noop, result: "{{ ctx.seen }}" } }`);
    expect(ran.result).toEqual(Array.from({ length: 100 }, (_, index) => index));
  });

  test('12: templates keep types', async () => {
    const ran = await stack.run(
      `
  - step: start
    tool: { kind: noop, result: { flag: "{{ flag }}", text: "n={{ 2 }}", joined: "{{ a }}{{ b }}", fallback: "{{ x | default(5) }}" } }`,
      { flag: false, a: 1, b: 2, x: null },
    );
    expect(ran.result).toEqual({ flag: false, text: 'n=2', joined: 12, fallback: 5 });
  });

  test('13: nothing leads out of the sandbox, and no template runs for long', async () => {
    const ran = await stack.run(`
  - step: start
    tool: { kind: noop, result: { a: "{{ ''.constructor is defined }}", b: "{{ ctx.__proto__ is defined }}" } }`);
    expect(ran.result).toEqual({ a: false, b: false });
    const before = performance.now();
    const endless = await stack.run(`
  - step: start
    tool: { kind: noop, result: "{% for i in range(10**9) %}x{% endfor %}" }`);
    expect(endless.status).toBe('failed');
    expect(performance.now() - before).toBeLessThan(5_000);
  });

  test('14: a large result is read as if it were small', async () => {
    const export_ = (rows: number) => `
  - step: start
    tool:
      kind: python
      code: 'result = {"status": "ok", "rows": [{"id": i, "text": "x" * 80} for i in range(${rows})]}'
      output: { select: [status, { path: "rows[1].id", as: second }] }
    next: { arcs: [{ step: after }] }
  - { step: after, tool: { kind: noop, result: { status: "{{ start.status }}", second: "{{ start.second }}", deep: "{{ start.rows[-1].id }}", apart: "{{ start._ref is defined }}" } } }`;
    expect((await stack.run(export_(5_000))).result).toEqual({ status: 'ok', second: 1, deep: 4_999, apart: true });
    expect((await stack.run(export_(10))).result).toEqual({ status: 'ok', second: 1, deep: 9, apart: false });
  });

  test('17: a finished run takes none of its events a second time', async () => {
    const ran = await stack.run('  - { step: start, tool: { kind: noop } }');
    const own = ran.events.filter((event) => /^(call|command\.(started|completed))|^step\.exit/.test(event.event_type));
    for (const event of own.toReversed()) {
      const answer = await fetch(`${stack.serverUrl}/api/events`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          execution_id: ran.id,
          event_type: event.event_type,
          step: 'start',
          payload: { command_id: Number(event.meta?.['command_id']) },
          meta: { command_id: Number(event.meta?.['command_id']), attempt: 1 },
          worker_id: event.worker_id,
        }),
      });
      expect(answer.status).toBeLessThan(300);
    }
    const again = await stack.read(ran.id);
    expect(again.events).toEqual(ran.events);
  });

  test('19: a cancel in a parallel loop ends it once', async () => {
    const path = await stack.register(`
  - step: start
    loop: { in: 40, iterator: n, spec: { mode: parallel } }
    tool: { kind: shell, command: sleep 0.3 }`);
    const { execution_id: id } = await stack.client.execute({ path });
    for (let claimed = false; !claimed; ) {
      claimed = (await stack.read(id)).steps('command.claimed').length > 0;
    }
    await stack.client.cancel(id, { reason: 'enough' });
    const ran = await stack.read(id);
    expect([ran.status, ran.steps('execution.cancelled').length]).toEqual(['cancelled', 1]);
  });

  test('20: a document with two faults is refused with both, and nothing is stored', async () => {
    const content = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: faulty, path: language/faulty }
workflow:
  - step: start
    tool:
      - name: a
        kind: noop
        spec: { policy: { rules: [{ else: { then: { do: jump, to: nowhere } } }] } }
    next: { arcs: [{ step: end }] }
  - step: end
`;
    const answer = await fetch(`${stack.serverUrl}/api/catalog/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ content }),
    });
    expect(answer.status).toBe(422);
    expect(await answer.json()).toMatchObject({
      detail: {
        errors: [
          { code: 'rule_action', step: 'start', task: 'a', line: 9 },
          { code: 'tool_missing', step: 'end', line: 11 },
        ],
      },
    });
    await expect(stack.client.execute({ path: 'language/faulty' })).rejects.toMatchObject({ status: 404 });
  });
});

describe('language 16 on a worker with one slot', () => {
  let narrow: LanguageStack;
  beforeAll(async () => {
    narrow = await startLanguageStack({ concurrency: 1 });
  });
  afterAll(() => narrow.close());

  test('15: waits for a child without a deadlock, reads its step, and fails with it', async () => {
    const child = await narrow.register(`
  - { step: start, tool: { kind: noop, result: { n: 7 } }, next: { arcs: [{ step: end }] } }
  - { step: end, tool: { kind: noop } }`);
    const parent = (path: string) => `
  - { step: start, tool: { kind: playbook, path: ${path}, return_step: start }, next: { arcs: [{ step: after }] } }
  - { step: after, tool: { kind: noop, result: "{{ start.n }}" } }`;
    const ran = await narrow.run(parent(child));
    expect([ran.status, ran.result]).toEqual(['completed', 7]);
    const failing = await narrow.register('  - { step: start, tool: { kind: shell, command: exit 1 } }');
    expect((await narrow.run(parent(failing))).status).toBe('failed');
  });

  test('8.9: what a child returns keeps the order of its keys', async () => {
    const child = await narrow.register(
      '  - { step: start, tool: { kind: noop, result: { zeta: 1, b: [{ name: n, id: 1 }], aa: 2 } } }',
    );
    const ran = await narrow.run(`
  - { step: start, tool: { kind: playbook, path: ${child}, wait: true }, next: { arcs: [{ step: after }] } }
  - { step: after, tool: { kind: noop, result: "text: {{ start | tojson }}" } }`);
    expect(ran.result).toContain('"zeta":1,"b":[{"name":"n","id":1}],"aa":2');
  });
});
