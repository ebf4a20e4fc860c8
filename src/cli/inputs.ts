/** The inputs of a run: a JSON file, and `--set key=value` on top of it, later ones winning. */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { type Call, UsageError } from './command.ts';
import { textOfFile } from './text-file.ts';

/** From `--input FILE` and `--set KEY=VALUE`. Throws UsageError. */
export async function inputsOf(call: Call): Promise<JsonMap> {
  const file = call.texts['input'];
  const base = file === undefined ? {} : mapOf(await textOfFile(file), file);
  const set = (call.lists['set'] ?? []).map(pairOf);
  return { ...base, ...Object.fromEntries(set) };
}

function mapOf(text: string, file: string): JsonMap {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${file} is not JSON (${error instanceof Error ? error.message : 'unreadable'})`);
  }
  if (!isMap(value)) throw new UsageError(`${file} must hold one JSON object`);
  return value;
}

/** `n=3`, `on=true`, `list=[1,2]` are JSON; anything that is not JSON is text: `who=world`. */
export function pairOf(text: string): readonly [string, Json] {
  const at = text.indexOf('=');
  const key = at < 0 ? '' : text.slice(0, at).trim();
  if (key === '') throw new UsageError(`--set needs KEY=VALUE, not '${text}'`);
  if (key === '__proto__') throw new UsageError('--set cannot set __proto__');
  return [key, jsonOrText(text.slice(at + 1))];
}

function jsonOrText(text: string): Json {
  try {
    // JSON.parse yields JSON.
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}
