import { describe, expect, test } from 'vitest';
import { failureSentence } from '../../../machines/execution/outcome.ts';
import { admits, arc, every, first, NEVER, step } from '../../support/playbooks.ts';
import { given, IDENTITY } from '../../support/story.ts';

const A_TO_B = [step('a', first('b')), step('b')];

describe('a start', () => {
  test('enters the step named start and issues its command in the same turn', () => {
    const story = given([step('other'), step('start')]).start({ who: 'me' });
    expect(story.told).toEqual(['step.enter start', 'command.issued start']);
    const [enter, issued] = story.decided;
    expect(enter).toMatchObject({
      eventId: 2,
      causeId: 1,
      status: 'started',
      nodeType: 'step',
      context: { activation: 1 },
    });
    expect(issued).toMatchObject({
      eventId: 3,
      causeId: 1,
      status: 'pending',
      nodeType: 'noop',
      attempt: 0,
      engineVersion: 1,
      parentEventId: 1,
      meta: { step: 'start', activation: 1, tool_kind: 'noop', attempt: 0 },
    });
    expect(issued?.meta['command_id']).toBe(issued?.commandId);
    expect(story.issued[0]?.key).toBe('start@1');
  });

  test('enters the first step when none is named start', () => {
    expect(given([step('one'), step('two')]).start().entered).toEqual(['one']);
  });

  test('enters the declared entry step', () => {
    const story = given([step('start'), step('two')], { executor: { spec: { entry_step: 'two' } } }).start();
    expect(story.entered).toEqual(['two']);
  });
});

describe('the end', () => {
  test('comes after the last step, as an adjacent pair with one duration', () => {
    const story = given(A_TO_B).start().ok('a', 1);
    story.now += 1_500;
    story.ok('b', { text: 'hi' });
    expect(story.told).toEqual(['workflow.completed workflow', `playbook.completed ${IDENTITY.path}`]);
    const [workflow, playbook] = story.decided;
    const context = { status: 'completed', final_step: 'b', result: { text: 'hi' }, error: null };
    expect(workflow).toMatchObject({ context, duration: 1_500, nodeType: 'workflow' });
    expect(playbook).toMatchObject({ context, duration: 1_500, nodeType: 'playbook' });
    expect(playbook?.eventId).toBe((workflow?.eventId ?? 0) + 1);
    expect(playbook?.causeId).toBe(story.log.findLast((event) => event.type === 'command.completed')?.eventId);
    expect(story.value).toBe('completed');
  });

  test('leaves a defined step end alone that no arc reaches', () => {
    const story = given([step('start', first('a')), step('a'), step('end')])
      .start()
      .ok('start')
      .ok('a', 7);
    expect(story.result).toBe(7);
    expect(story.log.some((event) => event.nodeName === 'end')).toBe(false);
  });

  test('runs a defined step end that an arc reaches', () => {
    const story = given([step('start', first('end')), step('end')])
      .start()
      .ok('start');
    expect(story.entered).toEqual(['start', 'end']);
  });

  test('ends the branch at an arc to an undefined end', () => {
    const story = given([step('start', first(arc('end', { set: { 'ctx.x': 1 } })))])
      .start()
      .ok('start', 5);
    expect(story.told).toEqual(['ctx.updated start', 'workflow.completed workflow', 'playbook.completed tests/told']);
    expect(story.result).toBe(5);
  });

  test('is completed when no guard is true', () => {
    const story = given([step('a', first(arc('b', 'false'))), step('b')])
      .start()
      .ok('a', 'last');
    expect(story.end.type).toBe('playbook.completed');
    expect(story.result).toBe('last');
  });

  test('has the value of the final step when it completed', () => {
    const steps = [step('a', first('b')), step('b')];
    const keys = { executor: { spec: { final_step: 'a' } } };
    expect(given(steps, keys).start().ok('a', 'A').ok('b', 'B').result).toBe('A');
    const story = given([step('a', first(arc('c', 'x'), arc('b'))), step('b'), step('c')], {
      executor: { spec: { final_step: 'c' } },
    });
    expect(story.start().ok('a', 'A').ok('b', 'B').result).toBe('B');
  });

  test('has no result when no step completed', () => {
    const story = given([step('a', first(arc('end', "event.name == 'call.error'")))])
      .start()
      .fail('a');
    expect(story.end.type).toBe('playbook.completed');
    expect(story.end.context).toMatchObject({ result: null, final_step: null });
  });
});

