/**
 * What group commit is worth: flushes of 1, 16 and 128 executions, two in flight, on a fresh embedded database, against
 * the floor measured in the same run. Each execution of a flush brings two events, a settled command, a new command and
 * its head. Run with `node bench/commit.ts`; prints one table.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbedded } from '../src/embedded/embedded-postgres.ts';
import { migrate } from '../src/store/migrate.ts';
import { createDatabase } from '../src/store/pool.ts';
import { createStore } from '../src/store/store.ts';
import { change, command, event, execution, flush, head } from '../test/conformance/rows.ts';
import { measureFloor } from './floor.ts';

const SECONDS = 3;
const IN_FLIGHT = 2;
/** Events, settled command, new command, head. */
const ROWS_PER_EXECUTION = 5;

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const directory = await mkdtemp(join(tmpdir(), 'callboard-bench-'));
const embedded = await startEmbedded(directory, quiet);
const database = createDatabase(
  { url: embedded.url, listenUrl: embedded.url, poolMin: 0, poolMax: 4, acquireTimeoutSeconds: 5, waitingMax: 50 },
  quiet,
);
try {
  await migrate(embedded.url);
  await database.reads.run(
    `insert into core.catalog (catalog_id, path, version, kind, content, payload, sha256)
     values (1, 'suite/flow', 1, 'playbook', 'x', '{}', '\\x00')`,
  );
  const store = createStore(database);
  const rows = [];
  for (const size of [1, 16, 128]) {
    const floor = await measureFloor(embedded.url);
    const { commits, latency } = await run(size);
    const perSecond = commits / SECONDS;
    rows.push({
      'executions per flush': size,
      'commits/s': Math.round(perSecond),
      'rows/s': Math.round(perSecond * size * ROWS_PER_EXECUTION),
      'executions/s': Math.round(perSecond * size),
      'p50 ms': round(quantile(latency, 0.5)),
      'p99 ms': round(quantile(latency, 0.99)),
      'floor tx/s': Math.round(floor),
      'executions per floor tx': round((perSecond * size) / floor),
    });
  }
  console.table(rows);

  async function run(size: number): Promise<{ commits: number; latency: number[] }> {
    const latency: number[] = [];
    const lanes = await Promise.all(Array.from({ length: IN_FLIGHT }, (_, lane) => prepare(size, lane)));
    for (const step of lanes) for (let n = 0; n < 20; n += 1) await step();
    const end = performance.now() + SECONDS * 1000;
    await Promise.all(
      lanes.map(async (step) => {
        while (performance.now() < end) {
          const start = performance.now();
          await step();
          latency.push(performance.now() - start);
        }
      }),
    );
    return { commits: latency.length, latency };
  }

  /** Starts `size` executions; each call of the result reports one command of each of them. */
  async function prepare(size: number, lane: number): Promise<() => Promise<void>> {
    let nextId = size * 20_000 + lane * 1_000_000 + 100_000;
    const newId = () => {
      nextId += 1;
      return nextId;
    };
    const ids = Array.from({ length: size }, newId);
    const later = { nextWakeAt: '2099-01-01T00:00:00.000Z', latestEventId: 1, pool: 'bench' } as const;
    let open = ids.map((id) => command(id, 1, newId(), { ...later, eventId: 1 }));
    await store.commit(
      flush({
        started: ids.map((id) => execution(id, 1, { path: `bench/${id}` })),
        events: ids.map((id) => event(id, 1, 1)),
        issued: open,
      }),
    );
    let last = 1;
    return async () => {
      const next = ids.map((id) => command(id, 1, newId(), { ...later, eventId: last + 2 }));
      await store.commit(
        flush({
          events: ids.flatMap((id, index) => [
            event(id, 1, last + 1, {
              type: 'command.completed',
              closes: true,
              commandId: open[index]?.commandId ?? null,
              result: { status: 'completed', context: { data: { rows: [1, 2, 3] } } },
            }),
            event(id, 1, last + 2, { type: 'command.issued', commandId: next[index]?.commandId ?? null }),
          ]),
          issued: next,
          commands: open.map((row) =>
            change(row, {
              status: 'COMPLETED',
              attempt: 1,
              workerId: 'w',
              completedAt: row.createdAt,
              nextWakeAt: null,
            }),
          ),
          heads: ids.map((id) => head(id, last, last + 2)),
        }),
      );
      last += 2;
      open = next;
    };
  }
} finally {
  await database.close();
  await embedded.stop();
  await rm(directory, { recursive: true, force: true });
}

function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(q * (sorted.length - 1))] ?? 0;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
