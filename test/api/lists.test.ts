import { describe, expect, test } from 'vitest';
import type { EventPageRequest, ExecutionListRequest } from '../../actors/services.ts';
import { catalogEntry, executionRow, fakeServices, logEvent } from './fake-services.ts';
import { ask, testHost } from './test-host.ts';

function listing(total: number, totalIsExact = true) {
  const asked: ExecutionListRequest[] = [];
  const services = fakeServices({
    reads: {
      executions: async (request) => {
        asked.push(request);
        const rows = Array.from({ length: Math.min(request.pageSize, total) }, (_, index) =>
          executionRow({ executionId: 500 - index }),
        );
        return { rows, total, totalIsExact, hasMore: request.page * request.pageSize < total };
      },
    },
  });
  const { app } = testHost(services);
  return { asked, get: (query: string) => ask(app, 'GET', `/api/executions${query}`) };
}

describe('executions', () => {
  test('are a bare list with totals in headers', async () => {
    const answer = await listing(3).get('?page=1&page_size=2');
    expect(answer.json).toHaveLength(2);
    expect(answer.headers['x-total-count']).toBe('3');
    // Behind the last row that was shown, wherever that is by then.
    expect(answer.headers['link']).toBe('</api/executions?page_size=2&before_execution_id=499>; rel="next"');
  });

  test('are numbered where durations order them', async () => {
    const link = async (query: string) => (await listing(9000).get(query)).headers['link'];
    expect(await link('?order=-duration&page=2')).toBe('</api/executions?order=-duration&page=3>; rel="next"');
    expect(await link('?order=duration&page=51')).toBeUndefined();
    expect(await link('?order=start_time&page=51')).toContain('before_execution_id=401');
  });

  test('have no next page at the end', async () => {
    expect((await listing(2).get('?page=1&page_size=2')).headers['link']).toBeUndefined();
  });

  test('count exactly to 10,000', async () => {
    expect((await listing(10_001, false).get('')).headers['x-total-count']).toBe('10000+');
  });

  test('go on by id beyond the reach of page numbers', async () => {
    const answer = await listing(9000).get('?page=26&page_size=200');
    expect(answer.status).toBe(200);
    expect(answer.headers['link']).toContain('before_execution_id=301');
    const next = await listing(9000).get('?before_execution_id=301&page_size=200');
    expect(next.headers['link']).toContain('before_execution_id=301');
  });

  test.each([
    'page=0',
    'page_size=201',
    'page_size=0',
    'page=100&page_size=200',
    'page=x',
    'page=01',
    'page=1&page=2',
    'status=odd',
    'roots_only=1',
    'started_after=2026-01-01',
    'started_after=infinity',
    'label=x',
    'order=size',
    'catalog_id=0',
    'q=%00',
  ])('%s is 422', async (query) => {
    expect((await listing(3).get(`?${query}`)).status).toBe(422);
  });

  test('filters reach the service in one form', async () => {
    const { asked, get } = listing(0);
    await get(
      '?status=RUNNING,canceled&status=failed&path=/demo/*&label=team=a&label=x=1%3D2&roots_only=true&started_after=2026-11-20T12:15:02%2B02:00&min_duration_seconds=1.5&order=duration&q=',
    );
    expect(asked[0]).toMatchObject({
      statuses: ['running', 'cancelled', 'failed'],
      path: 'demo/*',
      labels: [
        ['team', 'a'],
        ['x', '1=2'],
      ],
      rootsOnly: true,
      startedAfter: '2026-11-20T10:15:02.000Z',
      minDurationSeconds: 1.5,
      order: 'duration',
      q: null,
    });
  });

  test('leave out results above 4 KiB and say so', async () => {
    const services = fakeServices({
      reads: {
        executions: async () => ({
          rows: [
            executionRow({ status: 'completed', result: { text: 'x'.repeat(4100) } }),
            executionRow({ status: 'completed', result: { n: 1 } }),
          ],
          total: 2,
          totalIsExact: true,
          hasMore: false,
        }),
      },
    });
    const { json } = await ask(testHost(services).app, 'GET', '/api/executions');
    expect(
      json.map((each: { result: unknown; result_truncated: boolean }) => [each.result, each.result_truncated]),
    ).toEqual([
      [null, true],
      [{ n: 1 }, false],
    ]);
  });
});

