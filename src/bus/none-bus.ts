/** No bus (`SVC_BUS=none`): nothing is said and nothing is heard. The polls find everything, later. */
import type { Bus } from '../../actors/ports.ts';

export function createNoneBus(): Bus {
  return {
    publish() {},
    subscribe: () => () => {},
    state: () => 'down',
    async close() {},
  };
}
