/** Executions as they lie in the database, read by SQL in one snapshot of it; for the laws, and for what a test asks itself. */
import pg from 'pg';
import type { CommandRow, ExecutionRow } from '../../actors/ports.ts';
import type { LogEvent } from '../../machines/events.ts';
import { compilePlan } from '../../machines/execution/plan.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { Graph } from '../../machines/playbook/graph.ts';
import { parsePlaybook } from '../../machines/playbook/parse.ts';
import { COMMAND_COLUMNS, EVENT_COLUMNS, EXECUTION_COLUMNS } from '../../src/store/rows.ts';
import { sessionConfig } from '../../src/store/session.ts';
import type { RecordedRun } from './log-laws.ts';

type StateColumn = { readonly value: Json; readonly context: JsonMap; readonly through_event_id: number } | null;

/** All executions, or these; by execution id. */
export async function readRuns(url: string, executionIds: readonly number[] | null = null): Promise<RecordedRun[]> {
  const client = new pg.Client(sessionConfig(url, 'test'));
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('begin isolation level repeatable read read only');
    const where = '($1::bigint[] is null or execution_id = any($1))';
    const rows = await client.query<ExecutionRow & { state: StateColumn }>(
      `select ${EXECUTION_COLUMNS}, state from core.execution where ${where} order by execution_id`,
      [executionIds],
    );
    const events = await client.query<LogEvent & { of: number }>(
      `select execution_id as "of", ${EVENT_COLUMNS} from core.event where ${where} order by execution_id, event_id`,
      [executionIds],
    );
    const commands = await client.query<CommandRow>(
      `select ${COMMAND_COLUMNS} from core.command where ${where} order by execution_id, event_id`,
      [executionIds],
    );
    const graphs = await readGraphs(client);
    const eventsOf = Map.groupBy(events.rows, (event) => event.of);
    const commandsOf = Map.groupBy(commands.rows, (command) => command.executionId);
    return rows.rows.map(({ state, ...row }) => {
      const graph = graphs.get(row.catalogId);
      if (graph === undefined) throw new Error(`execution ${row.executionId} names a playbook that cannot be read`);
      return {
        row,
        snapshot:
          state === null
            ? null
            : {
                throughEventId: state.through_event_id,
                machineVersion: row.machineVersion,
                value: state.value,
                context: state.context,
              },
        events: eventsOf.get(row.executionId) ?? [],
        commands: commandsOf.get(row.executionId) ?? [],
        graph,
      };
    });
  } finally {
    await client.end();
  }
}

async function readGraphs(client: pg.Client): Promise<ReadonlyMap<number, Graph>> {
  const { rows } = await client.query<{ id: number; content: string }>(
    'select catalog_id as id, content from core.catalog',
  );
  const graphs = new Map<number, Graph>();
  for (const { id, content } of rows) {
    const parsed = parsePlaybook(content);
    if (parsed.ok) graphs.set(id, compilePlan(parsed.playbook).graph);
  }
  return graphs;
}
