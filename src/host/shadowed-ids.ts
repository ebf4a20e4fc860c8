/**
 * Static segments beat parameters (api 1.17), also for a method that only the parameter's row has: `GET /api/executions/cleanup`
 * asks for no execution of that name, since no id reads like this. Worked out from the table alone.
 */
import * as v from 'valibot';
import type { Route } from '../api/route.ts';

export interface ShadowedId {
  readonly method: Route['method'];
  /** Of the row with the word. */
  readonly path: string;
  /** What the word can be asked for instead, as `Allow` has it. */
  readonly allowed: readonly string[];
}

/** Methods that a row takes for its ids, at words of other rows that stand in the place of these ids. */
export function shadowedIds(routes: readonly Route[]): readonly ShadowedId[] {
  return [...Map.groupBy(routes, (row) => row.path)].flatMap(([path, rows]) => {
    const own = rows.map((row) => row.method);
    const allowed = own.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
    return routes
      .filter((row) => !own.includes(row.method) && isRefusedAt(row, path))
      .map(({ method }) => ({ method, path, allowed }));
  });
}

/** Whether an address of this path would come to the row, only to be told that it names no id. */
function isRefusedAt(row: Route, path: string): boolean {
  const words = path.split('/');
  const segments = row.path.split('/');
  if (row.params === undefined || segments.length !== words.length) return false;
  const params: Record<string, string> = {};
  for (const [index, segment] of segments.entries()) {
    const word = words[index] ?? '';
    const name = /^\{(\w+)\}$/.exec(segment)?.[1];
    // What both leave open is an id here and there.
    if (name !== undefined) params[name] = word.startsWith('{') ? '1' : word;
    else if (segment !== word) return false;
  }
  return !v.safeParse(row.params, params).success;
}
