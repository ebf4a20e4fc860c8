/**
 * What the tools of one try may ask of their worker (src/tools/tool.ts): credentials besides their own, stored results,
 * catalog documents, and that a secret they came by is hidden. Everything learnt here is scrubbed like `auth`.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { CatalogEntryAnswer } from '../client/answers.ts';
import { ApiError, isPassing } from '../client/errors.ts';
import { ToolRefusal } from '../tools/errors.ts';
import type { ToolHost } from '../tools/tool.ts';
import type { WorkerCommand } from './command.ts';
import type { resolveAuth } from './credentials.ts';
import { putPatiently, type ResultWriter } from './externalise.ts';
import { MissingReference } from './keychain.ts';
import { engineFailure } from './outcome.ts';
import type { Scrubber } from './scrub.ts';

export interface HostClient extends ResultWriter {
  catalogGet(path: string, version: 'latest', options: { signal: AbortSignal }): Promise<CatalogEntryAnswer>;
}

export interface HostDeps {
  readonly command: WorkerCommand;
  readonly client: HostClient;
  readonly scrubber: Scrubber;
  readonly signal: AbortSignal;
}

/** `payload` reads through the command's cache; `resolve` is how the task's own `auth` was resolved. */
export function hostOf(
  deps: HostDeps,
  task: string,
  payload: (ref: string) => Promise<Json>,
  resolve: (auth: Json) => ReturnType<typeof resolveAuth>,
): ToolHost {
  const { command, client, scrubber, signal } = deps;
  return {
    async credential(auth) {
      const resolved = await resolve(auth);
      if ('failure' in resolved) throw new ToolRefusal(resolved.failure);
      return resolved.auth;
    },
    conceal: (secret) => scrubber.conceal(secret),
    resolveResult: (ref) => refusing(signal, `the result '${ref}'`, () => payload(ref)),
    putResult: (name, data) =>
      refusing(signal, 'the result', async () => {
        const request = {
          name: name === '' ? task : name,
          // What is stored has left the worker.
          data: scrubber.json(data),
          source_step: command.step,
          command_id: command.commandId,
          attempt: command.attempt,
        };
        const { ref, store, bytes, sha256 } = await putPatiently(client, command.executionId, request, signal);
        return { ref, store, bytes, sha256 };
      }),
    catalogDocument: (path) =>
      refusing(signal, `the catalog entry '${path}'`, () => readDocument(client, path, signal)),
  };
}

async function readDocument(client: HostClient, path: string, signal: AbortSignal): Promise<JsonMap | null> {
  try {
    const { payload } = await client.catalogGet(path, 'latest', { signal });
    return isMap(payload) ? payload : null;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Errors of the client as failures of the try; the end of the command itself passes through. */
async function refusing<T>(signal: AbortSignal, what: string, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof MissingReference) {
      throw new ToolRefusal(engineFailure('missing_reference', 'MISSING_REFERENCE', error.message));
    }
    if (isPassing(error)) {
      throw new ToolRefusal(engineFailure('connection', 'CONN_ERROR', `${what}: the server does not answer`));
    }
    if (!(error instanceof ApiError)) throw error;
    const kind = error.status === 413 ? 'storage_quota' : 'storage_access';
    throw new ToolRefusal(engineFailure(kind, error.code.toUpperCase(), `${what}: ${error.message}`));
  }
}