describe('events', () => {
  /** `written`: events that came after the row was read. */
  function logging(count: number, written = 0) {
    const asked: EventPageRequest[] = [];
    const all = Array.from({ length: count + written }, (_, index) => logEvent(index + 1));
    const services = fakeServices({
      reads: {
        execution: async () => executionRow({ lastEventId: count }),
        events: async (_id, request) => {
          asked.push(request);
          const found = all.filter(
            (each) =>
              each.eventId > (request.sinceEventId ?? 0) && each.eventId <= (request.untilEventId ?? all.length),
          );
          const ordered = request.order === 'asc' ? found : found.reverse();
          const from = (request.page - 1) * request.pageSize;
          return {
            events: ordered.slice(from, from + request.pageSize),
            total: request.sinceEventId === null ? found.length : null,
            hasMore: from + request.pageSize < ordered.length,
          };
        },
      },
    });
    const { app } = testHost(services);
    return { asked, get: (url: string) => ask(app, 'GET', url) };
  }

  test('are those that the row knows of, so that no end is shown of a run that is called running', async () => {
    for (const door of ['/api/events/41007', '/api/executions/41007/events', '/api/executions/41007']) {
      const { events, pagination } = (await logging(3, 2).get(door)).json;
      expect(events.map((each: { event_id: number }) => each.event_id).sort()).toEqual([1, 2, 3]);
      expect(pagination).toMatchObject({ total_events: 3, has_next: false });
    }
    const { events } = (await logging(3, 2).get('/api/events/41007?until_event_id=2')).json;
    expect(events).toHaveLength(2);
  });

  test('come oldest first on one door and newest first on the other', async () => {
    const { asked, get } = logging(3);
    const up = (await get('/api/events/41007')).json;
    const down = (await get('/api/executions/41007/events')).json;
    expect(up.events.map((each: { event_id: number }) => each.event_id)).toEqual([1, 2, 3]);
    expect(down.events).toEqual([...up.events].reverse());
    expect(asked.map((each) => [each.order, each.pageSize])).toEqual([
      ['asc', 500],
      ['desc', 100],
    ]);
  });

  test('are paged with totals, and without totals after an event id', async () => {
    const { get } = logging(25);
    expect((await get('/api/events/41007?page=2&page_size=10')).json.pagination).toEqual({
      page: 2,
      page_size: 10,
      total_events: 25,
      total_pages: 3,
      has_next: true,
      has_prev: true,
    });
    expect((await get('/api/events/41007?since_event_id=20')).json.pagination).toMatchObject({
      total_events: null,
      total_pages: null,
      has_next: false,
    });
  });

  test.each([
    'page_size=9',
    'page_size=501',
    'page=0',
    'page_size=x',
    'since_event_id=-1',
    'fields=none',
    'order=up',
    'format=csv',
  ])('%s is 422', async (query) => {
    expect((await logging(1).get(`/api/events/41007?${query}`)).status).toBe(422);
  });

  test('show as many fields as are asked for', async () => {
    const { get } = logging(1);
    const keys = async (fields: string) =>
      Object.keys((await get(`/api/events/41007?fields=${fields}`)).json.events[0]);
    expect(await keys('min')).not.toContain('context');
    expect(await keys('default')).toHaveLength(18);
    expect(await keys('all')).toEqual(
      expect.arrayContaining(['cause_id', 'command_id', 'attempt', 'report_id', 'stale', 'closes', 'engine_version']),
    );
  });

  test.each([
    ['asc', [1, 1203]],
    ['desc', [1203, 1]],
  ] as const)('are downloaded whole, one a line, %s', async (order, ends) => {
    const { get } = logging(1203);
    const { text, headers } = await get(`/api/events/41007?format=ndjson&order=${order}`);
    expect(headers['content-type']).toBe('application/x-ndjson; charset=utf-8');
    const ids = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).event_id);
    expect([ids[0], ids.at(-1)]).toEqual(ends);
    expect(new Set(ids).size).toBe(1203);
  });

  test('come along with an execution unless it is asked for by the singular path', async () => {
    const { get } = logging(2);
    const plural = (await get('/api/executions/41007')).json;
    expect([plural.events_included, plural.events.map((each: { event_id: number }) => each.event_id)]).toEqual([
      true,
      [2, 1],
    ]);
    const single = (await get('/api/execution/41007')).json;
    expect([single.events_included, single.events, single.pagination.total_events]).toEqual([false, [], 2]);
    expect((await get('/api/execution/41007?include_events=true')).json.events).toHaveLength(2);
  });
});

test('a full page of playbooks names the next one', async () => {
  const rows = ['demo/greet', 'demo/loop'].map((path) => catalogEntry({ path }));
  const list = async ({ limit }: { limit: number }) => rows.slice(0, limit);
  const { app } = testHost(fakeServices({ catalog: { list } }));
  const link = async (limit: number) =>
    (await ask(app, 'GET', `/api/catalog/playbooks?limit=${limit}&q=demo`)).headers['link'];
  expect(await link(1)).toBe('</api/catalog/playbooks?limit=1&q=demo&after_path=demo%2Fgreet>; rel="next"');
  // Full, and yet the last one.
  expect(await link(2)).toBeUndefined();
});

test('playbooks are a bare list with the total of all pages', async () => {
  const entries = ['a', 'b', 'c'].map((path) => catalogEntry({ path }));
  const { app } = testHost(fakeServices({ catalog: { list: async () => entries, count: async () => 7 } }));
  const answer = await ask(app, 'GET', '/api/catalog/playbooks?limit=2');
  expect(answer.json).toHaveLength(2);
  expect(answer.headers['x-total-count']).toBe('7');
  expect(answer.headers['link']).toBe('</api/catalog/playbooks?limit=2&after_path=b>; rel="next"');
});

test('what is wrong with a text is said once, with its place', async () => {
  const message = "Step 'start': Missing 'tool' field (a tool is required) (line 5)";
  const at = { step: 'start', task: null, path: 'workflow[0]', line: 5, column: 4, endLine: 5, endColumn: 8 };
  const diagnostics = [
    { severity: 'error', code: 'tool_missing', message, ...at },
    { severity: 'warning', code: 'api_version', message: 'Document: odd (line 1)', ...at },
  ] as const;
  const validate = async () => ({ valid: false, diagnostics, path: 'a', kind: 'playbook' });
  const { app } = testHost(fakeServices({ catalog: { validate } }));
  const { json } = await ask(app, 'POST', '/api/catalog/playbooks/validate', { payload: { content: 'x' } });
  expect([json.errors, json.warnings]).toEqual([[message], ['Document: odd (line 1)']]);
});
