import { createMemoryExchange } from '../../actors/memory/memory-bus.ts';
import { describeBus } from './bus-suite.ts';

describeBus('the bus in memory', async () => {
  const exchange = createMemoryExchange();
  return { connect: async () => exchange.connect(), close: async () => {} };
});
