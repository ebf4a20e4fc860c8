/**
 * Ids from blocks: one `nextval` gives a thousand (api 3.2), and the next block is fetched before the present one runs
 * out. Ids of an unfinished block are lost with the process; nobody depends on their order.
 */
import type { Ids } from '../../actors/ports.ts';
import type { Database } from './pool.ts';

const BLOCK = 1_000;
/** Below this many left, the next block is on its way. */
const LOW = 500;

export function createIds(database: Pick<Database, 'reads'>): Ids {
  /** First id of a block and how many of it are left. */
  const blocks: { next: number; left: number }[] = [];
  let left = 0;
  let fetching: Promise<void> | null = null;

  function fetch(count: number): Promise<void> {
    fetching ??= database.reads
      .rows<{ first: number }>(`select nextval('core.id_seq') as first from generate_series(1, $1)`, [count])
      .then((rows) => {
        for (const { first } of rows) blocks.push({ next: first, left: BLOCK });
        left += rows.length * BLOCK;
      })
      .finally(() => {
        fetching = null;
      });
    return fetching;
  }

  return {
    next() {
      const block = blocks[0];
      if (block === undefined) throw new Error('ids must be reserved before they are taken');
      const id = block.next;
      block.next += 1;
      block.left -= 1;
      if (block.left === 0) blocks.shift();
      left -= 1;
      // A failure shows at the next reserve, which waits for ids.
      if (left < LOW) fetch(1).catch(() => {});
      return id;
    },
    async reserve(count) {
      // More than asked for: others may take ids between this promise and its caller.
      while (left < count + LOW) await fetch(Math.ceil((count + LOW - left) / BLOCK));
    },
  };
}
