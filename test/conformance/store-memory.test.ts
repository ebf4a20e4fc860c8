import { expect, test } from 'vitest';
import { createMemoryStore } from '../../actors/memory/memory-store.ts';
import { createSeededIds } from '../../actors/memory/seeded-ids.ts';
import { createStepClock } from '../../actors/memory/step-clock.ts';
import { UnavailableError } from '../../actors/ports.ts';
import { event, execution, flush } from './rows.ts';
import { describeStore } from './store-suite.ts';

describeStore('the store in memory', async () => {
  const clock = createStepClock();
  const ids = createSeededIds();
  const store = createMemoryStore(clock);
  return {
    store,
    catalogId: 1,
    now: clock.now,
    nextId: ids.next,
    appendByHand: async (row) => store.appendByHand(row),
    close: async () => {},
  };
});

test('a hook before the commit leaves nothing written, one after it loses only the answer', async () => {
  const fail = () => {
    throw new UnavailableError();
  };
  const started = flush({ started: [execution(5, 1)], events: [event(5, 1, 1)] });
  const failing = createMemoryStore(createStepClock(), { beforeCommit: fail });
  await expect(failing.commit(started)).rejects.toThrow(UnavailableError);
  expect(await failing.execution(5)).toBeNull();
  const losing = createMemoryStore(createStepClock(), { afterCommit: fail });
  await expect(losing.commit(started)).rejects.toThrow(UnavailableError);
  expect(await losing.execution(5)).not.toBeNull();
});

test('what was given to the store can be changed by its owner without changing the store', async () => {
  const store = createMemoryStore(createStepClock());
  const workload = { list: [1] };
  await store.commit(flush({ started: [execution(5, 1, { workload })], events: [event(5, 1, 1)] }));
  workload.list.push(2);
  expect((await store.execution(5))?.workload).toEqual({ list: [1] });
});
