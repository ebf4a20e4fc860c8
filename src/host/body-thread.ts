/** The thread that reads large bodies (body-reader.ts): one message in, one reading out. */
import { parentPort } from 'node:worker_threads';
import type { Json } from '../../machines/json.ts';
import { cut, type Pieces } from './body-pieces.ts';
import { type BodyRules, isRefusal, type JsonPath, type Refusal, readJson } from './body-rules.ts';

export interface BodyTask {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly rules: BodyRules;
}

export type BodyReply = Refusal | { readonly pieces: Pieces; readonly floats: readonly JsonPath[] };

parentPort?.on('message', ({ bytes, rules }: BodyTask) => {
  const reading = readJson(bytes, rules);
  if (isRefusal(reading)) return parentPort?.postMessage(reading satisfies BodyReply);
  // What JSON.parse gives is JSON.
  const pieces = cut(reading.json as Json);
  return parentPort?.postMessage({ pieces, floats: reading.floats } satisfies BodyReply, [pieces.bytes.buffer]);
});
