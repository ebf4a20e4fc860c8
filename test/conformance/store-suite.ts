/**
 * What every Store must do. Run against the one in memory and the one on PostgreSQL, so that what the simulator proves
 * on the first holds for the second.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hintOf } from '../../actors/command-hint.ts';
import {
  type CommandRow,
  DuplicateKeyError,
  type EventRow,
  StaleError,
  type Store,
  UnavailableError,
} from '../../actors/ports.ts';
import type { LogEvent } from '../../machines/events.ts';
import { change, command, event, execution, flush, head, held, result, START } from './rows.ts';

export interface StoreHarness {
  readonly store: Store;
  readonly catalogId: number;
  /** The time the store goes by. */
  now(): number;
  nextId(): number;
  /** Writes a row to the log behind the store's back. */
  appendByHand(event: EventRow): Promise<void>;
  close(): Promise<void>;
}

export function describeStore(name: string, open: () => Promise<StoreHarness>): void {
  describe(name, () => {
    let harness: StoreHarness;
    let store: Store;
    let catalogId: number;

    beforeAll(async () => {
      harness = await open();
      ({ store, catalogId } = harness);
    });
    afterAll(() => harness.close());

    const at = (offsetMs: number) => new Date(harness.now() + offsetMs).toISOString();
    const newExecution = async (more: Parameters<typeof execution>[2] = {}) => {
      const id = harness.nextId();
      const row = execution(id, catalogId, { path: `suite/${id}`, ...more });
      await store.commit(flush({ started: [row], events: [event(id, catalogId, 1)] }));
      return id;
    };
    const newCommand = async (executionId: number, more: Parameters<typeof command>[3] = {}) => {
      const row = command(executionId, catalogId, harness.nextId(), more);
      await store.commit(flush({ issued: [row] }));
      return row;
    };
    const refused = (error: unknown) =>
      error instanceof Error &&
      !(error instanceof StaleError || error instanceof UnavailableError || error instanceof DuplicateKeyError);

    describe('commit', () => {
      test('writes every kind of row, and load gives them back as they were', async () => {
        const id = harness.nextId();
        const row = execution(id, catalogId, {
          path: 'suite/full',
          labels: { team: 'ünï' },
          workload: { deep: { list: [1, 2.5, null, true, 'x'] } },
          requestHash: 'ab'.repeat(32),
          idempotencyKey: `full-${id}`,
          nextWakeAt: '2026-11-20T10:15:02.120Z',
          openCommands: 1,
          lastEventId: 2,
          handledThrough: 2,
        });
        const events = [
          event(id, catalogId, 1, { context: { a: [{}] } }),
          event(id, catalogId, 2, {
            causeId: 1,
            parentEventId: 1,
            commandId: 7,
            attempt: 3,
            workerId: 'w',
            reportId: 'r',
            reportSeq: 0,
            duration: 84.25,
            result: { status: 'completed', context: { data: 'text' } },
            error: 'oops',
            meta: { late: true },
            engineVersion: 4,
            at: '2026-11-20T10:15:02.007Z',
          }),
        ];
        const issued = command(id, catalogId, harness.nextId(), { iterationIndex: 2, meta: { activation: 1 } });
        await store.commit(flush({ started: [row], events, issued: [issued] }));
        const loaded = (await store.load([id])).get(id);
        expect(loaded?.row).toEqual(row);
        expect(loaded?.snapshot).toBeNull();
        expect(loaded?.tail).toEqual(events.map(({ executionId: _, catalogId: __, ...rest }) => rest));
        expect(loaded?.openCommands).toEqual([issued]);
        expect(await store.execution(id)).toEqual(row);
        expect(await store.command(issued.commandId)).toEqual(issued);
      });

      test('keeps the order of keys wherever templates can see them', async () => {
        const id = harness.nextId();
        const map = { zeta: 1, b: [{ name: 'n', id: 1 }], aa: { long: 1, s: null } };
        const started = event(id, catalogId, 1, {
          type: 'execution.started',
          context: { args: map, workload: { ...map, alpha: 1 } },
        });
        const rows = [
          event(id, catalogId, 2, { type: 'step.enter', context: { collection: [map] } }),
          event(id, catalogId, 3, { type: 'ctx.updated', context: { values: { w: map, a: 1 } } }),
          event(id, catalogId, 4, {
            type: 'call.done',
            commandId: 7,
            result: { status: 'completed', context: { data: map, count: 1 } },
            meta: { ctx: { x: map }, tasks: { two: {}, one: {} }, key_order: 'not for others to say' },
          }),
          event(id, catalogId, 5, {
            type: 'loop.done',
            // The same keys in two orders.
            result: { status: 'completed', context: { data: [map, { aa: 1, b: 2, zeta: 3 }] } },
          }),
        ];
        const context = {
          render_context: { ctx: map, steps: { s: map }, workload: {}, iteration: { kind: 'item', item: map } },
        };
        const issued = command(id, catalogId, harness.nextId(), { context });
        const row = execution(id, catalogId, { path: `suite/${id}` });
        await store.commit(flush({ started: [row], events: [started, ...rows], issued: [issued] }));
        expect(await store.ending(id)).toBeNull();
        const ending = event(id, catalogId, 6, { type: 'playbook.completed', context: { result: map } });
        await store.commit(flush({ events: [ending] }));
        expect(JSON.stringify((await store.ending(id))?.context['result'])).toBe(JSON.stringify(map));
        const told = (value: unknown) => JSON.stringify(value);
        const parts = (events: readonly LogEvent[]) =>
          told(events.map(({ context, result, meta }) => [context, result?.context, meta['ctx'], meta['tasks']]));
        const wanted = parts([started, ...rows, ending]);
        const loaded = (await store.load([id])).get(id);
        expect(parts(loaded?.tail ?? [])).toBe(wanted);
        expect(parts(await store.events(id, [1, 2, 3, 4, 5, 6]))).toBe(wanted);
        expect(told(loaded?.openCommands[0]?.context)).toBe(told(context));
        expect(told((await store.command(issued.commandId))?.context)).toBe(told(context));
        const retried = { resume: { z: 1, a: 2 }, render_context: { args: map } };
        await store.commit(flush({ commands: [change(issued, { context: retried })] }));
        expect(told((await store.command(issued.commandId))?.context)).toBe(told(retried));
      });

      test('moves heads of many executions at once', async () => {
        const ids = [await newExecution(), await newExecution(), await newExecution()];
        await store.commit(
          flush({
            events: ids.map((id) => event(id, catalogId, 2)),
            heads: ids.map((id) => head(id, 1, 2, { progress: 40 })),
          }),
        );
        for (const id of ids) {
          expect(await store.execution(id)).toMatchObject({ lastEventId: 2, handledThrough: 2, progress: 40 });
        }
      });

      test('keeps a snapshot and gives only the events after it', async () => {
        const id = await newExecution();
        const snapshot = {
          throughEventId: 2,
          machineVersion: 9,
          value: { a: 'b' },
          context: { steps: { start: 1, s1: 2, a: { n: 1 } } },
        };
        await store.commit(
          flush({ events: [event(id, catalogId, 2), event(id, catalogId, 3)], heads: [head(id, 1, 3, { snapshot })] }),
        );
        await store.commit(flush({ events: [event(id, catalogId, 4)], heads: [head(id, 3, 4)] }));
        const loaded = (await store.load([id])).get(id);
        expect(loaded?.snapshot).toEqual(snapshot);
        expect(JSON.stringify(loaded?.snapshot?.context)).toBe(JSON.stringify(snapshot.context));
        expect(loaded?.row.machineVersion).toBe(9);
        expect(loaded?.tail.map((one) => one.eventId)).toEqual([3, 4]);
      });

      test('ends an execution with all that belongs to the end', async () => {
        const id = await newExecution();
        const end = {
          status: 'failed',
          result: null,
          resultRef: null,
          error: 'Failed steps: a: no',
          errorDetail: { message: 'no' },
          progressDetail: { total_steps: 1 },
          endTime: '2026-11-20T10:16:00.500Z',
        } as const;
        await store.commit(
          flush({
            events: [event(id, catalogId, 2, { type: 'playbook.failed', status: 'failed' })],
            heads: [head(id, 1, 2, { progress: 100, end })],
          }),
        );
        expect(await store.execution(id)).toMatchObject({ ...end, progress: 100, lastEventId: 2 });
      });

      test('lets a late event move only the numbers of an ended execution', async () => {
        const id = await newExecution();
        const end = {
          status: 'completed',
          result: 'a plain string',
          resultRef: null,
          error: null,
          errorDetail: null,
          progressDetail: {},
          endTime: '2026-11-20T10:16:00.500Z',
        } as const;
        await store.commit(
          flush({
            events: [event(id, catalogId, 2, { type: 'playbook.completed', status: 'completed' })],
            heads: [head(id, 1, 2, { progress: 100, lastEventType: 'playbook.completed', end })],
          }),
        );
        const before = await store.execution(id);
        await store.commit(
          flush({
            events: [event(id, catalogId, 3)],
            heads: [head(id, 2, 3, { late: true, progress: 3, lastEventType: 'x', currentStep: 'y', openCommands: 5 })],
          }),
        );
        expect(before?.result).toBe('a plain string');
        expect(await store.execution(id)).toEqual({ ...before, lastEventId: 3, handledThrough: 3 });
      });

      test('changes the mutable columns of a command', async () => {
        const id = await newExecution();
        const row = await newCommand(id);
        const claimed = change(row, { ...held('w1'), nextWakeAt: at(1000), latestEventId: 5 });
        await store.commit(flush({ commands: [claimed] }));
        expect(await store.command(row.commandId)).toEqual({ ...row, ...claimed });
        const completed = { ...claimed, status: 'COMPLETED', completedAt: at(0), nextWakeAt: null } as const;
        await store.commit(flush({ commands: [completed] }));
        expect(await store.command(row.commandId)).toEqual({ ...row, ...completed });
      });
    });

    describe('a race', () => {
      test('for an event number has one winner, and the loser writes nothing', async () => {
        const [one, other] = [await newExecution(), await newExecution()];
        await store.commit(flush({ events: [event(one, catalogId, 2)], heads: [head(one, 1, 2)] }));
        const losing = store.commit(
          flush({
            events: [event(other, catalogId, 2), event(one, catalogId, 2)],
            heads: [head(other, 1, 2), head(one, 1, 2)],
          }),
        );
        const error = await losing.then(
          () => null,
          (reason: unknown) => reason,
        );
        expect(error).toBeInstanceOf(StaleError);
        expect(error instanceof StaleError && error.executionIds).toEqual([one]);
        expect(await store.execution(other)).toMatchObject({ lastEventId: 1 });
        expect((await store.load([other])).get(other)?.tail).toHaveLength(1);
      });

      test('for a head is noticed even when the event numbers are free', async () => {
        const id = await newExecution();
        const error = await store.commit(flush({ heads: [head(id, 7, 8)] })).then(
          () => null,
          (reason: unknown) => reason,
        );
        expect(error).toBeInstanceOf(StaleError);
        expect(error instanceof StaleError && error.executionIds).toEqual([id]);
      });

      test('for turns that wrote no event is noticed by the events they handled', async () => {
        const id = await newExecution();
        await store.commit(
          flush({ events: [event(id, catalogId, 2)], heads: [head(id, 1, 2, { handledThrough: 1 })] }),
        );
        const drained = flush({ heads: [head(id, 2, 2, { expectedHandledThrough: 1 })] });
        await store.commit(drained);
        await expect(store.commit(drained)).rejects.toThrow(StaleError);
      });

      test('for the terminal event has one winner', async () => {
        const id = await newExecution();
        await harness.appendByHand(event(id, catalogId, 2, { type: 'execution.cancelled', status: 'cancelled' }));
        await expect(
          store.commit(
            flush({ events: [event(id, catalogId, 3, { type: 'playbook.completed' })], heads: [head(id, 1, 3)] }),
          ),
        ).rejects.toThrow(StaleError);
      });

      test('for an idempotency key has one winner per path', async () => {
        const key = `key-${harness.nextId()}`;
        const first = await newExecution({ path: 'suite/one', idempotencyKey: key });
        await newExecution({ path: 'suite/other', idempotencyKey: key });
        const second = harness.nextId();
        const error = await store
          .commit(
            flush({
              started: [execution(second, catalogId, { path: 'suite/one', idempotencyKey: key })],
              events: [event(second, catalogId, 1)],
            }),
          )
          .then(
            () => null,
            (reason: unknown) => reason,
          );
        expect(error).toBeInstanceOf(DuplicateKeyError);
        expect(error instanceof DuplicateKeyError && error.executionId).toBe(second);
        expect(await store.execution(second)).toBeNull();
        expect((await store.byIdempotencyKey('suite/one', key))?.executionId).toBe(first);
        expect(await store.byIdempotencyKey('suite/none', key)).toBeNull();
      });
    });

    describe('the schema', () => {
      const cases: readonly [string, (id: number) => Parameters<typeof flush>[0]][] = [
        ['a cause after its event', (id) => ({ events: [event(id, catalogId, 2, { causeId: 3 })] })],
        [
          'a result that is more than a result',
          (id) => ({ events: [event(id, catalogId, 2, { result: { status: 's', more: 1 } as never })] }),
        ],
        ['a type that is no name', (id) => ({ events: [event(id, catalogId, 2, { type: 'Not A Type' })] })],
        ['a negative duration', (id) => ({ events: [event(id, catalogId, 2, { duration: -1 })] })],
        [
          'an open command nobody looks at again',
          (id) => ({ issued: [command(id, catalogId, 5, { nextWakeAt: null })] }),
        ],
        [
          'a claimed command without a worker',
          (id) => ({ issued: [command(id, catalogId, 5, { status: 'CLAIMED' })] }),
        ],
        ['a pending command with a worker', (id) => ({ issued: [command(id, catalogId, 5, { workerId: 'w' })] })],
        ['an ended command without an end', (id) => ({ issued: [command(id, catalogId, 5, { status: 'FAILED' })] })],
        ['a parked command that does not run', (id) => ({ issued: [command(id, catalogId, 5, { parkedOn: 1 })] })],
        ['a head handled beyond its log', (id) => ({ heads: [head(id, 1, 2, { handledThrough: 3 })] })],
        [
          'an end with open commands',
          (id) => ({
            heads: [
              head(id, 1, 2, {
                progress: 100,
                openCommands: 1,
                end: {
                  status: 'completed',
                  result: null,
                  resultRef: null,
                  error: null,
                  errorDetail: null,
                  progressDetail: {},
                  endTime: START,
                },
              }),
            ],
          }),
        ],
        ['a change of a command that is not there', (id) => ({ commands: [change(command(id, catalogId, 404), {})] })],
      ];
      test.each(cases)('refuses %s', async (_, rows) => {
        const id = await newExecution();
        await expect(store.commit(flush(rows(id)))).rejects.toSatisfy(refused);
      });

      test('refuses a second settlement, a repeated report and a repeated natural key', async () => {
        const id = await newExecution();
        const done = { type: 'call.done', commandId: 9, reportId: 'r', reportSeq: 0 } as const;
        await store.commit(
          flush({
            events: [
              event(id, catalogId, 2, done),
              event(id, catalogId, 3, { type: 'command.completed', commandId: 9, closes: true }),
            ],
          }),
        );
        const again = (more: Partial<EventRow>) => store.commit(flush({ events: [event(id, catalogId, 4, more)] }));
        await expect(again({ ...done, reportId: null, reportSeq: null })).rejects.toSatisfy(refused);
        await expect(again({ type: 'call.progress', reportId: 'r', reportSeq: 0 })).rejects.toSatisfy(refused);
        await expect(again({ type: 'command.failed', commandId: 9, closes: true })).rejects.toSatisfy(refused);
        await again({ ...done, stale: true, reportId: 'r2' });
      });

      test('refuses a second command of the same key', async () => {
        const id = await newExecution();
        await newCommand(id, { commandKey: 'a@1' });
        await expect(newCommand(id, { commandKey: 'a@1' })).rejects.toSatisfy(refused);
      });
    });

    describe('reads of a log', () => {
      test('give chosen rows, rows of reports and rows of a command', async () => {
        const id = await newExecution();
        const row = await newCommand(id, { eventId: 2 });
        const of = { commandId: row.commandId };
        await store.commit(
          flush({
            events: [
              event(id, catalogId, 2, { ...of, type: 'command.issued' }),
              event(id, catalogId, 3, { ...of, type: 'command.claimed' }),
              event(id, catalogId, 4, { ...of, type: 'call.done', stale: true, reportId: 'late', reportSeq: 0 }),
              event(id, catalogId, 5, { ...of, type: 'call.done', reportId: 'good', reportSeq: 0 }),
              event(id, catalogId, 6, {
                ...of,
                type: 'command.completed',
                reportId: 'good',
                reportSeq: 1,
                closes: true,
              }),
            ],
            heads: [head(id, 1, 6)],
          }),
        );
        const numbers = (rows: readonly { eventId: number }[]) => rows.map((one) => one.eventId);
        expect(numbers(await store.events(id, [6, 1, 99, 3]))).toEqual([1, 3, 6]);
        expect(numbers(await store.reported(id, ['good', 'never']))).toEqual([5, 6]);
        expect(numbers(await store.commandEvents(id, row.commandId))).toEqual([2, 3, 5, 6]);
        expect(await store.events(id, [])).toEqual([]);
        expect((await store.events(id, [5]))[0]).not.toHaveProperty('executionId');
      });

      test('give what closed the iterations of one activation, in order of the index', async () => {
        const id = await newExecution();
        const rows = [];
        for (const [iterationIndex, step, activation] of [
          [10, 'loop', 1],
          [2, 'loop', 1],
          [0, 'loop', 2],
          [0, 'loop', 11],
          [0, 'loopy', 1],
          [null, 'loop', 1],
        ] as const) {
          const suffix = iterationIndex === null ? '' : `#${iterationIndex}`;
          const eventId = harness.nextId();
          rows.push(
            await newCommand(id, {
              eventId,
              activation,
              iterationIndex,
              stepName: step,
              commandKey: `${step}@${activation}${suffix}`,
            }),
          );
        }
        await store.commit(
          flush({
            events: rows.flatMap((row, index) => [
              event(id, catalogId, 10 + 2 * index, {
                type: index % 2 === 0 ? 'call.done' : 'call.error',
                nodeName: row.stepName,
                commandId: row.commandId,
              }),
              event(id, catalogId, 11 + 2 * index, { type: 'call.done', commandId: row.commandId, stale: true }),
            ]),
          }),
        );
        const closing = await store.iterations(id, 'loop', 1);
        expect(closing.map((one) => [one.commandId, one.type])).toEqual([
          [rows[1]?.commandId, 'call.error'],
          [rows[0]?.commandId, 'call.done'],
        ]);
      });

      test('give the closing row of an iteration that has no call, and none of one that is parked', async () => {
        const id = await newExecution();
        const rows: CommandRow[] = [];
        for (const iterationIndex of [0, 1, 2, 3]) {
          const key = { iterationIndex, stepName: 'loop', commandKey: `loop@1#${iterationIndex}` };
          rows.push(await newCommand(id, { eventId: harness.nextId(), ...key }));
        }
        const said = (index: number, eventId: number, type: string, more = {}) =>
          event(id, catalogId, eventId, { type, commandId: rows[index]?.commandId ?? 0, ...more });
        await store.commit(
          flush({
            events: [
              said(0, 10, 'command.completed', { context: { pending_callback: true, child_execution_id: 7 } }),
              said(1, 11, 'command.completed'),
              said(1, 12, 'call.done', { meta: { late: true } }),
              said(2, 13, 'command.failed'),
              said(3, 14, 'call.error'),
              said(3, 15, 'command.failed'),
            ],
          }),
        );
        const closing = await store.iterations(id, 'loop', 1);
        expect(closing.map((one) => one.eventId)).toEqual([11, 13, 14]);
      });

      test('find the payload of a reference, and nothing for what is no reference', async () => {
        const id = await newExecution();
        const rows = [
          result(id, harness.nextId(), { big: [1, 2, 'x'] }),
          result(id, harness.nextId(), { big: [1, 2, 'x'] }),
          result(id, harness.nextId(), 'gone', { expiresAt: at(-1000) }),
        ];
        await store.commit(flush({ results: rows }));
        await store.commit(flush({ results: [result(id, harness.nextId(), { big: [1, 2, 'x'] })] }));
        expect(await store.payload(rows[0]?.ref ?? '')).toEqual({ big: [1, 2, 'x'] });
        expect(await store.payload(rows[1]?.ref ?? '')).toEqual({ big: [1, 2, 'x'] });
        expect(await store.payload(rows[2]?.ref ?? '')).toBeUndefined();
        expect(await store.payload(`callboard://execution/${id}/result/fetch/1`)).toBeUndefined();
        expect(await store.payload('http://elsewhere')).toBeUndefined();
      });

      test('show a row written by hand in the tail and as an inbox', async () => {
        const id = await newExecution();
        expect(await store.withInbox(1000)).not.toContain(id);
        await harness.appendByHand(event(id, catalogId, 2, { type: 'execution.cancelled', status: 'cancelled' }));
        expect((await store.load([id])).get(id)?.tail.map((one) => one.type)).toEqual([
          'execution.started',
          'execution.cancelled',
        ]);
        expect(await store.withInbox(1000)).toContain(id);
      });

      test('leave out executions that are not there', async () => {
        expect((await store.load([harness.nextId()])).size).toBe(0);
        expect((await store.load([])).size).toBe(0);
        expect(await store.execution(harness.nextId())).toBeNull();
        expect(await store.command(harness.nextId())).toBeNull();
      });
    });

    describe('reads of commands', () => {
      test('give pending ones of the wanted pools, highest priority first, then oldest', async () => {
        const id = await newExecution();
        const pool = `pool-${id}`;
        const a = await newCommand(id, { pool });
        const b = await newCommand(id, { pool, priority: 5, republishCount: 2, meta: { trace: '00-ab-cd-01' } });
        const c = await newCommand(id, { pool: `${pool}-2` });
        await newCommand(id, { pool, ...held('w') });
        await newCommand(id, { pool: `${pool}-3` });
        const found = await store.pending([pool, `${pool}-2`, pool], 10);
        expect(found.map((hint) => hint.commandId)).toEqual([b.commandId, a.commandId, c.commandId]);
        expect(found[0]).toEqual(hintOf(b));
        expect(found[0]).toMatchObject({
          executionId: id,
          commandId: b.commandId,
          pool,
          priority: 5,
          toolKind: 'http',
        });
        expect(await store.pending([pool, `${pool}-2`], 1)).toHaveLength(1);
        expect(await store.pending([], 5)).toEqual([]);
      });

      test('give overdue ones, claims first, then the longest overdue, never parked ones', async () => {
        const id = await newExecution();
        const pending = await newCommand(id, { nextWakeAt: at(-90_000) });
        const late = await newCommand(id, { ...held('w'), nextWakeAt: at(-10_000) });
        const later = await newCommand(id, { ...held('w'), nextWakeAt: at(-60_000) });
        const parked = await newCommand(id, {
          ...held('w'),
          status: 'RUNNING',
          parkedOn: harness.nextId(),
          nextWakeAt: at(-70_000),
        });
        await newCommand(id, { nextWakeAt: at(3_600_000) });
        const own = (rows: readonly { executionId: number; commandId: number }[]) =>
          rows.filter((row) => row.executionId === id).map((row) => row.commandId);
        expect(own(await store.overdue(100))).toEqual([later.commandId, late.commandId, pending.commandId]);
        expect(own(await store.parkedUntil(0, 100))).toEqual([parked.commandId]);
        expect(await store.nextWakeAt()).toBe(pending.nextWakeAt);
        await store.postpone(
          [pending, late, later, parked].map((row) => ({
            executionId: id,
            commandId: row.commandId,
            nextWakeAt: at(3_600_000),
            republished: row === pending,
          })),
        );
        expect(own(await store.overdue(100))).toEqual([]);
        expect(await store.command(pending.commandId)).toMatchObject({ republishCount: 1, status: 'PENDING' });
        expect(await store.command(late.commandId)).toMatchObject({ republishCount: 0, republishedAt: null });
        expect((await store.command(pending.commandId))?.republishedAt).not.toBeNull();
      });

      test('find those of a worker and those of a claim', async () => {
        const id = await newExecution();
        const worker = `w-${id}`;
        const one = await newCommand(id, held(worker));
        const two = await newCommand(id, held(worker, { claimId: 'claim-2', status: 'RUNNING' }));
        await newCommand(id, held(worker, { status: 'COMPLETED', completedAt: at(0) }));
        await newCommand(id, held('somebody else'));
        await newCommand(id, held(worker, { status: 'RUNNING', parkedOn: 77 }));
        expect((await store.heldBy(worker)).map((hint) => hint.commandId)).toEqual([one.commandId, two.commandId]);
        expect(await store.commandsClaimedBy('claim-2', worker)).toEqual([two]);
        expect(await store.commandsClaimedBy('claim-2', 'somebody else')).toEqual([]);
      });

      test('find parked ones by their child, and those whose child has ended', async () => {
        const id = await newExecution();
        const [running, ended] = [await newExecution(), await newExecution()];
        await store.commit(
          flush({
            heads: [
              head(ended, 1, 1, {
                progress: 100,
                end: {
                  status: 'cancelled',
                  result: null,
                  resultRef: null,
                  error: 'stopped',
                  errorDetail: null,
                  progressDetail: {},
                  endTime: START,
                },
              }),
            ],
          }),
        );
        const parkOn = (child: number) => newCommand(id, { ...held('w'), status: 'RUNNING', parkedOn: child });
        const [a, b] = [await parkOn(running), await parkOn(ended)];
        const link = (row: { commandId: number }, child: number) => ({
          executionId: id,
          commandId: row.commandId,
          childExecutionId: child,
        });
        expect(await store.parked([running, ended])).toEqual([link(a, running), link(b, ended)]);
        expect(await store.parked([])).toEqual([]);
        expect((await store.parked()).filter((row) => row.executionId === id)).toEqual([link(b, ended)]);
      });

      test('touch only the claim that is meant', async () => {
        const id = await newExecution();
        const row = await newCommand(id, held('w', { attempt: 2 }));
        const touch = (attempt: number) =>
          store.touch([{ executionId: id, commandId: row.commandId, attempt, nextWakeAt: at(50_000) }]);
        await touch(1);
        expect(await store.command(row.commandId)).toEqual(row);
        await touch(2);
        expect(await store.command(row.commandId)).toMatchObject({ status: 'CLAIMED', attempt: 2 });
        expect((await store.command(row.commandId))?.heartbeatAt).not.toBeNull();
        expect((await store.command(row.commandId))?.nextWakeAt).not.toBe(row.nextWakeAt);
      });
    });

    describe('reads of claims', () => {
      test('leave a parked command alone: its moment belongs to what it waits for', async () => {
        const parked = { ...held('w', { attempt: 2 }), status: 'RUNNING', parkedOn: 0 } as const;
        const row = await newCommand(await newExecution(), parked);
        const { executionId, commandId } = row;
        expect(await store.holds([commandId])).toEqual(new Map());
        await store.touch([{ executionId, commandId, attempt: 2, nextWakeAt: at(50_000) }]);
        expect(await store.command(commandId)).toEqual(row);
      });

      test('tell which commands may be claimed', async () => {
        const id = await newExecution();
        const due = { nextWakeAt: at(-1_000) };
        const rows = [
          [await newCommand(id), true],
          [await newCommand(id, held('w')), false],
          [await newCommand(id, { ...held('w'), ...due }), true],
          [await newCommand(id, { ...held('w'), status: 'RUNNING', parkedOn: 0, ...due }), true],
          [await newCommand(id, { ...held('w'), status: 'RUNNING', parkedOn: 0 }), false],
          [await newCommand(id, { ...held('w'), status: 'RUNNING', parkedOn: id, ...due }), false],
          [await newCommand(id, { ...held('w'), status: 'COMPLETED', completedAt: at(0), nextWakeAt: null }), false],
        ] as const;
        const standing = await store.standing([...rows.map(([row]) => row.commandId), harness.nextId()]);
        expect(rows.map(([row]) => standing.has(row.commandId))).toEqual(rows.map(([, stands]) => stands));
        expect(standing.size).toBe(3);
        expect(await store.standing([])).toEqual(new Set());
      });

      test('give what is held with its last heartbeat, and nothing of what is not', async () => {
        const id = await newExecution();
        const [mine, pending] = [await newCommand(id, held('w', { attempt: 2 })), await newCommand(id)];
        const ids = [mine.commandId, pending.commandId, harness.nextId()];
        const before = await store.holds(ids);
        expect([...before]).toEqual([
          [mine.commandId, { executionId: id, attempt: 2, workerId: 'w', heartbeatAt: null }],
        ]);
        await store.touch([{ executionId: id, commandId: mine.commandId, attempt: 2, nextWakeAt: at(50_000) }]);
        const after = (await store.holds(ids)).get(mine.commandId);
        expect(after?.heartbeatAt).toBe((await store.command(mine.commandId))?.heartbeatAt);
        expect(await store.holds([])).toEqual(new Map());
      });
    });

    describe('reads of executions', () => {
      test('count what the first turn issued, and nothing of later ones', async () => {
        const id = await newExecution();
        const issued = (n: number, causeId: number) =>
          event(id, catalogId, n, { causeId, type: 'command.issued', status: 'pending' });
        expect(await store.issuedAtStart(id)).toBe(0);
        await store.commit(flush({ events: [issued(2, 1), issued(3, 1)] }));
        expect(await store.issuedAtStart(id)).toBe(2);
        await store.commit(flush({ events: [event(id, catalogId, 4), issued(5, 4)] }));
        expect(await store.issuedAtStart(id)).toBe(2);
        expect(await store.issuedAtStart(harness.nextId())).toBe(0);
      });

      test('tell which of some have ended', async () => {
        const [running, done] = [await newExecution(), await newExecution()];
        const end = { result: null, resultRef: null, errorDetail: null, progressDetail: {}, endTime: START } as const;
        const stopped = { ...end, status: 'cancelled', error: 'stopped' } as const;
        await store.commit(flush({ heads: [head(done, 1, 1, { progress: 100, end: stopped })] }));
        const ended = await store.ended([running, done, harness.nextId()]);
        expect(ended.map(({ executionId, status }) => [executionId, status])).toEqual([[done, 'cancelled']]);
        expect(await store.ended([])).toEqual([]);
      });

      test('find children whose parent gave up waiting or was itself ended by a cascade, and no others', async () => {
        const failing = await newExecution();
        const child = async (wait: 'waits' | 'started', closing: Partial<EventRow>, parent = failing, last = 0) => {
          const row = await newCommand(parent, { ...held('w'), status: 'RUNNING' });
          const execution_ = await newExecution({ parentExecutionId: parent, parentCommandId: row.commandId });
          const waits = { pending_callback: true, child_execution_id: execution_ };
          const eventId = harness.nextId();
          const parking = {
            type: 'command.completed',
            commandId: row.commandId,
            context: wait === 'waits' ? waits : {},
          };
          await store.commit(
            flush({
              events: [
                event(parent, catalogId, eventId, parking),
                event(parent, catalogId, eventId + 100_000 + last, { causeId: eventId, ...closing }),
              ],
              commands: [
                change(row, {
                  status: 'CANCELLED',
                  completedAt: START,
                  nextWakeAt: null,
                  latestEventId: eventId + 100_000 + last,
                }),
              ],
            }),
          );
          return execution_;
        };
        const gaveUp = { type: 'ctx.updated', meta: { failures: [] } } as const;
        const failedAt = (steps: readonly string[]) => ({
          type: 'playbook.failed',
          context: { error_detail: { message: 'm', failed_steps: [...steps], errors: [] } },
        });
        const other = async () => newExecution();
        const found = [
          await child('waits', gaveUp),
          await child('waits', failedAt(['a']), await other()),
          await child('started', { type: 'execution.cancelled', context: { cancelled_by: 'cascade' } }, await other()),
          await child('waits', { type: 'command.completed', status: 'completed' }),
        ];
        await child('started', gaveUp);
        await child('started', { type: 'command.completed', status: 'completed' });
        await child('waits', failedAt([]), await other());
        await child('waits', { type: 'execution.cancelled', context: { cancelled_by: 'api' } }, await other());
        const owed = await store.abandoned(0, 1_000);
        expect(owed.map((each) => each.executionId)).toEqual(found);
        expect(owed[0]).toEqual({ executionId: found[0], parentExecutionId: failing });
        expect(await store.abandoned(0, 1)).toHaveLength(1);
        expect(await store.abandoned(1_000_000_000, 1_000)).toEqual([]);
      });

      test('find running descendants, parents first, through ended ones', async () => {
        const root = await newExecution();
        const child = await newExecution({ parentExecutionId: root });
        const ended = await newExecution({
          parentExecutionId: root,
          status: 'completed',
          progress: 100,
          endTime: START,
        });
        const grandchild = await newExecution({ parentExecutionId: ended });
        const great = await newExecution({ parentExecutionId: grandchild });
        expect(await store.runningDescendants(root)).toEqual([child, grandchild, great]);
        expect(await store.runningDescendants(great)).toEqual([]);
      });

      test('find old running ones, oldest first', async () => {
        const younger = await newExecution({ startTime: '2001-01-02T00:00:00.000Z' });
        const older = await newExecution({ startTime: '2001-01-01T00:00:00.000Z' });
        await newExecution({
          startTime: '2001-01-01T00:00:00.000Z',
          status: 'completed',
          progress: 100,
          endTime: START,
        });
        expect(await store.runningSince('2001-01-03T00:00:00.000Z', 10)).toEqual([older, younger]);
        expect(await store.runningSince('2001-01-03T00:00:00.000Z', 1)).toEqual([older]);
        expect(await store.runningSince('2001-01-01T00:00:00.000Z', 10)).toEqual([]);
      });

      test('find those with an inbox', async () => {
        const id = await newExecution();
        await store.commit(
          flush({ events: [event(id, catalogId, 2)], heads: [head(id, 1, 2, { handledThrough: 1 })] }),
        );
        expect(await store.withInbox(1000)).toContain(id);
        await store.commit(flush({ heads: [head(id, 2, 2, { expectedHandledThrough: 1 })] }));
        expect(await store.withInbox(1000)).not.toContain(id);
      });
    });
  });
}
