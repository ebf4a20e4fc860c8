/**
 * The process one duckdb try runs in: the engine is native code that takes memory and cores as it likes, so it gets a
 * process of its own that can be killed. Reads requests from standard input, answers on descriptor 3.
 */
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { type DuckDBConnection, DuckDBInstance, type DuckDBResult, ResultReturnType } from '@duckdb/node-api';
import type { Json } from '../../../machines/json.ts';
import { Cursor } from './cursor.ts';
import { bindable } from './params.ts';
import type { DuckdbAnswer, DuckdbRequest, Params, StatementAnswer } from './protocol.ts';

class TooLarge extends Error {}

/** What this process has open. */
const state: { instance?: DuckDBInstance; connection?: DuckDBConnection; cursor?: Cursor } = {};

const channel = new Socket({ fd: 3, readable: false, writable: true });
channel.on('error', () => process.exit(0));

for await (const line of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
  const answer = await answerTo(line);
  await new Promise<void>((resolve) => channel.write(`${JSON.stringify(answer)}\n`, () => resolve()));
}
// Closing writes a file's log into it; an open transaction is rolled back.
state.connection?.closeSync();
state.instance?.closeSync();
process.exit(0);

async function answerTo(line: string): Promise<DuckdbAnswer> {
  try {
    // Our own worker wrote the line.
    const request = JSON.parse(line) as DuckdbRequest;
    return { ok: true, value: await perform(request) };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { ok: false, message, tooLarge: error instanceof TooLarge };
  }
}

async function perform(request: DuckdbRequest): Promise<Json> {
  if (request.do === 'open') return open(request);
  const { connection, cursor } = state;
  if (connection === undefined) throw new Error('no database is open');
  switch (request.do) {
    case 'seal':
      await connection.run('set autoinstall_known_extensions = false');
      await connection.run('set autoload_known_extensions = false');
      await connection.run('set enable_external_access = false');
      return null;
    case 'run':
      return { ...(await run(connection, request.sql, request.params, request.maxBytes)) };
    case 'stream': {
      const reading = new Cursor(await start(connection, request.sql, request.params));
      state.cursor = reading;
      return { columns: reading.columns };
    }
    case 'fetch': {
      if (cursor === undefined) throw new Error('no statement is being read');
      return { ...(await cursor.fetch(request.rows)) };
    }
  }
}

async function open({ database, memoryMb, readOnly }: DuckdbRequest & { do: 'open' }): Promise<null> {
  const options = {
    memory_limit: `${memoryMb}MiB`,
    // Memory is the limit where there is no folder to spill into.
    ...(database === ':memory:' ? { temp_directory: '' } : {}),
    ...(readOnly ? { access_mode: 'READ_ONLY' } : {}),
  };
  state.instance = await DuckDBInstance.create(database, options);
  state.connection = await state.instance.connect();
  return null;
}

async function run(from: DuckDBConnection, sql: string, params: Params, maxBytes: number): Promise<StatementAnswer> {
  const result = await start(from, sql, params);
  if (result.returnType !== ResultReturnType.QUERY_RESULT) {
    // What it did is only certain once its result was read.
    for (let chunk = await result.fetchChunk(); chunk !== null && chunk.rowCount > 0; )
      chunk = await result.fetchChunk();
    const changed = result.returnType === ResultReturnType.CHANGED_ROWS ? result.rowsChanged : 0;
    return { described: false, columns: [], rows: [], count: changed };
  }
  const reading = new Cursor(result);
  const rows: (readonly Json[])[] = [];
  let size = 0;
  for (let done = false; !done; ) {
    const piece = await reading.fetch(2048);
    done = piece.done;
    for (const row of piece.rows) {
      size += JSON.stringify(row).length;
      if (size > maxBytes) throw new TooLarge(`the rows have more than ${maxBytes} bytes`);
      rows.push(row);
    }
  }
  return { described: true, columns: reading.columns, rows, count: rows.length };
}

async function start(from: DuckDBConnection, sql: string, params: Params): Promise<DuckDBResult> {
  const prepared = await from.prepare(sql);
  if (Array.isArray(params)) {
    const bound = params.map(bindable);
    prepared.bind(
      bound.map(({ value }) => value),
      bound.map(({ type }) => type),
    );
  } else if (params !== null) {
    const bound = Object.entries(params).map(([name, value]) => [name, bindable(value)] as const);
    prepared.bind(
      Object.fromEntries(bound.map(([name, { value }]) => [name, value])),
      Object.fromEntries(bound.map(([name, { type }]) => [name, type])),
    );
  }
  return prepared.stream();
}
