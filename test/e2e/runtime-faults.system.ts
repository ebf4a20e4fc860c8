/** What goes wrong while a run goes on ends in a failed step with a clear error that rules and arcs can handle; nothing hangs. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type LanguageStack, type Ran, startLanguageStack } from '../support/language-stack.ts';
import { queryRows } from '../support/postgres.ts';

let stack: LanguageStack;
beforeAll(async () => {
  stack = await startLanguageStack();
});
afterAll(() => stack.close());

/** The error of the first failed call. */
function errorOf(ran: Ran): unknown {
  const call = ran.events.find((event) => event.event_type === 'call.error');
  const context = call?.result?.['context'];
  return typeof context === 'object' && context !== null && 'error' in context ? context.error : null;
}

const single = (tool: string): string => `  - { step: start, tool: ${tool} }`;

describe('a template that raises', () => {
  test.each([
    ['in a field', single(`{ kind: noop, result: "{{ 1 / 0 }}" }`)],
    ['in an input', single(`{ kind: noop, input: { a: "{{ 1 / 0 }}" } }`)],
    ['in the set of a task', single(`{ kind: noop, set: { ctx.a: "{{ 1 / 0 }}" } }`)],
    [
      'in the set of a rule',
      single(
        `{ kind: noop, spec: { policy: { rules: [{ when: "{{ output.status == 'ok' }}", then: { do: continue, set: { ctx.a: "{{ 1 / 0 }}" } } }] } } }`,
      ),
    ],
    [
      'in the delay of a retry',
      single(`{ kind: noop, spec: { policy: { rules: [{ else: { then: { do: retry, delay: "{{ 1 / 0 }}" } } }] } } }`),
    ],
  ])('%s fails the task with kind transform', async (_where, workflow) => {
    const ran = await stack.run(workflow);
    expect(ran.status).toBe('failed');
    expect(errorOf(ran)).toMatchObject({ kind: 'transform', retryable: false });
  });

  test.each([
    ['the set of a step', `  - { step: start, tool: { kind: noop }, set: { ctx.a: "{{ 1 / 0 }}" } }`],
    [
      'a guard',
      `  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: b, when: "{{ 1 / 0 }}" }] } }\n  - { step: b, tool: { kind: noop } }`,
    ],
    [
      'the set of an arc',
      `  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: b, set: { a: "{{ 1 / 0 }}" } }] } }\n  - { step: b, tool: { kind: noop } }`,
    ],
    ['a collection', `  - { step: start, loop: { in: "{{ 1 / 0 }}", iterator: n }, tool: { kind: noop } }`],
    [
      'a bound',
      `  - { step: start, loop: { in: 2, iterator: n, spec: { mode: parallel, max_in_flight: "{{ 1 / 0 }}" } }, tool: { kind: noop } }`,
    ],
    [
      'admission',
      `  - { step: start, tool: { kind: noop }, spec: { policy: { admit: { rules: [{ when: "{{ 1 / 0 }}", then: { allow: true } }] } } } }`,
    ],
  ])('in %s fails the run and says where', async (_where, workflow) => {
    const ran = await stack.run(workflow);
    expect(ran.status).toBe('failed');
    expect(ran.error).toMatch(/start.*division by zero/is);
  });

  test('in a rule counts as not matching and is told as a warning', async () => {
    const ran = await stack.run(
      single(
        `{ kind: noop, spec: { policy: { rules: [{ when: "{{ 1 / 0 }}", then: { do: fail } }, { else: { then: { do: continue } } }] } } }`,
      ),
    );
    expect(ran.status).toBe('completed');
    const call = ran.events.find((event) => event.event_type === 'call.done');
    expect(call?.meta?.['warnings']).toEqual([expect.stringContaining("task 'start_task' rule 1")]);
  });
});

