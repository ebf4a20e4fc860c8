/**
 * Values too large for the log (language 10.3): stored with the server first, then reported as a reference and a
 * summary. The server keeps the same bytes once, so doing it again after a lost answer is harmless.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { OutputOptions } from '../../machines/playbook/document.ts';
import { PREVIEW_MAX_BYTES, summarise, withSelected } from '../../machines/playbook/summary.ts';
import type { PutResultAnswer } from '../client/answers.ts';
import type { PutResultRequest } from '../client/client.ts';
import { isPassing } from '../client/errors.ts';
import type { WorkerCommand } from './command.ts';

export interface ResultWriter {
  putResult(executionId: number, request: PutResultRequest, options: { signal: AbortSignal }): Promise<PutResultAnswer>;
}

export type TravellingValue =
  | { readonly data: Json }
  | {
      readonly reference: { ref: string; store: string; bytes: number; sha256: string };
      readonly summary: JsonMap;
    };

const PAUSE_MAX_MS = 5_000;

/**
 * `once` is what the value is made of, each datum counted once: the size that is held against the limit. Waits as long
 * as the server is away and the signal allows; throws ApiError where the server refuses the payload.
 */
export async function travelling(
  value: Json,
  once: Json,
  output: OutputOptions | null,
  inlineMaxBytes: number,
  command: WorkerCommand,
  writer: ResultWriter,
  signal: AbortSignal,
): Promise<TravellingValue> {
  const select = output?.select ?? [];
  const limit = output?.inlineMaxBytes ?? inlineMaxBytes;
  if (Buffer.byteLength(JSON.stringify(once)) <= limit) return { data: withSelected(value, select) };
  const request: PutResultRequest = {
    name: command.step,
    data: value,
    source_step: command.step,
    command_id: command.commandId,
    attempt: command.attempt,
    ...(select.length === 0 ? {} : { select }),
  };
  const { ref, store, bytes, sha256 } = await putPatiently(writer, command.executionId, request, signal);
  const previewMaxBytes = output?.previewMaxBytes ?? PREVIEW_MAX_BYTES;
  const summary = summarise(value, JSON.stringify(value), { ref, store, bytes, select, previewMaxBytes });
  return { reference: { ref, store, bytes, sha256 }, summary };
}

/** Stores a result, waiting as long as the server is away and the signal allows. Throws ApiError where it refuses. */
export async function putPatiently(
  writer: ResultWriter,
  executionId: number,
  request: PutResultRequest,
  signal: AbortSignal,
): Promise<PutResultAnswer> {
  for (let waitMs = 200; ; waitMs = Math.min(waitMs * 2, PAUSE_MAX_MS)) {
    try {
      return await writer.putResult(executionId, request, { signal });
    } catch (error) {
      signal.throwIfAborted();
      if (!isPassing(error)) throw error;
      await pause(waitMs, undefined, { signal });
    }
  }
}
