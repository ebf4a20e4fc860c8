/**
 * The floor that throughput is compared with: what one connection does when it writes one command's worth of rows per
 * transaction the plain way, six statements in one pipeline (begin, lock, two events, one command, commit), one
 * transaction after the other. Figures of another machine mean nothing; the ratio to this one, from the same run, does.
 */
import pg from 'pg';

const SECONDS = 2;
const WARM_UP = 200;

/** Transactions per second on a migrated database. Writes rows of executions that do not exist; use a scratch one. */
export async function measureFloor(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url, pipeline: true, application_name: 'callboard:floor' });
  client.on('error', () => {});
  await client.connect();
  try {
    const block = await client.query<{ first: string }>(`select nextval('core.id_seq') as first`);
    const executionId = Number(block.rows[0]?.first);
    let number = 0;
    const transaction = async () => {
      number += 2;
      await Promise.all([
        client.query({ name: 'floor_begin', text: 'begin' }),
        client.query({ name: 'floor_lock', text: LOCK, values: [executionId] }),
        client.query({ name: 'floor_event', text: EVENT, values: [executionId, number - 1, 'call.done', number] }),
        client.query({ name: 'floor_event', text: EVENT, values: [executionId, number, 'command.completed', number] }),
        client.query({ name: 'floor_command', text: COMMAND, values: [executionId, number, `step@${number}`] }),
        client.query({ name: 'floor_commit', text: 'commit' }),
      ]);
    };
    for (let n = 0; n < WARM_UP; n += 1) await transaction();
    const start = performance.now();
    let done = 0;
    while (performance.now() - start < SECONDS * 1000) {
      await transaction();
      done += 1;
    }
    return done / ((performance.now() - start) / 1000);
  } finally {
    await client.end();
  }
}

const LOCK = `select pg_advisory_xact_lock(hashtextextended('core.execution', $1))`;

const EVENT = `
insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_name, command_id, context, meta)
values ($1, $2, $2, 1, $3, 'completed', 'fetch', $4, '{"data": {"rows": [1, 2, 3]}}', '{"attempt": 1}')`;

const COMMAND = `
insert into core.command (execution_id, command_id, event_id, catalog_id, command_key, step_name, tool_kind, pool,
  next_wake_at, context, meta)
values ($1, $2, $2, 1, $3, 'fetch', 'http', 'bench', now() + interval '1 minute', '{"render_context": {}}', '{}')`;
