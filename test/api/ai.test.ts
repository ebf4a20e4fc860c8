import { expect, test } from 'vitest';
import type { StartRequest } from '../../actors/services.ts';
import { catalogEntry, executionRow, fakeServices, RECEIPT } from './fake-services.ts';
import { ask, CONFIG, testHost } from './test-host.ts';

function helping(result: unknown, change: { aiPlaybook?: string | null; status?: 'running' | 'completed' } = {}) {
  const started: StartRequest[] = [];
  const { aiPlaybook = 'ai/helper', status = 'completed' } = change;
  const { app } = testHost(
    fakeServices({
      executions: {
        start: async (request) => {
          started.push(request);
          return { ...RECEIPT, executionId: 500 };
        },
        whenEnded: async () => executionRow({ executionId: 500, status, result: result as never }),
      },
      catalog: {
        get: async (path) =>
          path === 'none' ? null : catalogEntry({ path, kind: path === 'ai/agent' ? 'agent' : 'playbook' }),
      },
    }),
    { config: { ...CONFIG, aiPlaybook } },
  );
  return { started, post: (path: string, payload: object) => ask(app, 'POST', path, { payload }) };
}

const EXPLAIN = '/api/catalog/playbooks/explain/ai';
const GENERATE = '/api/catalog/playbooks/generate/ai';
const ANALYZE = '/api/executions/41007/analyze/ai';

test.each([EXPLAIN, GENERATE, ANALYZE])('%s without a playbook is not configured', async (path) => {
  const { post, started } = helping(null, { aiPlaybook: null });
  const answer = await post(path, {});
  expect([answer.status, answer.json.code]).toEqual([501, 'not_configured']);
  expect(answer.json.detail).toContain('SVC_AI_PLAYBOOK');
  expect(started).toEqual([]);
});

test('a playbook is explained by the one that is named', async () => {
  const { post, started } = helping({ report: { purpose: 'greets' }, text: 'It greets.' });
  const { json } = await post(EXPLAIN, {
    path: 'demo/greet',
    explanation_playbook_path: 'ai/agent',
    workload: { model: 'm' },
    prompt: 'briefly',
  });
  expect(json).toMatchObject({
    target_path: 'demo/greet',
    target_version: 3,
    ai_playbook_path: 'ai/agent',
    ai_execution_id: 500,
    ai_execution_status: 'completed',
    ai_report: { purpose: 'greets' },
    ai_raw_output: 'It greets.',
  });
  expect(json).not.toHaveProperty('generated_playbook');
  expect(started).toMatchObject([
    {
      path: 'ai/agent',
      resourceKind: 'agent',
      workload: {
        model: 'm',
        task: 'explain',
        prompt: 'briefly',
        target: { path: 'demo/greet', version: 3, content: 'kind: Playbook\n' },
      },
    },
  ]);
});

test('a text as large as a document may be is explained', async () => {
  const { post, started } = helping({ text: 'It is long.' });
  expect((await post(EXPLAIN, { content: '\n'.repeat(1_048_576) })).status).toBe(200);
  expect(started).toHaveLength(1);
});

test('a text that is not stored can be explained, and nothing is not found', async () => {
  const { post, started } = helping('plain words');
  const { json } = await post(EXPLAIN, { content: 'kind: Playbook' });
  expect(json).toMatchObject({ target_path: null, ai_report: null, ai_raw_output: 'plain words' });
  expect(started[0]?.workload).toMatchObject({ target: { content: 'kind: Playbook' } });
  expect((await post(EXPLAIN, {})).json.detail).toContain('needs path, catalog_id or content');
  expect((await post(EXPLAIN, { path: 'none' })).status).toBe(404);
  expect((await post(EXPLAIN, { path: 'a', timeout_seconds: 601 })).status).toBe(422);
});

test.each([
  [{ data: { generated_playbook: 'kind: Playbook' } }, 'kind: Playbook'],
  [{ text: 'Here:\n```yaml\nkind: Playbook\n```\n' }, 'kind: Playbook\n'],
  [{ text: 'I cannot.' }, null],
])('what was generated is found in %j', async (result, generated) => {
  const { post } = helping(result);
  expect((await post(GENERATE, { prompt: 'a greeting' })).json.generated_playbook).toBe(generated);
  expect((await post(GENERATE, {})).json.detail).toBe("'prompt' is required");
});

test('a run is analysed with the report of the rules; one that takes too long is still running', async () => {
  const { post, started } = helping({ findings: [] }, { status: 'running' });
  const { json } = await post(ANALYZE, {});
  expect(json).toMatchObject({ ai_execution_status: 'running', ai_report: null, ai_raw_output: null });
  expect(started[0]?.workload).toMatchObject({
    task: 'analyze',
    target: { path: 'demo/greet', version: 3, execution_id: 41007, analysis: { summary: { events: 3 } } },
  });
});
