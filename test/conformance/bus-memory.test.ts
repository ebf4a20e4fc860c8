import { createMemoryExchange } from '../../actors/memory/memory-bus.ts';
import { describeBus } from './bus-suite.ts';

describeBus('the bus in memory', async () => {
  let isAway = false;
  const exchange = createMemoryExchange((deliver) => {
    if (!isAway) queueMicrotask(deliver);
  });
  return {
    connect: async () => exchange.connect(),
    async away(work) {
      isAway = true;
      await work();
      isAway = false;
    },
    close: async () => {},
  };
});
