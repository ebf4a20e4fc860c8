import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Trail, TrailPosition } from '../../actors/trail.ts';
import type { LogEvent } from '../../machines/events.ts';
import { Tape } from '../../machines/execution/tape.ts';
import { foldOrder } from '../../machines/replay.ts';
import { createStore } from '../../src/store/store.ts';
import { createTrail } from '../../src/store/trail.ts';
import { execution, flush } from '../conformance/rows.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { randomStory } from '../support/random-story.ts';

const START: TrailPosition = { causeId: 0, eventId: 0 };
const SEEDS = [
  [1, 40, 900],
  [2, 7, 14, 22, 4003, 31, 9, 77, 10, 15, 18],
  [4, 15, 22, 1000, 1001, 1002, 1003, 1004, 1005, 2000, 2001, 2002, 2003],
];

let db: TestDatabase;
let trail: Trail;
const logs = new Map<number, readonly LogEvent[]>();

/** Numbered as a batch numbers them: what came from outside first, what was decided later. */
function asBatch(log: readonly LogEvent[]): readonly LogEvent[] {
  const order = [
    ...log.filter((event) => event.eventId === event.causeId),
    ...log.filter((event) => event.eventId !== event.causeId),
  ];
  const numbers = new Map(order.map((event, index) => [event.eventId, index + 1]));
  return order.map((event) => ({
    ...event,
    eventId: numbers.get(event.eventId) ?? 0,
    causeId: numbers.get(event.causeId) ?? 0,
    parentEventId: null,
  }));
}

beforeAll(async () => {
  db = await openTestDatabase();
  trail = createTrail(db.database.reads);
  const store = createStore(db.database);
  let executionId = 7_000;
  for (const seeds of SEEDS) {
    for (const log of [randomStory(seeds).log, asBatch(randomStory(seeds).log)]) {
      executionId += 1;
      logs.set(executionId, log);
      const own = { executionId, catalogId: db.catalogId };
      await store.commit(
        flush({
          started: [execution(executionId, db.catalogId, { lastEventId: log.length, handledThrough: log.length })],
          events: log.map((event) => ({ ...event, ...own })),
        }),
      );
    }
  }
});
afterAll(() => db.close());

async function read(
  executionId: number,
  limit: number,
  handledThrough = Number.MAX_SAFE_INTEGER,
): Promise<readonly LogEvent[]> {
  const found: LogEvent[] = [];
  for (let place = START; ; ) {
    const rows = await trail.rows(executionId, place, handledThrough, limit);
    found.push(...rows);
    const last = rows.at(-1);
    if (last === undefined || rows.length < limit) return found;
    place = last;
  }
}

test('rows come in the order of the fold, in pieces of any size', async () => {
  for (const [executionId, log] of logs) {
    const wanted = foldOrder(log).map((event) => event.eventId);
    for (const limit of [1, 4, 1000])
      expect((await read(executionId, limit)).map((event) => event.eventId)).toEqual(wanted);
  }
});

test('what is cut off in the database is nothing that the chart folds', async () => {
  for (const [executionId, log] of logs) {
    const [slim, full] = [new Tape(), new Tape()];
    const rows = await read(executionId, 1000);
    const frames = rows.map((event) => slim.play(event));
    expect(frames).toEqual(foldOrder(log).map((event) => full.play(event)));
  }
});

test('no value of a step and no variable is read', async () => {
  for (const executionId of logs.keys()) {
    for (const event of await read(executionId, 1000)) {
      expect(event.result).toBeNull();
      if (event.type === 'ctx.updated')
        expect(Object.values(event.context['values'] ?? {}).every((each) => each === null)).toBe(true);
    }
  }
});

test('what nobody has handled yet is not there', async () => {
  const [executionId = 0] = logs.keys();
  expect((await read(executionId, 1000, 1)).every((event) => event.causeId === 1)).toBe(true);
});

test('an event has its place, and the head its row', async () => {
  const [executionId = 0] = logs.keys();
  expect(await trail.locate(executionId, 2)).toEqual({ causeId: 1, eventId: 2 });
  expect(await trail.locate(executionId, 9999)).toBeNull();
  expect(await trail.head(executionId)).toMatchObject({ row: { executionId }, snapshot: null });
  expect(await trail.head(1)).toBeNull();
});
