/** Hostile input all the way to the database and back (catalogue G): a server in this process. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { law } from '../support/arbitraries.ts';
import { type Door, openDoor } from './in-process.ts';

let door: Door;
let executionId = 0;
beforeAll(async () => {
  door = await openDoor();
  await door.register('input/noop');
  const { json } = await door.call('POST', '/api/execute', { path: 'input/noop' });
  executionId = (json as { execution_id: number }).execution_id;
});
afterAll(() => door[Symbol.asyncDispose]());

interface Recorded {
  readonly event_id: number;
  readonly context: unknown;
}

async function recorded(payload: object): Promise<unknown> {
  const sent = await door.call('POST', '/api/events', {
    execution_id: executionId,
    event_type: 'report.note',
    step: 'start',
    payload,
  });
  expect(sent.status, sent.text).toBe(200);
  const { event_id } = sent.json as { event_id: number };
  const page = await door.call('GET', `/api/events/${executionId}?page_size=10&since_event_id=${event_id - 1}`);
  const { events } = page.json as { events: readonly Recorded[] };
  return events.find((event) => event.event_id === event_id)?.context;
}

test('IN-13 whatever JSON an event carries is stored and read as it was', async () => {
  const values = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom('', 'bare', 0, -0.5, false, null, [], {}, [[]], { '': '' }, { a: { '': [null] } }),
    fc.string({ unit: 'binary' }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(values, { minLength: 8, maxLength: 16 }), async (given) => {
      const sent = given.map((each): unknown => JSON.parse(JSON.stringify(each)));
      const texts = sent.map((value) => JSON.stringify(value));
      // What is refused is refused elsewhere (IN-01, IN-05).
      const kept = sent.filter((_value, index) => !/\\u0000|__proto__|\\ud[89a-f]/i.test(texts[index] ?? ''));
      expect(
        await recorded({ value: kept, ...Object.fromEntries(kept.map((value, index) => [`k${index}`, value])) }),
      ).toMatchObject({ value: kept });
    }),
    law(8),
  );
}, 60_000);

test.each([
  '\ufeffbom',
  'e\u0301',
  'é',
  '\u202eright to left',
  '👩‍👩‍👧',
  '\u2028\u2029',
  '\u0001\u001f\u007f',
  '\\u0000',
  "'; --",
  '{{ 1 }}',
  '\ufffe',
])('IN-03 the text %j comes back as it went', async (value) => {
  expect(await recorded({ value, [value]: 1 })).toMatchObject({ value, [value]: 1 });
});

test('IN-12 documents of 5 MB, 100,000 steps or endless names are refused shortly, and others are served meanwhile', async () => {
  const head = 'apiVersion: callboard/v2\nkind: Playbook\nmetadata: { path: input/large }\nworkflow:\n';
  const steps = (count: number) =>
    Array.from({ length: count }, (_none, index) => `  - { step: s${index}, tool: { kind: noop } }\n`).join('');
  for (const content of [
    head + steps(100_000),
    `${head}${'# padding\n'.repeat(500_000)}`,
    `${head}${steps(1_500)}`,
    `${head}  - { step: ${'n'.repeat(10_000)}, tool: { kind: noop } }\n`,
  ]) {
    const reading = door.call('POST', '/api/catalog/register', { content });
    const health = await door.call('GET', '/api/health');
    expect(health.status).toBe(200);
    const { status, text } = await reading;
    expect([413, 422]).toContain(status);
    expect(text.length).toBeLessThan(100_000);
  }
}, 60_000);

test('IN-04 a result of SQL too deep for an event is no failure of the server', async () => {
  const deep = `select ${'jsonb_build_array('.repeat(90)}1${')'.repeat(90)} as value`;
  const answer = await door.call('POST', '/api/postgres/execute', { query: deep });
  expect(answer.status).toBeLessThan(500);
});

test('IN-01 nothing of this was a failure of the server', () => {
  expect(door.lines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});
