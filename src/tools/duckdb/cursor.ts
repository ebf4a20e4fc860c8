/** The rows of a statement in pieces of any size, as JSON; the engine makes them as they are asked for. */
import type { DuckDBResult, DuckDBValue } from '@duckdb/node-api';
import type { FetchAnswer } from './protocol.ts';
import { toJson } from './values.ts';

export class Cursor {
  readonly columns: string[];
  readonly #result: DuckDBResult;
  #waiting: DuckDBValue[][] = [];
  #ended = false;

  constructor(result: DuckDBResult) {
    this.#result = result;
    this.columns = result.columnNames();
  }

  async fetch(count: number): Promise<FetchAnswer> {
    while (!this.#ended && this.#waiting.length < count) {
      const chunk = await this.#result.fetchChunk();
      if (chunk === null || chunk.rowCount === 0) this.#ended = true;
      else this.#waiting.push(...chunk.getRows());
    }
    const types = this.#result.columnTypes();
    const rows = this.#waiting.splice(0, count).map((row) =>
      row.map((value, at) => {
        const type = types[at];
        return type === undefined ? null : toJson(value, type);
      }),
    );
    return { rows, done: this.#ended && this.#waiting.length === 0 };
  }
}
