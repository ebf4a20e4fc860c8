/**
 * The engine from outside: load, server, worker and database on the machine you run it on. Absolute figures belong to that
 * machine; the ratios to the floor, measured in the same run, travel. `npm run bench`
 */
import pg from 'pg';
import { measureFloor } from './floor.ts';
import { chain, createLoad, type Load, quantile } from './load.ts';
import { type StackOptions, startStack } from './stack.ts';

const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 8);
const WIDTH = Number(process.env['BENCH_WIDTH'] ?? 128);
/** So many runs until all that is called often has been compiled, in server and worker: about 20 seconds of a service's life. */
const WARM_UP = 1_500;

console.log('(a) 3-step noop, start to durable end, one at a time');
await during({ workers: 'within', concurrency: 128 }, async (bench) => {
  await latencies(bench, "    worker in the server's process, as npm start has it");
});
await during({ workers: 1, concurrency: 128 }, async (bench) => {
  await latencies(bench, '    worker in a process of its own');
  await rates(bench);
});

interface Bench {
  readonly load: Load;
  readonly client: pg.Client;
  readonly databaseUrl: string;
}

/** Starts the service, with one client of its database and one of its doors, and stops it. */
async function during(options: StackOptions, measure: (bench: Bench) => Promise<void>): Promise<void> {
  const stack = await startStack(options);
  const load = createLoad(stack.url);
  const client = new pg.Client({ connectionString: stack.databaseUrl });
  await client.connect();
  await client.query('create extension if not exists pg_stat_statements');
  try {
    await measure({ load, client, databaseUrl: stack.databaseUrl });
  } finally {
    await client.end();
    await load.close();
    await stack.stop();
  }
}

async function latencies({ load, client }: Bench, name: string): Promise<void> {
  await load.register(chain('bench/three', 3));
  const first = await sorted(100, () => load.run('bench/three'));
  for (let index = first.length; index < WARM_UP; index += 1) await load.run('bench/three');
  const warm = await sorted(500, () => load.run('bench/three'));
  const trips = await sorted(500, () => roundTrip(client));
  const [p50, trip] = [quantile(warm, 0.5), quantile(trips, 0.5)];
  row(name, `p50 ${ms(p50)}, p99 ${ms(quantile(warm, 0.99))}`);
  row('      the first hundred after the start', `p50 ${ms(quantile(first, 0.5))}`);
  row("      p50 in round trips to the database ('select 1')", `${(p50 / trip).toFixed(0)} of ${trip.toFixed(3)} ms`);
}

async function rates({ load, client, databaseUrl }: Bench): Promise<void> {
  await load.register(chain('bench/one', 1));
  await load.register(chain('bench/ten', 10));
  await load.saturate('bench/one', WIDTH, 2);
  const one = await load.saturate('bench/one', WIDTH, SECONDS);
  row('(b) 1-step executions', `${rate(one.count, one.seconds)}/s`);

  await load.saturate('bench/ten', WIDTH, 2);
  const before = await counts(client);
  const ten = await load.saturate('bench/ten', WIDTH, SECONDS);
  const after = await counts(client);
  const steps = ten.count * 10;
  const stepRate = steps / ten.seconds;
  row('(c) steps of 10-step executions', `${rate(steps, ten.seconds)}/s`);
  row('    commits per step', ((after.commits - before.commits) / steps).toFixed(3));
  row('    statements per step', ((after.statements - before.statements) / steps).toFixed(3));

  const floor = await measureFloor(databaseUrl);
  row('(d) floor: pipelined six-statement transactions', `${Math.round(floor)}/s`);
  row('    (c) / (d)', `${((100 * stepRate) / floor).toFixed(0)} %`);
}

/** `count` times, one after the other; what each said of its milliseconds, smallest first. */
async function sorted(count: number, once: () => Promise<number>): Promise<readonly number[]> {
  const all: number[] = [];
  for (let index = 0; index < count; index += 1) all.push(await once());
  return all.toSorted((a, b) => a - b);
}

async function roundTrip(client: pg.Client): Promise<number> {
  const start = performance.now();
  await client.query({ name: 'trip', text: 'select 1' });
  return performance.now() - start;
}

/**
 * Commits and statements by the database's own count. Backends hand in their counts once a second; `begin` and `commit`
 * are not among the counted statements, so they are added.
 */
async function counts(client: pg.Client): Promise<{ commits: number; statements: number }> {
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
