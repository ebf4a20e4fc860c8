import { expect, test } from 'vitest';
import { DomainError } from '../../actors/errors.ts';
import { catalogEntry, executionRow, fakeServices } from './fake-services.ts';
import { ask, testHost } from './test-host.ts';

const { app } = testHost();

test('a chart is answered as JSON, as Mermaid and as SCXML', async () => {
  const whole = (await ask(app, 'GET', '/api/machines/command')).json;
  expect(whole.layout.nodes).toHaveLength(whole.definition.states.length);
  expect(whole.layout.edges[0]).toMatchObject({ from: 'command.PENDING', event: 'command.claimed', guard: null });
  const mermaid = await ask(app, 'GET', '/api/machines/command?format=mermaid');
  expect([mermaid.headers['content-type'], mermaid.text]).toEqual(['text/plain; charset=utf-8', whole.mermaid]);
  const scxml = await ask(app, 'GET', '/api/machines/command?format=scxml');
  expect([scxml.headers['content-type'], scxml.text]).toEqual(['application/scxml+xml; charset=utf-8', whole.scxml]);
  expect((await ask(app, 'GET', '/api/machines/command?format=png')).status).toBe(422);
  expect(await ask(app, 'GET', '/api/machines/toString')).toMatchObject({
    status: 404,
    json: { detail: "Machine 'toString' not found" },
  });
});

test.each([
  [{ event: { type: 'x' }, snapshot: { value: 'a' }, execution_id: 1 }],
  [{ event: { type: 'x' }, at: 3 }],
  [{ event: {} }],
  [{ event: { type: '' } }],
  [{}],
])('a trial that says %j is 422', async (payload) => {
  expect((await ask(app, 'POST', '/api/machines/command/transition', { payload })).status).toBe(422);
});

test('the verb behind a path chooses the question, and each has its own parameters', async () => {
  const path = '/api/catalog/some/long/path';
  expect((await ask(app, 'GET', `${path}/versions`)).json).toHaveProperty('versions');
  expect((await ask(app, 'GET', `${path}/graph`)).json).toHaveProperty('edges');
  expect((await ask(app, 'GET', `${path}/ui_schema?version=3`)).json).toHaveProperty('fields');
  expect((await ask(app, 'GET', `${path}/graph?version=x`)).status).toBe(422);
  expect((await ask(app, 'GET', `${path}/graph?execution_id=0`)).json).toMatchObject({ code: 'invalid_id' });
  expect((await ask(app, 'GET', `${path}/picture`)).status).toBe(404);
  expect((await ask(app, 'GET', '/api/catalog/graph')).status).toBe(404);
  expect((await ask(app, 'HEAD', `${path}/graph`)).status).toBe(200);
  expect(await ask(app, 'POST', `${path}/ui_schema`)).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD' } });
});

test('the graph of an execution is that of the path it ran', async () => {
  const right = await ask(app, 'GET', '/api/catalog/demo/greet/graph?execution_id=41007');
  expect(right.json).toMatchObject({
    path: 'demo/greet',
    version: 3,
    nodes: [{ id: 'start', kinds: ['noop'], state: { status: 'pending', activations: 0, duration_ms: null } }],
  });
  const wrong = await ask(app, 'GET', '/api/catalog/demo/other/graph?execution_id=41007');
  expect(wrong).toMatchObject({
    status: 422,
    json: { detail: "query.execution_id: execution 41007 ran 'demo/greet'" },
  });
});

test('a text that is no playbook has no graph', async () => {
  const broken = await ask(app, 'POST', '/api/catalog/playbooks/graph', { payload: { content: 'kind: Playbook' } });
  expect(broken).toMatchObject({ status: 422, json: { code: 'playbook_invalid' } });
  const other = await ask(app, 'POST', '/api/catalog/playbooks/graph', {
    payload: { content: 'kind: Mcp\nmetadata: {name: x, path: x}\nspec: {}' },
  });
  expect(other.status).toBe(422);
});

test('the run form hides the default of a secret, and says what was not found', async () => {
  const content = 'metadata: {name: greet}\nworkload:\n  key: abc # ui:secret\n  tone: a # enum=[a, b]\n';
  const { app: own } = testHost(fakeServices({ catalog: { get: async () => catalogEntry({ content }) } }));
  const form = (await ask(own, 'GET', '/api/catalog/demo/greet/ui_schema')).json;
  expect(form).toMatchObject({ path: 'demo/greet', version: 3, kind: 'playbook', title: 'greet', exposed_in_ui: true });
  expect(form.fields).toMatchObject([
    { name: 'key', kind: 'string', default: null, secret: true },
    { name: 'tone', kind: 'enum', options: ['a', 'b'], secret: false },
  ]);
  const { app: empty } = testHost(fakeServices({ catalog: { get: async () => null } }));
  expect(await ask(empty, 'GET', '/api/catalog/no/such/ui_schema?version=2')).toMatchObject({
    status: 404,
    json: { detail: 'resource not found: no/such@2' },
  });
});

