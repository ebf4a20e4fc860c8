import { createNatsBus } from '../../src/bus/nats-bus.ts';
import { natsBusOptions, untilState } from '../support/bus.ts';
import { natsBinary, startTestNats, withoutNats } from '../support/nats.ts';
import { describeBus } from './bus-suite.ts';

describeBus(
  `the bus on NATS${withoutNats}`,
  async () => {
    const nats = await startTestNats('-js');
    return {
      async connect() {
        const bus = createNatsBus(natsBusOptions(nats.server).options);
        await untilState(bus, 'ok');
        return bus;
      },
      async away(work) {
        await nats.kill();
        await work();
        await nats.start();
      },
      close: async () => nats[Symbol.asyncDispose](),
    };
  },
  natsBinary === null,
);
