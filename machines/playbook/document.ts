/**
 * A playbook after parsing: aliases resolved, legacy spellings rewritten, workbook references replaced, every name
 * checked. Nothing here is compiled; `Step.tasks` is what a worker receives (language 2 to 5, 7, 9).
 */
import type { Json, JsonMap } from '../json.ts';

export interface Playbook {
  readonly apiVersion: string | null;
  readonly kind: 'playbook' | 'agent';
  readonly name: string;
  /** Catalog path: the request's, else `metadata.path`, else `metadata.name`. */
  readonly path: string;
  readonly metadata: JsonMap;
  readonly workload: JsonMap;
  readonly keychain: readonly JsonMap[];
  /** In document order; names are unique. */
  readonly steps: readonly Step[];
  readonly entryStep: string;
  readonly finalStep: string | null;
}

export interface Step {
  readonly name: string;
  readonly description: string | null;
  /** At least one. `pipeline` tells whether the author wrote a list (7.8 applies to its value). */
  readonly tasks: readonly Task[];
  readonly pipeline: boolean;
  readonly loop: Loop | null;
  readonly set: readonly Assignment[];
  readonly mode: 'exclusive' | 'inclusive';
  readonly arcs: readonly Arc[];
  /** Admission rules; null admits. */
  readonly admit: readonly AdmitRule[] | null;
  readonly failureMode: 'run_all' | 'fail_fast' | 'best_effort';
  readonly timeoutSeconds: number | null;
  readonly line: number;
}

/** One tool call. `fields` are the kind's own fields with canonical names (url, command, code, result …), unrendered. */
export interface Task {
  /** Label; for a single tool `<step>_task`. */
  readonly name: string;
  readonly kind: string;
  readonly fields: JsonMap;
  /** Tool `args`, tool `input` and step `input` merged in that order, unrendered. */
  readonly input: JsonMap;
  /** Names of `input` that the step gives: rendered once for all tries of all its tasks (language 7.2). Absent: none. */
  readonly stepInput?: readonly string[];
  readonly set: readonly Assignment[];
  readonly rules: readonly Rule[];
  readonly onUnmatched: 'fail' | 'continue' | null;
  /** Seconds for one try: a number or a template. */
  readonly timeout: Json;
  readonly output: OutputOptions | null;
}

export interface OutputOptions {
  readonly select: readonly { readonly path: string; readonly as: string }[];
  readonly inlineMaxBytes: number | null;
  readonly previewMaxBytes: number | null;
  readonly store: string | null;
}

/**
 * `when: null` is an else rule. `index` counts from 0. The fields of `retry` are null when they were not written, and
 * for every other action; they may be templates or numeric text.
 */
export interface Rule {
  readonly index: number;
  readonly when: string | boolean | null;
  readonly action: 'continue' | 'retry' | 'jump' | 'break' | 'fail';
  readonly set: readonly Assignment[];
  /** Label to jump to; `@previous` for the task before this one. */
  readonly to: string | null;
  readonly attempts: Json;
  readonly delay: Json;
  readonly backoff: Json;
  readonly maxDelay: Json;
  /** Legacy `backoff_multiplier`: delay · multiplier^(n−1). */
  readonly multiplier: number | null;
}

/**
 * `scope` is `local` for a bare key of a task-level `set`; elsewhere bare means `ctx`. `path` has at least one part.
 * `key` is the canonical spelling (`ctx.a.b`, `iter.a`, bare for local); keys of one list are unique.
 */
export interface Assignment {
  readonly key: string;
  readonly scope: 'ctx' | 'iter' | 'local';
  readonly path: readonly string[];
  readonly value: Json;
}

/** `to` may be the undefined step `end`, which ends the branch. */
export interface Arc {
  readonly index: number;
  readonly to: string;
  readonly when: string | boolean | null;
  readonly set: readonly Assignment[];
}

/** `when: null` is the else rule. */
export interface AdmitRule {
  readonly when: string | boolean | null;
  readonly allow: boolean;
}

export interface Loop {
  readonly mode: 'sequential' | 'parallel' | 'cursor';
  readonly iterator: string;
  /** The collection: a template or a literal. Null for a cursor loop. */
  readonly in: Json;
  readonly maxInFlight: Json;
  readonly cursor: JsonMap | null;
  readonly frame: JsonMap;
}

/** What registration says about a place in the document (language 3.1). */
export interface Diagnostic {
  readonly severity: 'error' | 'warning';
  readonly code: string;
  readonly message: string;
  readonly step: string | null;
  readonly task: string | null;
  readonly path: string;
  readonly line: number;
  readonly column: number;
  readonly endLine: number;
  readonly endColumn: number;
}

export type ParsedPlaybook =
  | {
      readonly ok: true;
      readonly playbook: Playbook;
      readonly document: JsonMap;
      readonly warnings: readonly Diagnostic[];
    }
  | { readonly ok: false; readonly errors: readonly Diagnostic[]; readonly warnings: readonly Diagnostic[] };
