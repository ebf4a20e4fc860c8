/** The one form of every answer that is not 2xx (api 1.7). Extra keys may stand beside these. */
import * as v from 'valibot';
import { map } from './fields.ts';

export const errorBody = v.object({
  detail: v.union([v.string(), map]),
  code: v.string(),
  request_id: v.string(),
  errors: v.optional(v.array(v.string())),
});
export type ErrorBody = v.InferOutput<typeof errorBody>;
