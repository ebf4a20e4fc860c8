import { afterEach, expect, test, vi } from 'vitest';
import { createIds } from '../../src/store/ids.ts';

const NODES = 4;
const EACH = 250_000;
/** As core.id_seq counts. */
const STEP = 1_000;

afterEach(() => {
  vi.restoreAllMocks();
});

test('IN-08 a million ids of four servers are unique, exact as JSON numbers and rising at each, whatever the clock does', async () => {
  let clock = Date.now();
  vi.spyOn(Date, 'now').mockImplementation(() => {
    clock -= 60_000;
    return clock;
  });
  // The last million below the limit of the sequence.
  let last = Number.MAX_SAFE_INTEGER - 2_000_000;
  const block = () => {
    last += STEP;
    return { first: last - STEP };
  };
  const reads = {
    async rows<T>(_text: string, [count]: readonly unknown[] = []): Promise<T[]> {
      const firsts = Array.from({ length: Number(count) }, block);
      // Answers come in an order of their own.
      await new Promise<void>((resolve) => setImmediate(resolve));
      return firsts as T[];
    },
  };
  const given = new Set<number>();
  await Promise.all(
    Array.from({ length: NODES }, async () => {
      // Only rows are asked of it.
      const ids = createIds({ reads } as unknown as Parameters<typeof createIds>[0]);
      let before = 0;
      for (let taken = 0; taken < EACH; taken += 250) {
        await ids.reserve(250);
        for (let at = 0; at < 250; at += 1) {
          const id = ids.next();
          if (id <= before || !Number.isSafeInteger(id)) throw new Error(`${id} after ${before}`);
          before = id;
          given.add(id);
        }
      }
    }),
  );
  expect(given.size).toBe(NODES * EACH);
});
