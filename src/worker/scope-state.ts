/** The part of a scope that outlives its worker when a command waits for its next try: plain data, written and read again. */
import type { Json, JsonMap } from '../../machines/json.ts';

export interface ScopeState {
  /** Labels in the order in which their tasks last ended. */
  readonly ended: readonly { readonly label: string; readonly data: Json }[];
  readonly iter: JsonMap;
  readonly locals: JsonMap;
  /** `_prev`; absent until a task has succeeded. */
  readonly previous?: Json;
  /** Inputs of the step, once they are rendered. */
  readonly stepInput?: JsonMap;
  /** The envelope of the last try. */
  readonly output: JsonMap | null;
}
