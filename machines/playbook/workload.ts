/** The inputs of an execution: the document's workload with the request's inputs laid over it (language 2.4). */
import { isMap, type Json, type JsonMap } from '../json.ts';

/**
 * Merged at the top level only, the request winning. A request key `ctx` that holds a map is spread first, so that a
 * key written beside it wins. Values are data and stay as they are.
 */
export function mergeInputs(workload: JsonMap, request: JsonMap): JsonMap {
  const { ctx, ...rest } = request;
  if (!isMap(ctx)) return own({ ...workload, ...request });
  return own({ ...workload, ...ctx, ...rest });
}

/** A key spelled like the prototype's is dropped: nothing could ever read it (language 8.12). */
function own(inputs: JsonMap): JsonMap {
  const entries: [string, Json][] = Object.entries(inputs).filter(([key]) => key !== '__proto__');
  return Object.fromEntries(entries);
}
