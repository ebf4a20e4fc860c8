import { expect, test } from 'vitest';
import type { EventPageRequest } from '../../actors/services.ts';
import { AT, catalogEntry, executionRow, fakeServices, logEvent } from './fake-services.ts';
import { ask, testHost } from './test-host.ts';

function analyzing(lastEventId: number) {
  const asked: EventPageRequest[] = [];
  const { app } = testHost(
    fakeServices({
      reads: {
        execution: async (id) =>
          id === 9 ? null : executionRow({ lastEventId, status: 'failed', error: 'no', endTime: AT }),
        events: async (_id, request) => {
          asked.push(request);
          const { sinceEventId, untilEventId } = request;
          const count = (untilEventId ?? 0) - (sinceEventId ?? 0);
          const events = Array.from({ length: count }, (_, index) => logEvent((sinceEventId ?? 0) + index + 1));
          return { events, total: null, hasMore: false };
        },
      },
      catalog: { byId: async () => catalogEntry({ content: 'kind: Playbook\n', tasksCount: 2 }) },
    }),
  );
  return {
    asked,
    analyze: (body: object, id = 41007) => ask(app, 'POST', `/api/executions/${id}/analyze`, { payload: body }),
  };
}

test('an analysis looks at the end of a long log in pages and shows a sample', async () => {
  const { asked, analyze } = analyzing(2_000);
  const { json } = await analyze({});
  expect(asked.map(({ sinceEventId, untilEventId }) => [sinceEventId, untilEventId])).toEqual([
    [800, 1300],
    [1300, 1800],
    [1800, 2000],
  ]);
  expect(json).toMatchObject({
    execution_id: 41007,
    path: 'demo/greet',
    status: 'failed',
    summary: { events: 2000, steps: 0, commands: 0, retries: 0, duration_seconds: 0, slowest_steps: [] },
    findings: [
      { severity: 'error', code: 'execution_failed', message: 'no', step: null, event_id: null },
      { severity: 'info', code: 'partial' },
    ],
    playbook: { path: 'demo/greet', version: 3, catalog_id: 2003, tasks_count: 2, content: 'kind: Playbook\n' },
  });
  expect(json.event_sample.length).toBeLessThanOrEqual(120);
  expect(json.event_sample[0]).toMatchObject({ event_id: 801, execution_id: 41007 });
});

test('an analysis has its limits and its refusals', async () => {
  const { analyze } = analyzing(10);
  const { json } = await analyze({ max_events: 5, event_sample_size: 0, include_playbook_content: false });
  expect([json.playbook.content, json.event_sample]).toEqual([null, []]);
  expect((await analyze({ max_events: 0 })).status).toBe(422);
  expect((await analyze({}, 9)).json).toMatchObject({ code: 'not_found', detail: 'Execution 9 not found' });
});