describe('a result', () => {
  test('that is stored apart is told by its summary and its reference', () => {
    const story = given([step('a')]).start();
    const stored = story.store({ rows: Array.from({ length: 60 }, (_, id) => id) }, 'a', 100);
    if (stored === null) throw new Error('the value fits');
    const { commandId } = story.command('a').event;
    const result = { status: 'completed', context: stored.summary, reference: stored.reference };
    story.note({ type: 'call.done', status: 'completed', nodeName: 'a', commandId, attempt: 1, result });
    expect(story.close('a', 'command.completed').end.context).toMatchObject({
      result: stored.summary,
      result_ref: stored.reference.ref,
    });
  });
});

describe('a run of what another run began', () => {
  const steps = [step('a', first('b')), step('b', first('c')), step('c')];

  test('takes over the values of steps and begins where it is told to', () => {
    const story = given(steps);
    story.copied = [
      {
        type: 'step.exit',
        status: 'completed',
        nodeName: 'a',
        nodeType: 'step',
        result: { status: 'completed', context: { data: 7 } },
        meta: { copied_from: { execution_id: 1, event_id: 5 } },
      },
    ];
    story.start({}, { from_step: 'b' });
    expect(story.entered).toEqual(['b']);
    expect(story.run.steps['a']).toMatchObject({ status: 'completed', activation: 1, entered: 0 });
    expect(story.ok('b').ok('c').end.type).toBe('playbook.completed');
  });
});

describe('arcs', () => {
  const fork = (mode: typeof first) =>
    given([step('a', mode(arc('b', '{{ a.x > 10 }}'), arc('c'))), step('b', first('d')), step('c'), step('d')]).start();

  test('exclusive ones take the first whose guard is true, and the other is skipped', () => {
    const story = fork(first).ok('a', { x: 11 });
    expect(story.told).toEqual(['step.enter b', 'command.issued b', 'step.skipped c']);
    expect(story.decided[2]).toMatchObject({ status: 'skipped', context: { reason: 'not_taken' } });
  });

  test('steps behind a skipped one have no event', () => {
    const story = fork(first).ok('a', { x: 1 });
    expect(story.told).toEqual(['step.enter c', 'command.issued c', 'step.skipped b']);
    expect(story.ok('c').log.some((event) => event.nodeName === 'd')).toBe(false);
  });

  test('inclusive ones take every one whose guard is true', () => {
    expect(fork(every).ok('a', { x: 11 }).openKeys).toEqual(['b', 'c']);
    expect(fork(every).ok('a', { x: 1 }).openKeys).toEqual(['c']);
  });

  test('a literal false is never taken, a literal true always', () => {
    const story = given([step('a', first(arc('b', { when: false }), arc('c', { when: true }))), step('b'), step('c')]);
    expect(story.start().ok('a').openKeys).toEqual(['c']);
  });

  test('two arcs to one target are one edge with both sets', () => {
    const story = given([
      step('a', every(arc('b', { set: { 'ctx.one': 1 } }), arc('b', { set: { 'ctx.two': 2 } }))),
      step('b'),
    ])
      .start()
      .ok('a');
    expect(story.entered).toEqual(['a', 'b']);
    expect(story.variables).toEqual({ one: 1, two: 2 });
  });

  test('two arcs to one target that is denied deny it once', () => {
    const story = given([step('a', every('b', 'b')), step('b', NEVER)])
      .start()
      .ok('a');
    expect(story.skipped).toEqual(['b']);
  });

  test('the set of an arc is applied before its target is dispatched', () => {
    const story = given([
      step('a', first(arc('b', { set: { 'ctx.n': '{{ output.data + 1 }}' } }))),
      step('b', { tool: { kind: 'noop', result: '{{ n }}' } }),
    ]);
    story.start().ok('a', 4);
    expect(story.told).toEqual(['ctx.updated a', 'step.enter b', 'command.issued b']);
    expect(story.decided[0]?.context).toEqual({ step: 'a', source: 'arc', values: { n: 5 } });
    expect(story.last('b').context.ctx).toEqual({ n: 5 });
  });

  test('to an open step apply their set and dispatch nothing', () => {
    const story = given([
      step('a', every('b', 'c')),
      step('b', first(arc('c', { when: 'true', set: { 'ctx.seen': true } }))),
      step('c', first(arc('b', 'false'))),
    ]);
    story.start().ok('a').ok('b');
    expect(story.variables).toEqual({ seen: true });
    expect(story.entered.filter((name) => name === 'c')).toHaveLength(1);
  });
});

