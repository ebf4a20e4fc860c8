/**
 * Values kept apart from the log (api 2.12). The same bytes under the same name of an execution are one result: a
 * worker that repeats a lost request gets the reference it already has.
 */
import type { Json } from '../machines/json.ts';
import { readReference } from '../machines/playbook/reference.ts';
import { partsOfPath } from '../machines/playbook/summary.ts';
import { DomainError } from './errors.ts';
import { storedApart } from './externalise.ts';
import type { Clock, ExecutionStatus, Ids, ResultRow } from './ports.ts';
import type { ResultService, ResultText, StoredResult } from './services.ts';

export interface ResultStore {
  executionStatus(executionId: number): Promise<ExecutionStatus | null>;
  /** Stores a row with its bytes, or finds the one with the same name and hash. */
  put(row: Omit<ResultRow, 'data'>, data: Uint8Array): Promise<StoredResult>;
  /** The JSON text of a result that has not expired. */
  load(executionId: number, ref: string): Promise<ResultText | null>;
  /** Newest first; expired ones are left out. */
  list(executionId: number): Promise<readonly StoredResult[]>;
  newest(executionId: number, name: string): Promise<StoredResult | null>;
  remove(executionId: number, scope: string | null): Promise<number>;
}

export interface ResultPorts {
  readonly store: ResultStore;
  readonly ids: Ids;
  readonly clock: Clock;
  /** A value as compact JSON; a large one is written in slices, so that nobody waits for it. */
  readonly write: (value: Json) => Promise<WrittenJson>;
  /** The part of a JSON text that these member names and positions lead to, found without holding others up. */
  readonly part: (json: Uint8Array, path: readonly string[]) => Promise<ResultText | null>;
}

export interface WrittenJson {
  /** UTF-8. */
  readonly data: Uint8Array;
  /** Hex, of the bytes. */
  readonly sha256: string;
  /** The beginning of the text: at least as much of it as a preview shows. */
  readonly head: string;
}

export const RESULT_BYTES_MAX = 64 * 1024 * 1024;
const NAME_MAX = 255;
const SCOPES: readonly string[] = ['step', 'execution', 'workflow', 'permanent'];

export function createResultService({ store, ids, clock, write, part }: ResultPorts): ResultService {
  async function statusOf(executionId: number): Promise<ExecutionStatus> {
    const status = await store.executionStatus(executionId);
    if (status === null) throw new DomainError('not_found', `Execution ${executionId} not found`);
    return status;
  }

  return {
    async put(executionId, request) {
      refuseMisfits(request.name, request.scope);
      const [{ data, sha256, head }] = await Promise.all([write(request.data), statusOf(executionId), ids.reserve(1)]);
      if (data.length > RESULT_BYTES_MAX)
        throw new DomainError('payload_too_large', 'The result is larger than 64 MiB');
      const { ttlSeconds } = request;
      const { row } = storedApart(request.data, head, {
        executionId,
        name: request.name,
        commandId: request.commandId,
        select: request.select,
        resultId: ids.next(),
        sha256,
        bytes: data.length,
        scope: request.scope,
        mediaType: request.mediaType,
        expiresAt: ttlSeconds === null ? null : new Date(clock.now() + ttlSeconds * 1000).toISOString(),
      });
      return store.put(row, data);
    },

    async resolve(ref, path) {
      const reference = readReference(ref);
      const found = reference === null ? null : await store.load(reference.executionId, ref);
      return found === null || path === undefined || path === '' ? found : part(found.data, partsOfPath(path));
    },

    async list(executionId) {
      await statusOf(executionId);
      return store.list(executionId);
    },

    newest: (executionId, name) => store.newest(executionId, name),

    async remove(executionId, scope) {
      const status = await statusOf(executionId);
      if (status === 'running') {
        throw new DomainError('validation_error', 'Results of a running execution cannot be deleted');
      }
      return store.remove(executionId, scope);
    },
  };
}

function refuseMisfits(name: string, scope: string): void {
  const problems = [
    ...(name === '' || name.length > NAME_MAX ? [`name: must have 1 to ${NAME_MAX} characters`] : []),
    ...(SCOPES.includes(scope) ? [] : [`scope: must be one of ${SCOPES.join(', ')}`]),
  ];
  if (problems.length > 0) throw new DomainError('validation_error', problems.join('; '), { errors: problems });
}
