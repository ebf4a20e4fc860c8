import { createPostgresBus } from '../../src/bus/postgres-bus.ts';
import { busOptions, untilState } from '../support/bus.ts';
import { queryRows, startTestPostgres } from '../support/postgres.ts';
import { describeBus } from './bus-suite.ts';

describeBus('the bus on PostgreSQL', async () => {
  const postgres = await startTestPostgres();
  return {
    async connect() {
      const bus = createPostgresBus(busOptions(postgres.url).options);
      await untilState(bus, 'ok');
      return bus;
    },
    async away(work) {
      const database = /test_[0-9a-f]+/.exec(postgres.url)?.[0] ?? '';
      const server = postgres.url.replace(database, 'postgres');
      await queryRows(server, `alter database ${database} with allow_connections false`);
      await queryRows(server, 'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [database]);
      await work();
      await queryRows(server, `alter database ${database} with allow_connections true`);
    },
    close: postgres.stop,
  };
});
