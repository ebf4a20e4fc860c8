/**
 * Variables beside the log (api 2.10): notes that workers and operators keep with an execution. They are not `ctx` and drive
 * nothing.
 */
import type { Json } from '../machines/json.ts';
import { DomainError } from './errors.ts';

export const VARIABLE_TYPES = ['user_defined', 'step_result', 'computed', 'iterator_state'] as const;
export type VariableType = (typeof VARIABLE_TYPES)[number];

export interface VariableDraft {
  readonly name: string;
  readonly value: Json;
  readonly type: VariableType;
  readonly sourceStep: string | null;
}

export interface Variable extends VariableDraft {
  readonly createdAt: string;
  /** Of the last single read; null before the first. */
  readonly accessedAt: string | null;
  readonly accessCount: number;
}

export interface VariableStore {
  exists(executionId: number): Promise<boolean>;
  /** Those that have not expired, by name. */
  list(executionId: number): Promise<readonly Variable[]>;
  /** Counts the read, in its own answer. */
  read(executionId: number, name: string): Promise<Variable | null>;
  /** All or none; false, and nothing changed, when the execution would have more than `max`. A name that is there keeps its age. */
  put(
    executionId: number,
    drafts: readonly VariableDraft[],
    limits: { readonly expiresInSeconds: number | null; readonly max: number },
  ): Promise<boolean>;
  /** Null: all of the execution. Answers how many there were. */
  remove(executionId: number, name: string | null): Promise<number>;
}

export interface VariableService {
  /** Throws not_found for an unknown execution, as all of these do. */
  list(executionId: number): Promise<readonly Variable[]>;
  /** Throws not_found. */
  read(executionId: number, name: string): Promise<Variable>;
  /** A name given twice counts once, with its last value. Throws validation_error beyond VARIABLES_MAX. */
  put(
    executionId: number,
    drafts: readonly VariableDraft[],
    expiresInSeconds: number | null,
  ): Promise<readonly string[]>;
  remove(executionId: number, name: string): Promise<boolean>;
  clear(executionId: number): Promise<number>;
}

/** Of one execution. */
export const VARIABLES_MAX = 1_000;

export function createVariableService(store: VariableStore): VariableService {
  async function requireExecution(executionId: number): Promise<void> {
    if (await store.exists(executionId)) return;
    throw new DomainError('not_found', `Execution ${executionId} not found`);
  }

  return {
    async list(executionId) {
      await requireExecution(executionId);
      return store.list(executionId);
    },

    async read(executionId, name) {
      await requireExecution(executionId);
      const found = await store.read(executionId, name);
      if (found === null) throw new DomainError('not_found', `Variable not found: ${name}`);
      return found;
    },

    async put(executionId, drafts, expiresInSeconds) {
      await requireExecution(executionId);
      const byName = new Map(drafts.map((draft) => [draft.name, draft]));
      const limits = { expiresInSeconds, max: VARIABLES_MAX };
      if (!(await store.put(executionId, [...byName.values()], limits))) {
        const message = `body.variables: an execution has at most ${VARIABLES_MAX} variables; keep larger sets as one value`;
        throw new DomainError('validation_error', message, { errors: [message] });
      }
      return [...byName.keys()];
    },

    async remove(executionId, name) {
      await requireExecution(executionId);
      return (await store.remove(executionId, name)) > 0;
    },

    async clear(executionId) {
      await requireExecution(executionId);
      return store.remove(executionId, null);
    },
  };
}
