import { createPostgresBus } from '../../src/bus/postgres-bus.ts';
import { busOptions, untilState } from '../support/bus.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { describeBus } from './bus-suite.ts';

describeBus('the bus on PostgreSQL', async () => {
  const postgres = await startTestPostgres();
  return {
    async connect() {
      const bus = createPostgresBus(busOptions(postgres.url).options);
      await untilState(bus, 'ok');
      return bus;
    },
    close: postgres.stop,
  };
});
