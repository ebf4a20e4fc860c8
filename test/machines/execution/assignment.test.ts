import { describe, expect, test } from 'vitest';
import { runFromVisible, visibleRun } from '../../../machines/execution/visible-run.ts';
import { arc, first, step } from '../../support/playbooks.ts';
import { given } from '../../support/story.ts';

describe('at the end of a step', () => {
  test('writes of the command, set, guards, arc set and dispatch come in this order', () => {
    const story = given([
      step('a', {
        set: { 'ctx.seen': '{{ ctx.w }}-{{ a.v }}-{{ output.data.v }}' },
        ...first(arc('b', { when: "ctx.seen == 'w-1-1'", set: { 'ctx.last': '{{ ctx.seen }}!' } })),
      }),
      step('b'),
    ])
      .start()
      .ok('a', { v: 1 }, { ctx: { w: 'w' } });
    expect(story.told).toEqual(['ctx.updated a', 'ctx.updated a', 'ctx.updated a', 'step.enter b', 'command.issued b']);
    expect(story.decided.slice(0, 3).map((event) => event.context)).toEqual([
      { step: 'a', source: 'command', values: { w: 'w' } },
      { step: 'a', source: 'step', values: { seen: 'w-1-1' } },
      { step: 'a', source: 'arc', values: { last: 'w-1-1!' } },
    ]);
    const causes = new Set(story.decided.map((event) => event.causeId));
    expect(causes).toEqual(new Set([story.events('command.completed')[0]?.eventId]));
  });

  test('writes of a failed command are there for the error route', () => {
    const story = given([step('a', first(arc('b', 'error and ctx.why == 7'))), step('b')]).start();
    expect(story.fail('a', {}, { ctx: { why: 7 } }).openKeys).toEqual(['b']);
  });

  test('a set that fails fails its step, which keeps its value and shows the error until it is entered again', () => {
    const set = { 'ctx.x': '{{ 1 + (ctx.n | default(none)) }}' };
    const seen = '{{ [steps.a.status, steps.a.error.kind, steps.a.error.status, steps.a.data, a] }}';
    const story = given([
      step('a', { set, ...first(arc('b', { when: 'error', set: { seen, n: 1 } }), arc('c')) }),
      step('b', { tool: { kind: 'noop', result: '{{ steps.a.error.code }}' }, ...first('a') }),
      step('c'),
    ]).start();
    story.ok('a', 'kept');
    expect(story.told).toEqual(['ctx.updated a', 'ctx.updated a', 'step.enter b', 'command.issued b']);
    expect(story.decided[0]).toMatchObject({
      context: { step: 'a', source: 'step', values: {} },
      meta: { failed: { kind: 'transform', message: expect.stringContaining("set of step 'a'") } },
    });
    expect(story.variables['seen']).toEqual(['failed', 'transform', null, 'kept', 'kept']);
    expect(story.command('b').context.steps['a']).toMatchObject({ status: 'failed', error: { kind: 'transform' } });
    expect(story.run).toMatchObject({ counts: { completed: 0, failed: 1 }, lastCompleted: null });
    const copy = runFromVisible(visibleRun(story.run));
    expect(copy.steps['a']?.failure).toMatchObject({ kind: 'transform' });
    story.ok('b').ok('a', 'again');
    expect(story.run.steps['a']).toMatchObject({ status: 'completed', failure: null });
    expect(story.variables['x']).toBe(2);
    expect(story.openKeys).toEqual(['c']);
  });

  test('a set that fails leaves the last step that did complete as the final one', () => {
    const story = given([
      step('a', first('b')),
      step('b', { set: { x: '{{ 1 + none }}' }, ...first(arc('end', 'error')) }),
    ]).start();
    story.ok('a', 'first').ok('b', 'second');
    expect(story.end.context).toMatchObject({ status: 'completed', final_step: 'a', result: 'first' });
  });

  test('all values of one set see the state before it', () => {
    const story = given([step('a', { set: { 'ctx.x': '{{ ctx.y }}', 'ctx.y': '{{ ctx.x }}' } })], {
      workload: { x: 1, y: 2 },
    });
    expect(story.start().ok('a').variables).toEqual({ x: 2, y: 1 });
  });

  test('a dotted key writes into a map and keeps its siblings, also those of the inputs', () => {
    const story = given(
      [step('a', { set: { 'ctx.cfg.limit': 5, 'ctx.cfg.deep.er': true, 'step.plain': 1, bare: 2, 'ctx.n.m': 3 } })],
      { workload: { cfg: { limit: 1, keep: 'me' }, n: 'no map' } },
    );
    expect(story.start().ok('a').variables).toEqual({
      cfg: { limit: 5, keep: 'me', deep: { er: true } },
      plain: 1,
      bare: 2,
      n: { m: 3 },
    });
  });

  test('later writes win, and a write hides a step of the same name', () => {
    const story = given([
      step('a', { set: { 'ctx.a': 'hidden' }, ...first(arc('b', "a == 'hidden' and steps.a.data == 'real'")) }),
      step('b'),
    ]);
    expect(story.start().ok('a', 'real').openKeys).toEqual(['b']);
  });

  test('writes of a command may be paths, and never the prototype', () => {
    const story = given([step('a')])
      .start()
      .ok('a', null, { ctx: { 'm.x': 1, 'm.y': 2, __proto__: { z: 1 }, 'm.__proto__.z': 1, '': 9 } });
    expect(story.variables).toEqual({ m: { x: 1, y: 2 } });
    expect(({} as { z?: number }).z).toBeUndefined();
  });

  test('the outcome recorded last wins', () => {
    const story = given([
      step('s', { next: { spec: { mode: 'inclusive' }, arcs: [{ step: 'a' }, { step: 'b' }] } }),
      step('a'),
      step('b'),
    ]);
    story
      .start()
      .ok('s')
      .ok('b', null, { ctx: { x: 'b' } })
      .ok('a', null, { ctx: { x: 'a' } });
    expect(story.variables).toEqual({ x: 'a' });
  });

  test('an error in a step set fails the step, which an error arc may handle', () => {
    const steps = [
      step('a', {
        set: { 'ctx.ok': 1, 'ctx.x': '{{ output.data + 1 }}' },
        ...first(arc('b', "error.kind == 'transform' and event.name == 'call.error'")),
      }),
      step('b'),
    ];
    const story = given(steps).start().ok('a', { not: 'a number' });
    expect(story.openKeys).toEqual(['b']);
    expect(story.variables).toEqual({});
    const failed = given([step('a', { set: { 'ctx.x': '{{ 1 / 0 }}' } })])
      .start()
      .ok('a');
    expect(failed.end.context['error_detail']).toMatchObject({ errors: [{ step: 'a', kind: 'transform' }] });
  });

  test.each(["{{ '\\x00' }}", "{{ ['\\ud800'] }}"])('text that no log can hold is an error: %s', (text) => {
    const failed = given([step('a', { set: { 'ctx.x': text } })])
      .start()
      .ok('a');
    expect(failed.end.context['error_detail']).toMatchObject({ errors: [{ step: 'a', kind: 'transform' }] });
    const arcs = first(arc('b', { set: { 'ctx.x': text } }));
    const story = given([step('a', arcs), step('b')])
      .start()
      .ok('a');
    expect(story.end.context['error_detail']).toMatchObject({ errors: [{ step: 'a', kind: 'transform' }] });
    const loop = given([step('a', { loop: { in: [text], iterator: 'item' } })]).start();
    expect(loop.end.context['error_detail']).toMatchObject({ errors: [{ step: 'a', kind: 'transform' }] });
  });

  test('an error in an arc set fails the execution', () => {
    const story = given([
      step('a', first(arc('b', { set: { 'ctx.x': '{{ 1 / 0 }}' } }), arc('c', 'error'))),
      step('b'),
      step('c'),
    ]);
    expect(story.start().ok('a').end.context['error']).toContain("set of the arc from 'a' to 'b'");
  });

  test('writes of a command under no name at all are none', () => {
    const story = given([step('a')])
      .start()
      .ok('a', null, { ctx: { '': 1, '__proto__.x': 1 } });
    expect(story.told).not.toContain('ctx.updated a');
  });

  test('writes of a command into one map keep each other', () => {
    const story = given([step('a', first('b')), step('b')]).start();
    story.ok('a', null, { ctx: { 'm.x': 1 } }).ok('b', null, { ctx: { 'm.y': 2 } });
    expect(story.variables).toEqual({ m: { x: 1, y: 2 } });
  });

  test('a value whose payload is gone fails what asks for it, and says which', () => {
    const story = given([step('a', first('b')), step('b', { set: { 'ctx.n': '{{ a.rows | length }}' } })], {}, {});
    const rows = Array.from({ length: 60 }, (_, id) => id);
    story.start();
    const stored = story.store({ rows }, 'a', 100);
    if (stored === null) throw new Error('the value fits');
    const { commandId } = story.command('a').event;
    const result = { status: 'completed', context: stored.summary, reference: stored.reference };
    story.note({ type: 'call.done', status: 'completed', nodeName: 'a', commandId, attempt: 1, result });
    story.close('a', 'command.completed').lose(stored.reference.ref).ok('b');
    expect(story.end.context['error_detail']).toMatchObject({
      errors: [
        {
          step: 'b',
          kind: 'missing_reference',
          code: 'MISSING_REFERENCE',
          message: `set of step 'b': Result not found: ${stored.reference.ref}`,
        },
      ],
    });
  });

  test('large values are stored apart and read back whole', () => {
    const rows = Array.from({ length: 60 }, (_, id) => ({ id }));
    const story = given(
      [
        step('a', { set: { 'ctx.rows': '{{ output.data.rows }}' }, ...first('b') }),
        step('b', { set: { 'ctx.n': '{{ ctx.rows | length }}', 'ctx.rows': '{{ ctx.rows + [1] }}' }, ...first('c') }),
        step('c', { tool: { kind: 'noop', result: '{{ rows }}' }, set: { 'ctx.rows.extra': 1 } }),
      ],
      {},
      { inlineMaxBytes: 200 },
    )
      .start()
      .ok('a', { rows });
    expect(story.decided[0]?.context).toMatchObject({
      values: { rows: { _size_bytes: expect.any(Number) } },
      references: { rows: expect.stringMatching(/^callboard:/) },
    });
    story.ok('b');
    expect(story.variables).toMatchObject({ n: 60 });
    expect(story.last('c').context.ctx_refs).toMatchObject({ rows: expect.stringMatching(/^callboard:/) });
    story.ok('c');
    expect(story.variables['rows']).toEqual({ extra: 1 });
  });
});

