/** What becomes of a write whose commit was done and whose answer was lost, on every way to write: once, and never a 500. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { queryRows } from '../support/postgres.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { type ReplyThief, reroute, startReplyThief } from '../support/reply-thief.ts';
import { type Answer, type Door, openDoor } from './in-process.ts';

let door: Door;
let thief: ReplyThief;
let catalogId = 0;

beforeAll(async () => {
  door = await openDoor({ SVC_AUTO_RESUME_MODE: 'continue' }, async (url) => {
    const { target, through } = reroute(url);
    thief = await startReplyThief(target);
    return through(thief.port);
  });
  catalogId = await door.register('lost/reply');
  await post('/api/worker/pool/register', { name: 'ada', pools: ['none'], instance: 'a', offline_after_seconds: 600 });
});
afterAll(async () => {
  await door?.[Symbol.asyncDispose]();
  await thief?.close();
});

type Way = (n: number) => Promise<{
  /** Made as often as it takes; the same request each time. */
  ask(): Promise<Answer>;
  /** How often the effect is there. */
  readonly count: string;
  readonly values: readonly unknown[];
  /** What the repetition may answer beside success. */
  readonly repeated?: readonly number[];
}>;

const post = (path: string, body: unknown, headers = {}) => door.call('POST', path, body, headers);
const idOf = (answer: Answer, field: string): number => {
  const { json } = answer;
  if (typeof json !== 'object' || json === null) throw new Error(answer.text);
  return Number((json as Record<string, unknown>)[field]);
};
const started = async () => idOf(await post('/api/execute', { path: 'lost/reply' }), 'execution_id');
const commandOf = async (executionId: number): Promise<number> => {
  const rows = await queryRows<{ id: string }>(
    door.postgres.url,
    'select command_id as id from core.command where execution_id = $1',
    [executionId],
  );
  return Number(rows[0]?.id);
};
const claimed = async (commandId: number) => post(`/api/commands/${commandId}/claim`, { worker_id: 'ada' });
const EVENTS = 'select count(*)::int as n from core.event where execution_id = $1 and event_type = $2';

const WAYS: Readonly<Record<string, Way>> = {
  'a playbook registered': async (n) => {
    const content = `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { path: lost/of-${n} }\nworkflow:\n  - { step: start, tool: { kind: noop } }\n`;
    return {
      ask: () => post('/api/catalog/register', { content, if_changed: true }),
      count: 'select count(*)::int as n from core.catalog where path = $1',
      values: [`lost/of-${n}`],
    };
  },
  'a run started': async (n) => ({
    ask: () => post('/api/execute', { path: 'lost/reply' }, { 'idempotency-key': `start-${n}` }),
    count: 'select count(*)::int as n from core.execution where idempotency_key = $1',
    values: [`start-${n}`],
  }),
  'a run cancelled': async () => {
    const id = await started();
    return {
      ask: () => post(`/api/executions/${id}/cancel`, { reason: 'lost' }),
      count: EVENTS,
      values: [id, 'execution.cancelled'],
    };
  },
  'a run finalized': async () => {
    const id = await started();
    return {
      ask: () => post(`/api/executions/${id}/finalize`, { status: 'failed', reason: 'lost' }),
      count: EVENTS,
      values: [id, 'playbook.failed'],
    };
  },
  'an event': async (n) => {
    const id = await started();
    const event = { execution_id: id, event_type: 'report.note', step: 'start', report_id: `e-${n}`, payload: { n } };
    return { ask: () => post('/api/events', event), count: EVENTS, values: [id, 'report.note'] };
  },
  'a batch': async (n) => {
    const id = await started();
    const body = { execution_id: id, events: [{ event_type: 'report.note', step: 'start', payload: { n } }] };
    return {
      ask: () => post('/api/events/batch', body, { 'idempotency-key': `batch-${n}` }),
      count: EVENTS,
      values: [id, 'report.note'],
      // Slow because of the broken connection: not stored, or stored and found by its key.
      repeated: [503],
    };
  },
  'a claim': async () => {
    const id = await started();
    const commandId = await commandOf(id);
    return { ask: () => claimed(commandId), count: EVENTS, values: [id, 'command.claimed'] };
  },
  'a report': async (n) => {
    const id = await started();
    const command_id = await commandOf(id);
    await claimed(command_id);
    const reports = [{ report_id: `r-${n}`, command_id, attempt: 1, outcome: 'ok', data: { n } }];
    return {
      ask: () => post('/api/worker/exchange', { worker_id: 'ada', instance: 'a', reports }),
      count: EVENTS,
      values: [id, 'command.completed'],
    };
  },
  'a credential': async (n) => ({
    ask: () => post('/api/credentials', { name: `lost_${n}`, type: 'bearer', data: { token: 'secret-word' } }),
    count: 'select count(*)::int as n from core.credential where name = $1',
    values: [`lost_${n}`],
  }),
  'a credential removed': async (n) => {
    await post('/api/credentials', { name: `gone_${n}`, type: 'bearer', data: { token: 'secret-word' } });
    return {
      ask: () => door.call('DELETE', `/api/credentials/gone_${n}`),
      count: `select count(*)::int as n from core.audit where target = $1 and action = 'credential.delete'`,
      values: [`gone_${n}`],
      repeated: [404],
    };
  },
  'a keychain entry': async (n) => ({
    ask: () => post(`/api/keychain/${catalogId}/lost_${n}`, { token_data: { t: 1 }, credential_type: 'bearer' }),
    count: 'select count(*)::int as n from core.keychain where keychain_name = $1',
    values: [`lost_${n}`],
  }),
  'a variable': async (n) => {
    const id = await started();
    return {
      ask: () => post(`/api/vars/${id}`, { variables: { lost: n } }),
      count: 'select count(*)::int as n from core.transient where execution_id = $1',
      values: [id],
    };
  },
  'a result': async (n) => {
    const id = await started();
    return {
      ask: () => door.call('PUT', `/api/result/${id}`, { name: 'lost', data: { n } }),
      count: 'select count(*)::int as n from core.result where execution_id = $1',
      values: [id],
    };
  },
};

const TRIES = 10;
let number = 0;

test.each(Object.entries(WAYS))(
  'IF-04 %s whose commit was done and whose answer was lost is there once',
  async (_name, way) => {
    for (let tries = 0; tries < TRIES; tries += 1) {
      number += 1;
      const { ask, count, values, repeated = [] } = await way(number);
      const before = thief.stolen;
      thief.lieInWait();
      const first = await ask();
      thief.giveUp();
      expect([200, 202, 503], first.text).toContain(first.status);
      let answer = first;
      for (let each = 0; each < 20 && answer.status === 503; each += 1) answer = await ask();
      expect([200, 202, ...repeated], answer.text).toContain(answer.status);
      const [row] = await queryRows<{ n: number }>(door.postgres.url, count, values);
      expect(row?.n).toBe(1);
      // It may have been a write of the service's own; then the way is gone once more.
      if (thief.stolen > before && (first.status === 503 || tries > 3)) return;
    }
    throw new Error('no answer to this write was ever stolen');
  },
);

test('IF-04 nothing of this broke a law, and nothing of it was a defect', async () => {
  expect(thief.stolen).toBeGreaterThanOrEqual(Object.keys(WAYS).length);
  expect(brokenLaws(await readRuns(door.postgres.url))).toEqual([]);
  expect(door.lines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});
