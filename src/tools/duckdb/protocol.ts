/**
 * What the worker and a duckdb process say to each other: one JSON text per line, one answer to each request, in
 * order. The process has no other purpose than one try; it ends with its standard input.
 */
import type { Json } from '../../../machines/json.ts';

export type DuckdbRequest =
  | { readonly do: 'open'; readonly database: string; readonly memoryMb: number; readonly readOnly: boolean }
  /** No files and no extensions from here on; cannot be taken back. */
  | { readonly do: 'seal' }
  | { readonly do: 'run'; readonly sql: string; readonly params: Params; readonly maxBytes: number }
  /** Begins to read the rows of a statement; `fetch` reads on. */
  | { readonly do: 'stream'; readonly sql: string; readonly params: Params }
  | { readonly do: 'fetch'; readonly rows: number };

/** By position or by name. */
export type Params = readonly Json[] | Readonly<Record<string, Json>> | null;

export interface StatementAnswer {
  /** Whether the statement returns rows, even none. */
  readonly described: boolean;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Json[])[];
  /** Rows it changed or returned. */
  readonly count: number;
}

export interface FetchAnswer {
  readonly rows: readonly (readonly Json[])[];
  readonly done: boolean;
}

export type DuckdbAnswer =
  | { readonly ok: true; readonly value: Json }
  | { readonly ok: false; readonly message: string; readonly tooLarge: boolean };
