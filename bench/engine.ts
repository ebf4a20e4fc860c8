/**
 * The engine from outside: load, server, worker and database on the machine you run it on. Absolute figures belong to that
 * machine; the ratios to the floor, measured in the same run, travel. `npm run bench`
 */
import pg from 'pg';
import { measureFloor } from './floor.ts';
import { chain, createLoad, quantile } from './load.ts';
import { startStack } from './stack.ts';

const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 8);
const WIDTH = Number(process.env['BENCH_WIDTH'] ?? 128);
/** So many runs until all that is called often has been compiled, in server and worker: about 20 seconds of a service's life. */
const WARM_UP = 1_500;

const stack = await startStack({ workers: 1, concurrency: 128 });
const load = createLoad(stack.url);
const client = new pg.Client({ connectionString: stack.databaseUrl });
await client.connect();
await client.query('create extension if not exists pg_stat_statements');
try {
  await load.register(chain('bench/three', 3));
  await load.register(chain('bench/one', 1));
  await load.register(chain('bench/ten', 10));

  const first = await sorted(100, () => load.run('bench/three'));
  for (let index = first.length; index < WARM_UP; index += 1) await load.run('bench/three');
  const latencies = await sorted(500, () => load.run('bench/three'));
  const trips = await sorted(500, roundTrip);
  const [p50, trip] = [quantile(latencies, 0.5), quantile(trips, 0.5)];
  row('(a) 3-step noop, start to durable end, one at a time', `p50 ${ms(p50)}, p99 ${ms(quantile(latencies, 0.99))}`);
  row('    the first hundred after the start', `p50 ${ms(quantile(first, 0.5))}`);
  row("    p50 in round trips to the database ('select 1')", `${(p50 / trip).toFixed(0)} of ${trip.toFixed(3)} ms`);

  await load.saturate('bench/one', WIDTH, 2);
  const one = await load.saturate('bench/one', WIDTH, SECONDS);
  row('(b) 1-step executions', `${rate(one.count, one.seconds)}/s`);

  await load.saturate('bench/ten', WIDTH, 2);
  const before = await counts();
  const ten = await load.saturate('bench/ten', WIDTH, SECONDS);
  const after = await counts();
  const steps = ten.count * 10;
  const stepRate = steps / ten.seconds;
  row('(c) steps of 10-step executions', `${rate(steps, ten.seconds)}/s`);
  row('    commits per step', ((after.commits - before.commits) / steps).toFixed(3));
  row('    statements per step', ((after.statements - before.statements) / steps).toFixed(3));

  const floor = await measureFloor(stack.databaseUrl);
  row('(d) floor: pipelined six-statement transactions', `${Math.round(floor)}/s`);
  row('    (c) / (d)', `${((100 * stepRate) / floor).toFixed(0)} %`);
} finally {
  await client.end();
  await load.close();
  await stack.stop();
}

/** `count` times, one after the other; what each said of its milliseconds, smallest first. */
async function sorted(count: number, once: () => Promise<number>): Promise<readonly number[]> {
  const all: number[] = [];
  for (let index = 0; index < count; index += 1) all.push(await once());
  return all.toSorted((a, b) => a - b);
}

async function roundTrip(): Promise<number> {
  const start = performance.now();
  await client.query({ name: 'trip', text: 'select 1' });
  return performance.now() - start;
}

/**
 * Commits and statements by the database's own count. Backends hand in their counts once a second; `begin` and `commit`
 * are not among the counted statements, so they are added.
 */
async function counts(): Promise<{ commits: number; statements: number }> {
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  const { rows } = await client.query<{ commits: string; statements: string }>(
    `select (select xact_commit from pg_stat_database where datname = current_database()) as commits,
       (select sum(calls) from pg_stat_statements) as statements`,
  );
  const commits = Number(rows[0]?.commits ?? 0);
  return { commits, statements: Number(rows[0]?.statements ?? 0) + 2 * commits };
}

function row(name: string, value: string): void {
  console.log(`${name.padEnd(56)} ${value}`);
}

function ms(value: number): string {
  return `${value.toFixed(2)} ms`;
}

function rate(count: number, seconds: number): string {
  return (count / seconds).toFixed(0);
}