describe('names on the server', () => {
  test('are what language 8.2 lists', () => {
    const wanted = {
      workload: '{{ workload }}',
      ctx: '{{ ctx }}',
      bare: '{{ n }}',
      own: '{{ a.v }}',
      data: '{{ a.data.v }}',
      args: '{{ args }}',
      id: '{{ execution_id }}',
      catalog: '{{ catalog_id }}',
      job: '{{ job }}',
      iter: '{{ iter }}',
      result: '{{ result }}',
      path: '{{ path }}',
      version: '{{ version }}',
      steps: '{{ steps }}',
      error: '{{ error }}',
      unknown: '{{ nothing }}',
      other: '{{ b }}',
      one: '{{ steps.b is defined }}',
      odd: '{{ steps.a.odd }}',
      loop: '{{ loop is defined }}',
      event: '{{ event.odd }}',
      output: '{{ output }}',
    };
    const set = Object.fromEntries(Object.entries(wanted).map(([name, value]) => [`ctx.o_${name}`, value]));
    const story = given([step('a', { set, ...first('b') }), step('b')], { workload: { n: 1, m: 2 } }).start({ n: 3 });
    story.ok('a', { v: 4 }, { ctx: { w: 5 } });
    const seen = Object.fromEntries(Object.entries(story.variables).map(([name, value]) => [name.slice(2), value]));
    expect(seen).toMatchObject({
      workload: { n: 3, m: 2 },
      ctx: { n: 3, m: 2, w: 5 },
      bare: 3,
      own: 4,
      data: 4,
      args: { n: 3 },
      id: '41007',
      catalog: '2003',
      job: { uuid: '41007', execution_id: '41007', id: '41007' },
      iter: {},
      result: { v: 4 },
      path: 'tests/told',
      version: 3,
      steps: {
        a: {
          status: 'completed',
          data: { v: 4 },
          ref: null,
          error: null,
          results: null,
          failed_task: null,
          activation: 1,
        },
      },
      error: null,
      unknown: null,
      other: null,
      one: false,
      odd: null,
      loop: false,
      event: null,
      output: { status: 'ok', data: { v: 4 }, ref: null, error: null, meta: { attempt: null } },
    });
  });

  test('may be shadowed by inputs only where they are not reserved', () => {
    const story = given([
      step('a', {
        set: {
          'ctx.p': '{{ path }}',
          'ctx.s': '{{ steps is mapping }}',
          'ctx.w': '{{ workload.steps }}',
          'ctx.r': '{{ result }}',
        },
      }),
    ]);
    story.start({ path: 'mine', steps: 'x', result: 'mine too' }).ok('a', 1);
    expect(story.variables).toEqual({ p: 'mine', s: true, w: 'x', r: 'mine too' });
  });

  test('a step that was closed without a word has the value null', () => {
    const story = given([
      step('a', first(arc('b', 'a is defined and a is none'))),
      step('b', { tool: { kind: 'noop', result: '{{ a }}' } }),
    ]);
    story.start().close('a', 'command.completed');
    expect(story.openKeys).toEqual(['b']);
    expect(story.last('b').context.steps['a']).toMatchObject({ status: 'completed', value: null, error: null });
  });

  test.each([
    [
      'http',
      { status_code: 503, headers: { a: 'b' } },
      { kind: 'server_error', code: 'HTTP_503', status_code: 503 },
      'output.http.status == 503 and error.status == 503',
    ],
    [
      'postgres',
      null,
      { kind: 'db_constraint', code: '23505' },
      "output.pg.sqlstate == '23505' and output.pg.code == '23505'",
    ],
    [
      'python',
      null,
      { kind: 'schema', code: 'PY_ValueError' },
      "output.py.exception == 'ValueError' and output.py.traceback is none",
    ],
    [
      'javascript',
      null,
      { kind: 'schema', code: 'JS_TypeError', details: { exception: 'T', traceback: 'tb' } },
      "output.js.exception == 'T' and output.js.traceback == 'tb'",
    ],
    ['python', null, { kind: 'timeout', code: null }, "output.py.exception == ''"],
    ['postgres', null, { kind: 'connection', code: null }, 'output.pg.code is none and output.error'],
  ])('the envelope of a failed %s step has its own members', (kind, data, error, when) => {
    const tools: { [kind: string]: object } = {
      http: { url: 'http://x' },
      postgres: { command: 'select 1', auth: 'a' },
      python: { code: 'x' },
      javascript: { code: 'x' },
    };
    const story = given([step('a', { tool: { kind, ...tools[kind] }, ...first(arc('b', when)) }), step('b')]).start();
    expect(story.fail('a', error, data === null ? {} : { data }).openKeys).toEqual(['b']);
  });

  test('a step of an unusual name is reachable under steps', () => {
    const story = given([step('my step', first(arc('b', "steps['my step'].data == 1"))), step('b')]).start();
    expect(story.ok('my step', 1).openKeys).toEqual(['b']);
  });
});

