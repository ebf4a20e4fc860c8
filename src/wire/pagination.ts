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

/** `total` null: not counted; a full page then stands for "there may be more". */
export function paginationOf(page: number, pageSize: number, total: number | null, rows: number): Pagination {
  return {
    page,
    page_size: pageSize,
    total_events: total,
    total_pages: total === null ? null : Math.ceil(total / pageSize),
    has_next: total === null ? rows >= pageSize : page * pageSize < total,
    has_prev: page > 1,
  };
}