describe('a guard', () => {
  test('that raises fails the execution and names step, arc and expression', () => {
    const story = given([step('charge', first(arc('b', '{{ charge.x + 1 > 0 }}'))), step('b')])
      .start()
      .ok('charge', {});
    expect(story.end.type).toBe('playbook.failed');
    const detail = story.end.context['error_detail'];
    expect(detail).toMatchObject({ failed_steps: ['charge'], errors: [{ step: 'charge', kind: 'transform' }] });
    const { message } = (detail as { errors: [{ message: string }] }).errors[0];
    expect(message).toContain("'charge'");
    expect(message).toContain("'b'");
    expect(message).toContain('charge.x + 1 > 0');
    expect(story.end.context['error']).toMatch(/^Failed steps: charge: guard of the arc/);
  });

  test('that raises after an earlier arc was dispatched leaves nothing pending', () => {
    const story = given([
      step('a', every(arc('b'), arc('c', { set: { 'ctx.x': '{{ 1 / 0 }}' } }))),
      step('b'),
      step('c'),
    ]);
    story.start().ok('a');
    expect(story.told).toEqual([
      'step.enter b',
      'command.issued b',
      'command.cancelled b',
      'workflow.failed workflow',
      'playbook.failed tests/told',
    ]);
  });

  const names = (outcome: 'ok' | 'error', when: string, loop: object = {}) => {
    const story = given([step('a', { ...loop, ...first(arc('b', when)) }), step('b')]).start();
    if (outcome === 'ok') story.ok('a', 1);
    else story.fail('a');
    return story.entered.includes('b');
  };
  const LOOP = { loop: { in: [1], iterator: 'n' } };

  test.each(['call.done', 'step.done', 'step.exit', 'command.completed'])('sees a success as %s', (name) => {
    expect(names('ok', `event.name == '${name}'`)).toBe(true);
    expect(names('ok', `event.name != '${name}'`)).toBe(false);
    expect(names('ok', `event.name in ['${name}']`)).toBe(true);
    expect(names('ok', `event.name not in ['${name}']`)).toBe(false);
    expect(names('ok', `event.name == '${name}'`, LOOP)).toBe(true);
    expect(names('error', `event.name == '${name}'`)).toBe(false);
  });

  test.each(['call.error', 'step.failed', 'command.failed'])('sees a failure as %s', (name) => {
    expect(names('error', `event.name == '${name}'`)).toBe(true);
    expect(names('error', `event.name == '${name}'`, LOOP)).toBe(true);
    expect(names('ok', `event.name == '${name}'`)).toBe(false);
  });

  test('tells loops apart by their own names', () => {
    expect(names('error', "'error' in event.name and 'done' not in event.name")).toBe(true);
    expect(names('ok', "'call.' in event.name and 'step.exit' in event.name and 'error' not in event.name")).toBe(true);
    expect(names('ok', "event.name == 'loop.done'", LOOP)).toBe(true);
    expect(names('ok', "event.name == 'loop.done'")).toBe(false);
    expect(names('error', "event.name == 'loop.failed'", LOOP)).toBe(true);
    expect(names('error', "event.name == 'loop.failed'")).toBe(false);
    expect(names('error', "event.name == 'loop.done'", LOOP)).toBe(false);
  });

  test('sees the canonical name elsewhere, the step, the instant and the envelope', () => {
    const story = given([
      step(
        'a',
        first(
          arc('b', {
            set: {
              'ctx.all': '{{ event }}',
              'ctx.text': '{{ event.name | upper }}',
              'ctx.kind': '{{ event.payload.status }}',
            },
          }),
        ),
      ),
      step('b'),
    ])
      .start()
      .ok('a', { n: 1 });
    expect(story.variables).toMatchObject({
      text: 'CALL.DONE',
      kind: 'ok',
      all: {
        name: 'call.done',
        step: 'a',
        timestamp: story.at,
        payload: { status: 'ok', data: { n: 1 }, error: null, ref: null },
      },
    });
  });
});

