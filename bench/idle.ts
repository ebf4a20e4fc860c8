/** What a server does when nobody asks anything of it: queries a minute, CPU and memory. `node bench/idle.ts` */
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { startStack } from './stack.ts';

const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 60);

for (const workers of [0, 1]) {
  const stack = await startStack({ workers, concurrency: 8 });
  const client = new pg.Client({ connectionString: stack.databaseUrl });
  await client.connect();
  try {
    await client.query('create extension if not exists pg_stat_statements');
    await pause(10);
    await client.query('select pg_stat_statements_reset()');
    const before = cpuSeconds(stack.server.pid ?? 0);
    await pause(SECONDS);
    const { rows } = await client.query<{ calls: string; query: string }>(
      `select calls, left(regexp_replace(query, '\\s+', ' ', 'g'), 70) as query from pg_stat_statements
        where query not like '%pg_stat_statements%' order by calls desc`,
    );
    const total = rows.reduce((sum, row) => sum + Number(row.calls), 0);
    const cpu = cpuSeconds(stack.server.pid ?? 0) - before;
    console.log(
      `idle server, ${workers} worker(s): ${((60 * total) / SECONDS).toFixed(0)} statements a minute, CPU ${((100 * cpu) / SECONDS).toFixed(1)} %, RSS ${rssMb(stack.server.pid ?? 0)} MB`,
    );
    for (const row of rows.slice(0, 12)) console.log(`  ${String(row.calls).padStart(4)}  ${row.query}`);
  } finally {
    await client.end();
    await stack.stop();
  }
}

function pause(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}

function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function rssMb(pid: number): number {
  const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Math.round(Number(match?.[1] ?? 0) / 1024);
}