test('a stream of frames opens with a key frame, follows it, and ends with the execution', async () => {
  const asked: number[] = [];
  const frame = {
    n: 4,
    event: { eventId: 4, causeId: 4, type: 'playbook.completed', at: '2026-11-20T10:15:02.113Z' },
    changed: true,
    states: ['execution.completed'],
    patch: { open_count: 0 },
    isKeyframe: false,
  };
  const { app: own } = testHost(
    fakeServices({
      reads: { execution: async () => executionRow({ status: 'completed' }) },
      inspection: {
        trace: async (_id, { after }) => {
          asked.push(after);
          return { frames: after === 3 ? [frame] : [], nextAfter: null };
        },
      },
    }),
  );
  const stream = await ask(own, 'GET', '/api/executions/41007/machine/stream');
  expect(stream.headers['content-type']).toBe('text/event-stream; charset=utf-8');
  expect([...stream.text.matchAll(/event: (\w+)\n(?:id: (\d+)\n)?/g)].map(([, name, id]) => [name, id])).toEqual([
    ['frame', '3'],
    ['frame', '4'],
    ['end', undefined],
  ]);
  expect(stream.text).toContain('"keyframe":true');
  await ask(own, 'GET', '/api/executions/41007/machine/stream', { headers: { 'last-event-id': '2' } });
  await ask(own, 'GET', '/api/executions/41007/machine/stream?after=1', { headers: { 'last-event-id': '2' } });
  expect(asked).toEqual([3, 2, 2]);
});

test('what inspection refuses is told as it says', async () => {
  const refuse = () => Promise.reject(new DomainError('not_found', 'Execution 5 not found'));
  const { app: own } = testHost(
    fakeServices({
      reads: { execution: async () => null },
      inspection: { execution: refuse, trace: refuse, drawn: refuse },
    }),
  );
  for (const path of [
    '/api/executions/5/machine',
    '/api/executions/5/trace',
    '/api/executions/5/machine/stream',
    '/api/catalog/a/graph?execution_id=5',
  ]) {
    expect(await ask(own, 'GET', path), path).toMatchObject({ status: 404, json: { detail: 'Execution 5 not found' } });
  }
});

test('a rerun asks for what the body says', async () => {
  const calls: unknown[] = [];
  const services = fakeServices();
  const { app: own } = testHost({
    ...services,
    executions: {
      ...services.executions,
      rerun: (id, request) => {
        calls.push([id, request]);
        return services.executions.rerun(id, request);
      },
    },
  });
  const answer = await ask(own, 'POST', '/api/executions/41007/rerun', {
    payload: { version: 'latest', from_step: 'b' },
  });
  expect(answer.json).toMatchObject({ status: 'started', rerun_of: 41007 });
  await ask(own, 'POST', '/api/executions/41007/rerun', { payload: {} });
  const plain = { workload: {}, version: 'same', fromStep: null, resourceKind: null, reason: null, trace: null };
  expect(calls).toEqual([
    [41007, { ...plain, version: 'latest', fromStep: 'b' }],
    [41007, plain],
  ]);
  expect((await ask(own, 'POST', '/api/executions/41007/rerun', { payload: { version: 'newest' } })).status).toBe(422);
});

test.each(['workload', 'payload', 'input', 'parameters', 'args'])('a rerun takes its inputs as %s', async (name) => {
  const inputs: unknown[] = [];
  const services = fakeServices();
  const { app: own } = testHost({
    ...services,
    executions: {
      ...services.executions,
      rerun: (id, request) => {
        inputs.push(request.workload);
        return services.executions.rerun(id, request);
      },
    },
  });
  const rerun = (payload: object) => ask(own, 'POST', '/api/executions/41007/rerun', { payload });
  await rerun({ [name]: { who: 'you' } });
  expect(inputs).toEqual([{ who: 'you' }]);
  const other = name === 'input' ? 'payload' : 'input';
  const answer = await rerun({ [name]: { who: 'you' }, [other]: { who: 'me' } });
  expect([answer.status, answer.json.detail]).toEqual([
    422,
    expect.stringContaining('has different values in workload,'),
  ]);
});
