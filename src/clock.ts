/**
 * The database's clock in this process: the offset is measured once and refreshed now and then, with half of the round
 * trip taken off, and carried on by the monotonic clock. It never runs backwards, and a changed wall clock of this
 * machine does not move it.
 */
import type { Clock } from '../actors/ports.ts';
import type { Database } from './store/pool.ts';

export interface DatabaseClock extends Clock {
  /** Ends the refreshing. */
  stop(): void;
}

const REFRESH_MS = 60_000;
const PROBES = 3;

/** Measures first, so it can throw UnavailableError. Later failures keep the offset there is. */
export async function createClock(database: Pick<Database, 'reads'>): Promise<DatabaseClock> {
  let offset = await measure(database);
  let latest = 0;
  const timer = setInterval(() => {
    measure(database).then(
      (fresh) => {
        offset = fresh;
      },
      () => {},
    );
  }, REFRESH_MS);
  timer.unref();
  return {
    now() {
      latest = Math.max(latest, Math.floor(performance.now() + offset));
      return latest;
    },
    stop: () => clearInterval(timer),
  };
}

/** The quickest of a few probes is the least wrong. */
async function measure(database: Pick<Database, 'reads'>): Promise<number> {
  let best = { trip: Number.POSITIVE_INFINITY, offset: 0 };
  for (let probe = 0; probe < PROBES; probe += 1) {
    const sent = performance.now();
    const rows = await database.reads.rows<{ ms: number }>(
      'select extract(epoch from clock_timestamp())::double precision * 1000 as ms',
    );
    const trip = performance.now() - sent;
    if (trip < best.trip) best = { trip, offset: (rows[0]?.ms ?? 0) - (sent + trip / 2) };
  }
  return best.offset;
}