describe('a failed step', () => {
  test('without an error arc fails the run, and its unguarded target does not run', () => {
    const story = given(A_TO_B).start().fail('a', { kind: 'auth', code: 'HTTP_401', message: 'no' });
    expect(story.told).toEqual(['workflow.failed workflow', 'playbook.failed tests/told']);
    expect(story.end).toMatchObject({ status: 'failed', error: 'Failed steps: a: no' });
    expect(story.end.context).toEqual({
      status: 'failed',
      final_step: null,
      result: null,
      error: 'Failed steps: a: no',
      error_detail: {
        message: 'Failed steps: a',
        failed_steps: ['a'],
        errors: [{ step: 'a', task: null, iteration: null, kind: 'auth', code: 'HTTP_401', message: 'no' }],
      },
    });
  });

  test.each([
    "event.name == 'call.error'",
    'error.kind',
    "output.status == 'error'",
    "output.error.kind == 'tool_error'",
    'not output.http.status',
    'not output.pg.code',
    'output.js is defined or true',
    "output['error'] is defined",
  ])('is handled by an arc that looks at the outcome: %s', (when) => {
    const story = given([step('a', first('c', arc('b', when))), step('b'), step('c')])
      .start()
      .fail('a');
    expect(story.entered).toEqual(['a', 'b']);
    expect(story.ok('b').end.type).toBe('playbook.completed');
  });

  test('is not handled by an arc that looks only at data', () => {
    const story = given([step('a', first(arc('b', 'output.data is undefined or true'))), step('b')])
      .start()
      .fail('a');
    expect(story.end.type).toBe('playbook.failed');
  });

  test('is not handled by an error arc whose guard is false', () => {
    const story = given([step('a', first(arc('b', "output.error.kind != 'auth'"))), step('b')]).start();
    expect(story.fail('a', { kind: 'auth' }).end.type).toBe('playbook.failed');
  });

  test('keeps its data as its value, and its error under steps', () => {
    const story = given([
      step(
        'a',
        first(
          arc('b', {
            when: 'error',
            set: { 'ctx.v': '{{ a.body }}', 'ctx.e': '{{ steps.a.error.code }}', 'ctx.s': '{{ steps.a.status }}' },
          }),
        ),
      ),
      step('b'),
    ])
      .start()
      .fail('a', { code: 'HTTP_503', status_code: 503 }, { data: { body: 'busy' } });
    expect(story.variables).toEqual({ v: 'busy', e: 'HTTP_503', s: 'failed' });
  });

  test('does not run its own set', () => {
    const story = given([step('a', { set: { 'ctx.x': 1 }, ...first(arc('b', 'error')) }), step('b')])
      .start()
      .fail('a');
    expect(story.variables).toEqual({});
  });

  test('lets claimed work finish, cancels what is pending and gives up parked waits', () => {
    const story = given([
      step('a', every('bad', 'busy', 'idle', 'waits')),
      step('bad'),
      step('busy', first('after')),
      step('idle'),
      step('waits', { tool: { kind: 'playbook', path: 'x', wait: true } }),
      step('after'),
    ])
      .start()
      .ok('a');
    story.claim('busy', 'bad').park('waits', 77).fail('bad', { message: 'first' });
    expect(story.told).toEqual(['command.cancelled idle', 'ctx.updated bad']);
    expect(story.decided[0]?.context['reason']).toBe('Failed steps: bad: first');
    expect(story.value).toBe('running.failing');
    expect(story.abandoned).toEqual([77]);
    expect(story.openKeys).toEqual(['busy']);
    story.ok('busy', 1, { ctx: { late: true } });
    expect(story.told).toEqual(['ctx.updated busy', 'workflow.failed workflow', 'playbook.failed tests/told']);
    expect(story.entered).not.toContain('after');
    expect(story.variables).toEqual({ late: true });
  });

  test('does not begin to wait for a child, and ends with the wait that was the last work', () => {
    const waiting = { tool: { kind: 'playbook', path: 'x', wait: true } };
    const story = given([
      step('a', every('bad', 'waits', 'waits_too')),
      step('bad'),
      step('waits', waiting),
      step('waits_too', waiting),
    ])
      .start()
      .ok('a');
    story.claim('bad', 'waits', 'waits_too').fail('bad', { message: 'first' }).park('waits', 77);
    expect(story.abandoned).toEqual([77]);
    expect(story.told).toEqual([]);
    expect(story.openKeys).toEqual(['waits_too']);
    story.park('waits_too', 78);
    expect(story.abandoned).toEqual([77, 78]);
    expect(story.told).toEqual(['workflow.failed workflow', 'playbook.failed tests/told']);
    expect(story.end.context['error']).toBe('Failed steps: bad: first');
  });

  test('says nothing anew when other work ends while some is still claimed', () => {
    const story = given([step('start', every('a', 'b', 'c')), step('a'), step('b'), step('c')])
      .start()
      .ok('start');
    story.claim('a', 'b', 'c').fail('a').ok('b');
    expect(story.told).toEqual([]);
    expect(story.ok('c').end.type).toBe('playbook.failed');
  });

  test('of which no failure is told still ends with a sentence', () => {
    expect(failureSentence([])).toBe('The execution failed');
  });

  test('that follows a failure is told at the end, in order', () => {
    const story = given([step('a', every('b', 'c')), step('b'), step('c')])
      .start()
      .ok('a')
      .claim('b', 'c');
    story.fail('c', { message: 'one' }).fail('b', { message: 'two' });
    expect(story.end.context['error_detail']).toMatchObject({
      message: 'Failed steps: c, b',
      failed_steps: ['c', 'b'],
    });
  });

  test('drops joins', () => {
    const story = given([step('a', every('b', 'c')), step('b', first('j')), step('c', first('j')), step('j')]);
    story.start().ok('a').claim('b', 'c').ok('b').fail('c');
    expect(story.end.type).toBe('playbook.failed');
    expect(story.entered).not.toContain('j');
  });

  test('names the failed task of a pipeline', () => {
    const story = given([step('a')]).start();
    story.settle('a', 'error', {
      error: { kind: 'schema', code: null, message: 'x' },
      meta: { failed_task: 'save', tasks: { save: { status: 'error' } } },
    });
    expect(story.end.context['error_detail']).toMatchObject({ errors: [{ task: 'save' }] });
  });

  test('of which nothing is known still has a sentence', () => {
    const story = given([step('a')])
      .start()
      .close('a', 'command.failed');
    expect(story.end.context['error']).toBe('Failed steps: a: the command failed without a reason');
  });
});

