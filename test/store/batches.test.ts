import { createMemoryStore } from '../../actors/memory/memory-store.ts';
import { describeBatchStore } from './batch-suite.ts';

describeBatchStore('batches of the store in memory', async () => {
  const store = createMemoryStore({ now: () => Date.now() });
  let id = 1_000;
  return {
    store,
    batches: store.batches,
    catalogId: 900,
    nextId() {
      id += 1;
      return id;
    },
    async close() {},
  };
});
