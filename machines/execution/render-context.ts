/**
 * What a command carries of the execution's state: the snapshot of language 8.2 from which a worker renders, limited to
 * what the command can reference. It is written once by the server when the command is issued and is plain JSON; the
 * layers of names are put together again by whoever reads it (`ctx` for example is `workload` under the written
 * variables), so nothing is in it twice.
 */

import type { Failure } from '../events.ts';
import type { Json, JsonMap } from '../json.ts';
import type { EntryScope } from '../keychain/scope.ts';

export interface RenderContext {
  /** Decimal digits, as templates see ids. */
  readonly execution_id: string;
  readonly catalog_id: string;
  readonly path: string;
  readonly version: number;
  /** The merged inputs. */
  readonly workload: JsonMap;
  /** Inputs given in the start request. */
  readonly args: JsonMap;
  /** Only the variables written by `set`, by name; templates see `ctx` as `workload` overlaid with these. */
  readonly ctx: JsonMap;
  /** Written variables whose value here is the summary of a stored payload: name to reference. Absent: none. */
  readonly ctx_refs?: { readonly [name: string]: string };
  /** Steps that have ended at least once or were passed over, by name. */
  readonly steps: { readonly [name: string]: StepSnapshot };
  /** Keychain entries its tasks may read, with their declared scopes; null: not declared. Absent: none. */
  readonly keychain?: { readonly [name: string]: EntryScope | null };
  /** Present for an iteration of a loop, a cursor claim included. */
  readonly iteration?: Iteration;
}

/** The last activation of a step that ended (language 8.2 `steps`). */
export interface StepSnapshot {
  /** `skipped` with activation 0: it has no value, not even null. */
  readonly status: 'completed' | 'failed' | 'skipped';
  /** The step value; its summary where `ref` is set. Null where the step produced none. */
  readonly value: Json;
  readonly ref: string | null;
  readonly error: Failure | null;
  readonly activation: number;
  /** Outcomes of the tasks of a pipeline, by label. */
  readonly tasks?: JsonMap;
  readonly failed_task?: string | null;
}

export type Iteration =
  | {
      readonly kind: 'item';
      readonly iterator: string;
      readonly item: Json;
      /** Set where `item` is the summary of a stored payload. */
      readonly ref?: string;
      /** From 0. */
      readonly index: number;
      /** Null where the number of items is not known (cursor loops). */
      readonly total: number | null;
    }
  /** The claim statement of a cursor loop: `__frame_max_rows` is in scope. */
  | { readonly kind: 'claim'; readonly frame: number; readonly max_rows: number };