describe('skipped steps', () => {
  test('are told once, and not when something under way can still reach them', () => {
    const story = given([
      step('a', every('b', 'c')),
      step('b', first(arc('t', 'false'))),
      step('c', first('d')),
      step('d', first(arc('t', 'false'))),
      step('t'),
    ])
      .start()
      .ok('a')
      .ok('b');
    expect(story.skipped).toEqual([]);
    expect(story.ok('c').skipped).toEqual([]);
    expect(story.ok('d').skipped).toEqual(['t']);
  });

  test('are not told of steps that were entered before', () => {
    const story = given([
      step('a', first(arc('b', '{{ (ctx.n or 0) < 1 }}'))),
      step('b', first(arc('a', { set: { 'ctx.n': 1 } }))),
    ]);
    story.start().ok('a').ok('b').ok('a');
    expect(story.skipped).toEqual([]);
    expect(story.end.type).toBe('playbook.completed');
  });

  test('are not told of a step that another arc of the same decision enters', () => {
    const story = given([step('a', every('b', 'c')), step('b', { ...NEVER, ...first(arc('c', 'false')) }), step('c')])
      .start()
      .ok('a');
    expect(story.skipped).toEqual(['b']);
    expect(story.openKeys).toEqual(['c']);
  });

  test('may be entered later', () => {
    const story = given([
      step('a', first('b')),
      step('b', { ...admits('ctx.open'), ...first('c') }),
      step('c', first(arc('b', { set: { 'ctx.open': true } }))),
    ]);
    story.start().ok('a');
    expect(story.run.counts).toEqual({ completed: 1, failed: 0, skipped: 1 });
    story.ok('c');
    expect(story.openKeys).toEqual(['b']);
    expect(story.run.counts).toEqual({ completed: 2, failed: 0, skipped: 0 });
  });
});

describe('back edges', () => {
  test('make new activations and keep the previous value readable', () => {
    const story = given(
      [
        step('fetch', {
          tool: { kind: 'noop', result: '{{ fetch.page }}' },
          set: { 'ctx.rows': '{{ ctx.rows + output.data.items }}', 'ctx.page': '{{ ctx.page + 1 }}' },
          ...first(arc('fetch', '{{ fetch.more }}'), arc('report', '{{ not fetch.more }}')),
        }),
        step('report', { tool: { kind: 'noop', result: '{{ ctx.rows | length }}' } }),
      ],
      { workload: { page: 1, rows: [] } },
    ).start();
    for (let page = 1; page <= 4; page += 1) {
      story.ok('fetch', { page, more: page < 4, items: [page] });
      if (page < 4)
        expect(story.last('fetch').context.steps['fetch']).toMatchObject({
          status: 'completed',
          value: { page },
          activation: page + 1,
        });
    }
    expect(story.entered).toEqual(['fetch', 'fetch', 'fetch', 'fetch', 'report']);
    expect(story.issued.map((command) => command.key).slice(0, 4)).toEqual([
      'fetch@1',
      'fetch@2',
      'fetch@3',
      'fetch@4',
    ]);
    expect(story.variables).toEqual({ rows: [1, 2, 3, 4], page: 5 });
  });

  test('are bounded by the number of activations', () => {
    const story = given([step('a', first('a'))], {}, { maxStepActivations: 3 })
      .start()
      .ok('a')
      .ok('a')
      .ok('a');
    expect(story.end.context['error_detail']).toMatchObject({
      errors: [{ step: 'a', kind: 'logic', code: 'ACTIVATION_LIMIT' }],
    });
  });
});