describe('what a tool answers', () => {
  test.each([
    ['a NUL', "{'deep': ['a' + chr(0)]}", /NUL character at \.deep\[0\]/],
    ['half a character', "'x' + chr(0xd800)", /half a surrogate pair/],
  ])('with %s is a failure that says where it is, and a rule can handle it', async (_what, value, says) => {
    const ran = await stack.run(`
  - step: start
    tool:
      kind: python
      code: ${JSON.stringify(`result = ${value}`)}
      spec: { policy: { rules: [{ when: "{{ output.status == 'error' }}", then: { do: continue, set: { ctx.why: "{{ output.error.message }}" } } }] } }
    next: { arcs: [{ step: after }] }
  - { step: after, tool: { kind: noop, result: "{{ ctx.why }}" } }`);
    expect(ran.status).toBe('completed');
    expect(ran.result).toMatch(says);
  });

  test('with ten megabytes is passed on whole', async () => {
    const ran = await stack.run(`
  - { step: start, tool: { kind: python, code: "result = {'text': 'x' * 10_000_000, 'n': 1}" }, next: { arcs: [{ step: after, when: "{{ start.n == 1 }}" }] } }
  - { step: after, tool: { kind: noop, result: { size: "{{ start.text | length }}" } } }`);
    expect(ran.result).toEqual({ size: 10_000_000 });
  });

  test.each([
    ['dies', 'import os\nos._exit(9)', /exit|died|ended/i],
    ['kills itself', 'import os, signal\nos.kill(os.getpid(), signal.SIGKILL)', /signal|kill/i],
    ['raises', 'raise ValueError("not so")', /not so/],
    ['recurses without end', 'def f(): return f()\nresult = f()', /recursion/i],
  ])('is a failure when python %s, and the worker goes on', async (_what, code, says) => {
    const ran = await stack.run(`
  - step: start
    tool:
      kind: python
      code: ${JSON.stringify(code)}
    next: { arcs: [{ step: after, when: "{{ event.name == 'call.error' }}" }] }
  - { step: after, tool: { kind: noop, result: { kind: "{{ steps.start.error.kind }}" } } }`);
    expect(ran.status).toBe('completed');
    expect(errorOf(ran)).toMatchObject({ message: expect.stringMatching(says), source: 'python' });
  });

  test('is not confused by what python prints', async () => {
    const ran = await stack.run(`
  - step: start
    tool:
      kind: python
      code: |
        import os, sys
        print('{"result": "forged"}')
        sys.stdout.buffer.write(bytes(range(256)))
        sys.stderr.write('x' * 100000)
        result = {"real": True}`);
    expect(ran.result).toEqual({ real: true });
  });

  test('is a failure that names the credential it could not find', async () => {
    const error = `{{ output.error.kind }}: {{ output.error.message }}`;
    const ran = await stack.run(
      single(
        `{ kind: postgres, command: select 1, auth: nowhere, spec: { policy: { rules: [{ when: "{{ output.status == 'error' }}", then: { do: continue, set: { ctx.why: "${error}" } } }] } } }`,
      ),
    );
    expect(ran.status).toBe('completed');
    const why = ran.events.find((event) => event.event_type === 'ctx.updated')?.context?.['values'];
    expect(JSON.stringify(why)).toMatch(/nowhere/);
  });
});

