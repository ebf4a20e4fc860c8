/** What guards on the server see of the task that ended: the envelope of language 7.3, for single tools and pipelines. */
import { describe, expect, test } from 'vitest';
import type { Json, JsonMap } from '../../../machines/json.ts';
import { arc, first, NEVER, step } from '../../support/playbooks.ts';
import { given, type Story } from '../../support/story.ts';

const HTTP = { kind: 'http', url: 'http://x/' };
const PYTHON = { kind: 'python', code: 'result = 1' };

/** One step with this tool, whose outcome and what else is wanted of it is written into variables. */
function seen(tool: Json, when: string, wanted: JsonMap, limits: { inlineMaxBytes?: number } = {}): Story {
  return given([step('a', { tool, ...first(arc('b', { when, set: wanted })) }), step('b')], {}, limits).start();
}

const answer = { status_code: 503, headers: { 'retry-after': '7' }, body: 'busy' };
const failure = { kind: 'server_error', code: 'HTTP_503', status_code: 503, retryable: true, source: 'http' };

describe('output.http', () => {
  const wanted = { s: '{{ output.http.status }}', h: "{{ output.http.headers['retry-after'] }}" };

  test.each<[string, Json]>([
    ['a single tool', HTTP],
    [
      'a pipeline',
      [
        { name: 'first', ...PYTHON },
        { name: 'call', ...HTTP },
      ],
    ],
  ])('is the answer of the http task that failed in %s', (_, tool) => {
    const task = Array.isArray(tool) ? 'call' : 'a_task';
    const meta = { failed_task: task, tasks: { [task]: { status: 'error', attempts: 2, duration_ms: 5 } } };
    const story = seen(tool, 'output.http.status == 503', wanted);
    story.settle('a', 'error', { data: answer, error: failure, meta });
    expect(story.variables).toEqual({ s: 503, h: '7' });
  });

  test('is the answer of the task that ran last where the pipeline succeeded', () => {
    const story = seen(
      [
        { name: 'first', ...PYTHON },
        { name: 'call', ...HTTP },
      ],
      'output.http.status == 200',
      wanted,
    );
    const call = { status_code: 200, headers: { 'retry-after': '1' } };
    const tasks = { first: { attempts: 1 }, call: { attempts: 1 } };
    story.ok('a', { ...call, first: 1, call, data: call, results: { first: 1, call } }, { meta: { tasks } });
    expect(story.variables).toEqual({ s: 200, h: '1' });
  });

  test('has all headers of an answer that is stored apart, and its status without fetching it', () => {
    const story = seen(HTTP, 'output.http.status == 200', { ...wanted, all: '{{ output.http }}' });
    const value = { status_code: 200, headers: { 'retry-after': '1' }, body: 'x'.repeat(100) };
    const stored = story.store(value, 'a', 10);
    if (stored === null) throw new Error('expected a stored value');
    const command = story.command('a');
    story.note({
      type: 'call.done',
      status: 'completed',
      nodeName: 'a',
      nodeType: 'http',
      commandId: command.commandId,
      result: { status: 'completed', context: stored.summary, reference: stored.reference },
    });
    story.close('a', 'command.completed');
    expect(story.variables).toMatchObject({ s: 200, h: '1', all: { status: 200, headers: { 'retry-after': '1' } } });
  });

  test('of an answer stored apart does not take its error for a member of it', () => {
    const story = seen({ kind: 'mcp' }, 'error', { e: '{{ a.error }}', k: '{{ error.kind }}' });
    const stored = story.store({ error: 'the data says', text: 'x'.repeat(100) }, 'a', 10);
    if (stored === null) throw new Error('expected a stored value');
    story.note({
      type: 'call.error',
      status: 'failed',
      nodeName: 'a',
      commandId: story.command('a').commandId,
      result: {
        status: 'failed',
        context: { ...stored.summary, error: { kind: 'tool_error' }, failed_task: 'a_task' },
        reference: stored.reference,
      },
    });
    story.close('a', 'command.failed');
    expect(story.variables).toEqual({ e: 'the data says', k: 'tool_error' });
  });

  test('is undefined where no answer came, and for other kinds', () => {
    const none = { d: '{{ output.http is defined }}' };
    expect(seen(HTTP, 'error', none).fail('a', { kind: 'connection' }).variables).toEqual({ d: false });
    expect(seen(PYTHON, 'error', none).fail('a', {}, { data: answer }).variables).toEqual({ d: false });
  });
});

