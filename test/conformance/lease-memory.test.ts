import { createMemoryLeases } from '../../actors/memory/memory-leases.ts';
import { createStepClock } from '../../actors/memory/step-clock.ts';
import { describeLeases } from './lease-suite.ts';

describeLeases('leases in memory', async () => {
  const clock = createStepClock();
  return {
    store: createMemoryLeases(clock),
    async wait(ms) {
      clock.advance(ms);
    },
    async close() {},
  };
});
