/** Pages of a list inside a body (api 1.8). */
import * as v from 'valibot';

export const pagination = v.object({
  page: v.number(),
  page_size: v.number(),
  total_events: v.nullable(v.number()),
  total_pages: v.nullable(v.number()),
  has_next: v.boolean(),
  has_prev: v.boolean(),
});
export type Pagination = v.InferOutput<typeof pagination>;

/** `total` null: not counted. */
export function paginationOf(page: number, pageSize: number, total: number | null, hasMore: boolean): Pagination {
  return {
    page,
    page_size: pageSize,
    total_events: total,
    total_pages: total === null ? null : Math.ceil(total / pageSize),
    has_next: hasMore,
    has_prev: page > 1,
  };
}

/** A page of `limit` rows out of rows of which one more was asked for; `last` is null at the end of the list. */
export function cutPage<T>(
  found: readonly T[],
  limit: number,
): { readonly rows: readonly T[]; readonly last: T | null } {
  const rows = found.slice(0, limit);
  return { rows, last: found.length > limit ? (rows.at(-1) ?? null) : null };
}