describe('output.pg, output.py, output.js', () => {
  test.each<[string, JsonMap, JsonMap, JsonMap]>([
    [
      'pg',
      { kind: 'postgres', auth: 'db', command: 'select 1' },
      { code: '23505' },
      { code: '23505', sqlstate: '23505' },
    ],
    [
      'py',
      PYTHON,
      { code: 'PY_KeyError', details: { exception: 'KeyError', traceback: 'line 1' } },
      { exception: 'KeyError', traceback: 'line 1' },
    ],
    ['js', { kind: 'javascript', code: '1' }, { code: 'JS_TypeError' }, { exception: 'TypeError', traceback: null }],
  ])('%s tells of the task that failed, also in a pipeline', (name, tool, error, expected) => {
    const wanted = { all: `{{ output.${name} }}`, whole: `{{ (event.payload).${name} }}` };
    for (const shape of [
      tool,
      [
        { name: 'one', ...HTTP },
        { name: 'two', ...tool },
      ],
    ]) {
      const story = seen(shape, `output.${name} is defined`, wanted);
      story.fail('a', error, { meta: Array.isArray(shape) ? { failed_task: 'two' } : {} });
      expect(story.variables).toEqual({ all: expected, whole: expected });
    }
  });

  test('pg has no code where the database gave none', () => {
    const story = seen({ kind: 'postgres', auth: 'db', command: 'select 1' }, 'error', { pg: '{{ output.pg }}' });
    expect(story.fail('a', { code: 'CONN_REFUSED' }).variables).toEqual({ pg: { code: null, sqlstate: null } });
  });

  test('say nothing where the step itself failed', () => {
    const story = given([
      step('a', {
        tool: PYTHON,
        set: { x: '{{ 1 + none }}' },
        ...first(arc('b', { when: 'error', set: { d: '{{ output.py is defined }}', k: '{{ error.kind }}' } })),
      }),
      step('b'),
    ]).start();
    expect(story.ok('a', 1).variables).toEqual({ d: false, k: 'transform' });
  });
});

describe('output.meta and steps', () => {
  test('tell the task, its tries and how long they took', () => {
    const wanted = { meta: '{{ output.meta }}' };
    const tasks = { two: { attempts: 1, duration_ms: 3 }, one: { attempts: 2, duration_ms: 9 } };
    const pipeline = [
      { name: 'one', ...PYTHON },
      { name: 'two', ...PYTHON },
    ];
    const story = seen(pipeline, 'true', wanted).ok('a', {}, { meta: { tasks } });
    // `one` ran again after `two`.
    expect(story.variables).toEqual({ meta: { task: 'one', attempt: 2, duration_ms: 9 } });
    const single = seen(PYTHON, 'true', wanted).ok('a', 1, {
      meta: { tasks: { a_task: { attempts: 1, duration_ms: 4 } } },
    });
    expect(single.variables).toEqual({ meta: { task: 'a_task', attempt: 1, duration_ms: 4 } });
  });

  test('an error under steps has the fields of an error, status included', () => {
    const story = seen(HTTP, 'error', { e: '{{ steps.a.error }}' }).fail('a', { ...failure, message: 'busy' });
    expect(story.variables['e']).toEqual({ ...failure, message: 'busy', status: 503, details: null });
  });
});

describe('output as a whole', () => {
  const whole = { o: '{{ output }}' };

  test('holds the answer of an http task', () => {
    const story = seen(HTTP, 'true', whole).ok('a', { status_code: 200, headers: { a: '1' } });
    expect(story.variables['o']).toMatchObject({ status: 'ok', http: { status: 200, headers: { a: '1' } } });
  });

  test('holds no headers where the answer had none', () => {
    const story = seen(HTTP, 'true', { ...whole, other: '{{ output.http.other is defined }}' });
    story.ok('a', { status_code: 204 });
    expect(story.variables).toMatchObject({ o: { http: { status: 204, headers: {} } }, other: false });
  });

  test('holds null where there is no value', () => {
    expect(seen(PYTHON, 'true', whole).ok('a', null).variables['o']).toMatchObject({ status: 'ok', data: null });
  });

  test('tells of no task where a pipeline failed without a word', () => {
    const tasks = [
      { name: 'first', ...PYTHON },
      { name: 'call', ...HTTP },
    ];
    const story = seen(tasks, "output.status == 'error'", whole).close('a', 'command.failed');
    expect(story.variables['o']).toMatchObject({
      status: 'error',
      error: { message: 'the command failed without a reason' },
      meta: { task: null, attempt: null },
    });
  });

  test('has no data where the step was skipped', () => {
    const story = given([
      step('a', first('b')),
      step('b', { ...NEVER, ...first(arc('c', { when: 'true', set: whole })) }),
      step('c'),
    ]);
    expect(story.start().ok('a').variables['o']).toMatchObject({ status: 'skipped', data: null });
  });
});
