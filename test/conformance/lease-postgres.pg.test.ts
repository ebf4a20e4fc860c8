import { createLeaseStore } from '../../src/store/leases.ts';
import { openTestDatabase } from '../support/database.ts';
import { describeLeases } from './lease-suite.ts';

describeLeases('leases on PostgreSQL', async () => {
  const { database, close } = await openTestDatabase();
  return {
    store: createLeaseStore(database.reads),
    // The database's own clock decides, so its time is what has to pass.
    async wait(ms) {
      await database.reads.rows('select pg_sleep($1)', [ms / 1000]);
    },
    close,
  };
});
