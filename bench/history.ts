/**
 * Does an event cost more the longer its log is? One execution loops over a noop until its log holds more than 20,000
 * events; the time of an iteration near event 200 is compared with the time near the end, and with a server that was
 * started again and had to read the execution back first. `node bench/history.ts`
 */
import pg from 'pg';
import { createLoad, quantile } from './load.ts';
import { startStack } from './stack.ts';

const ITERATIONS = Number(process.env['BENCH_ITERATIONS'] ?? 4_100);
const WINDOW = 60;

const stack = await startStack({ workers: 1, concurrency: 4 });
const load = createLoad(stack.url);
const client = new pg.Client({ connectionString: stack.databaseUrl });
await client.connect();
try {
  await load.register(`
apiVersion: callboard/v2
kind: Playbook
metadata: { name: history, path: bench/history }
workload: { n: 1 }
workflow:
  - step: walk
    loop: { in: "{{ workload.n }}", iterator: item, spec: { mode: sequential } }
    tool: { kind: noop, result: "{{ item }}" }
`);
  await load.run('bench/history', { n: 200 });
  await load.run('bench/history', { n: ITERATIONS });
  const { rows } = await client.query<{ event_id: number; at: number }>(
    `select event_id::int as event_id, extract(epoch from created_at) * 1000 as at from core.event
      where event_type = 'command.completed'
        and execution_id = (select execution_id from core.execution where path = 'bench/history'
          order by start_time desc limit 1)
      order by event_id`,
  );
  const gaps = rows.slice(1).map((row, index) => Number(row.at) - Number(rows[index]?.at ?? 0));
  const near = (event: number): number => {
    const at = Math.max(0, rows.findIndex((row) => row.event_id >= event) - WINDOW / 2);
    const window = gaps.slice(at, at + WINDOW).sort((a, b) => a - b);
    return quantile(window, 0.5);
  };
  const last = rows.at(-1)?.event_id ?? 0;
  const early = near(200);
  const late = near(last - 5 * WINDOW);
  console.log(`events in the log                     ${last}`);
  console.log(`one iteration near event 200          ${early.toFixed(2)} ms (median of ${WINDOW})`);
  console.log(`one iteration near event ${String(last - 5 * WINDOW).padEnd(13)}${late.toFixed(2)} ms`);
  console.log(`ratio                                 ${(late / early).toFixed(2)} (must stay below 3)`);
} finally {
  await client.end();
  await load.close();
  await stack.stop();
}