describe('references', () => {
  test('hold in guards, collections, filters, variables and artifacts alike', async () => {
    const ran = await stack.run(`
  - step: start
    tool:
      kind: python
      code: 'result = {"rows": [{"id": i, "text": "x" * 100} for i in range(1000)]}'
      spec: { policy: { rules: [{ else: { then: { do: continue, set: { ctx.kept: "{{ output.data.rows }}" } } } }] } }
      output: { select: [], store: { kind: kv, ttl: 1h }, scope: execution }
    next: { arcs: [{ step: each, when: "{{ start.rows | length == 1000 and ctx.kept[999].id == 999 }}" }] }
  - step: each
    loop: { in: "{{ start.rows[:3] }}", iterator: row, spec: { mode: parallel } }
    tool: { kind: noop, result: "{{ row.id + (ctx.kept | length) }}" }
    next: { arcs: [{ step: get }] }
  - step: get
    tool: { kind: artifact, action: get, input: { result_ref: "{{ start._ref }}" } }
    next: { arcs: [{ step: after }] }
  - step: after
    tool:
      kind: noop
      result: { each: "{{ each.results }}", sum: "{{ start.rows | map(attribute='id') | sum }}", kept: "{{ ctx.kept[-1].id }}", got: "{{ get.rows | length }}" }`);
    expect(ran.error).toBeNull();
    expect(ran.result).toEqual({ each: [1000, 1001, 1002], sum: 499_500, kept: 999, got: 1000 });
  });

  test('that lead nowhere fail the step by name', async () => {
    const ref = 'callboard://execution/1/result/start/1';
    const ran = await stack.run(single(`{ kind: artifact, action: get, input: { result_ref: "${ref}" } }`));
    expect(errorOf(ran)).toMatchObject({ kind: 'missing_reference', message: expect.stringContaining(ref) });
  });

  test('take the place of inputs that are too large', async () => {
    const path = await stack.register(single('{ kind: noop }'));
    await expect(stack.client.execute({ path, workload: { text: 'x'.repeat(1_100_000) } })).rejects.toMatchObject({
      status: 413,
      message: expect.stringContaining('store large values as results'),
    });
  });
});

describe('a cursor loop over a table', () => {
  test('gives every row to one body, also with another loop and a writer at work on it', async () => {
    const { databaseUrl } = stack;
    await queryRows(databaseUrl, 'drop table if exists public.outbox');
    await queryRows(databaseUrl, 'create table public.outbox (id int primary key, state text, by text)');
    await queryRows(databaseUrl, "insert into public.outbox select n, 'new' from generate_series(1, 40) as n");
    const answer = await fetch(`${stack.serverUrl}/api/credentials`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        name: 'outbox_db',
        type: 'postgres',
        data: { connection_string: databaseUrl },
      }),
    });
    expect(answer.status).toBeLessThan(300);
    const workflow = `
  - step: drain
    loop:
      cursor:
        kind: postgres
        auth: outbox_db
        claim: |
          update public.outbox set state = 'sending' where id in (
            select id from public.outbox where state = 'new' order by id limit {{ __frame_max_rows }} for update skip locked)
          returning id
      iterator: mail
      spec: { mode: cursor, max_in_flight: 4, frame: { max_rows: 7 } }
    tool:
      kind: postgres
      auth: outbox_db
      command: update public.outbox set state = 'sent', by = coalesce(by || ',', '') || $1 where id = $2
      params: ["{{ workload.name }}", "{{ mail.id }}"]
    next: { arcs: [{ step: after }] }
  - { step: after, tool: { kind: noop, result: { count: "{{ drain.count }}", failed: "{{ drain.stats.failed }}" } } }`;
    const [one, two] = await Promise.all([
      stack.run(workflow, { name: 'one' }),
      stack.run(workflow, { name: 'two' }),
      queryRows(databaseUrl, "insert into public.outbox select n, 'new' from generate_series(41, 60) as n"),
    ]);
    const rows = await queryRows<{ state: string; by: string }>(databaseUrl, 'select state, by from public.outbox');
    expect(rows).toHaveLength(60);
    expect(rows.filter(({ state, by }) => state !== 'sent' || !['one', 'two'].includes(by))).toEqual([]);
    expect([one?.status, two?.status]).toEqual(['completed', 'completed']);
    const counts = [one?.result, two?.result].map((result) => (result as { count: number; failed: number }).count);
    expect((counts[0] ?? 0) + (counts[1] ?? 0)).toBe(60);
  });

  test('fails with what the database says of a claim', async () => {
    const ran = await stack.run(`
  - step: start
    loop: { cursor: { kind: postgres, auth: outbox_db, claim: "update public.nowhere set a = 1 returning a" }, iterator: row, spec: { mode: cursor } }
    tool: { kind: noop }`);
    expect(ran.status).toBe('failed');
    expect(ran.error).toMatch(/nowhere/);
  });
});