describe('the context of a command', () => {
  test('holds only what its tasks can reference', () => {
    const story = given(
      [
        step('a', { set: { 'ctx.used': 1, 'ctx.unused': 2 }, ...first('b') }),
        step('b', { tool: { kind: 'noop', result: '{{ used }} {{ big }} {{ a.x }} {{ args.n }}' } }),
      ],
      { workload: { big: 'B', other: 'O' } },
    )
      .start({ n: 1 })
      .ok('a', { x: 1 });
    expect(story.last('b').context).toEqual({
      execution_id: '41007',
      catalog_id: '2003',
      path: 'tests/told',
      version: 3,
      workload: { big: 'B' },
      args: { n: 1 },
      ctx: { used: 1 },
      steps: { a: { status: 'completed', value: { x: 1 }, ref: null, error: null, activation: 1 } },
    });
  });

  test('holds everything for code that asks for its context', () => {
    const story = given(
      [
        step('a', { set: { 'ctx.v': 1 }, ...first('b') }),
        step('b', { tool: { kind: 'python', code: 'result = context' } }),
      ],
      { workload: { w: 1 } },
    )
      .start()
      .settle('a', 'ok', { data: { x: 1 }, meta: { tasks: { t: { status: 'ok' } } } });
    expect(story.last('b').context).toMatchObject({
      workload: { w: 1 },
      ctx: { v: 1 },
      steps: { a: { tasks: { t: { status: 'ok' } } } },
    });
  });

  test('names the keychain entries it may read, and those that are not declared', () => {
    const keychain = [{ name: 'db', kind: 'bearer', token: 'x' }];
    const entries = (result: string) =>
      given([step('a', { tool: { kind: 'noop', result } })], { keychain })
        .start()
        .last('a').context.keychain;
    expect(entries('{{ keychain }}')).toEqual({ db: 'global' });
    expect(entries('{{ keychain.other.token }}')).toEqual({ other: null });
  });

  test('shows steps when it asks for all, with the failed task', () => {
    const story = given([
      step('a', first(arc('b', 'error'))),
      step('b', { tool: { kind: 'noop', result: '{{ steps }} {{ ctx }}' } }),
    ]).start();
    story.settle('a', 'error', { error: { kind: 'x', code: null, message: 'm' }, meta: { failed_task: 't' } });
    expect(story.last('b').context.steps).toMatchObject({
      a: { status: 'failed', failed_task: 't', error: { message: 'm' } },
    });
  });
});
