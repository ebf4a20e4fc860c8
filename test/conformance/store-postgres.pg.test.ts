import { createSeededIds } from '../../actors/memory/seeded-ids.ts';
import { createStore } from '../../src/store/store.ts';
import { openTestDatabase } from '../support/database.ts';
import { describeStore } from './store-suite.ts';

describeStore('the store on PostgreSQL', async () => {
  const { database, catalogId, close } = await openTestDatabase();
  const ids = createSeededIds();
  return {
    store: createStore(database),
    catalogId,
    now: Date.now,
    nextId: ids.next,
    async appendByHand(row) {
      await database.reads.run(
        `insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_name)
         values ($1, $2, $2, $3, $4, $5, $6)`,
        [row.executionId, row.eventId, row.catalogId, row.type, row.status, row.nodeName],
      );
    },
    close,
  };
});
