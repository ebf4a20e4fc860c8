/**
 * Writing a large JSON value without holding up the process: small parts are written at one go by the engine, with room
 * for others in between, and the bytes are hashed and put together as they come. The counterpart of body-pieces.ts.
 */
import { createHash } from 'node:crypto';
import { setImmediate as breathe } from 'node:timers/promises';
import type { WrittenJson } from '../../actors/result-service.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';

/** About as many characters as are written without a pause. */
const PART_CHARS = 64 * 1024;
/** Members of a map are written one by one, which takes longer. */
const KEYS_CHARS = 8 * 1024;
/** How long the event loop is kept. */
const SLICE_MS = 2;
/** As much of the text as previews of it may want. */
const HEAD_CHARS = 16 * 1024;

/** The bytes of `JSON.stringify`, their hash, and the beginning of the text. */
export async function writeJson(value: Json): Promise<WrittenJson> {
  const hash = createHash('sha256');
  const buffers: Buffer[] = [];
  let bytes = 0;
  let head = '';
  let waiting = '';
  let pauseAt = performance.now() + SLICE_MS;
  const flush = () => {
    if (head.length < HEAD_CHARS) head = (head + waiting).slice(0, HEAD_CHARS);
    const buffer = Buffer.from(waiting, 'utf8');
    hash.update(buffer);
    buffers.push(buffer);
    bytes += buffer.length;
    waiting = '';
  };
  for (const part of partsOf(value)) {
    waiting += part;
    if (waiting.length >= PART_CHARS) flush();
    if (performance.now() < pauseAt) continue;
    await breathe();
    pauseAt = performance.now() + SLICE_MS;
  }
  flush();
  // Not filled with zeros first: that alone would take longer than a slice.
  const data = Buffer.allocUnsafeSlow(bytes);
  let at = 0;
  for (const buffer of buffers) {
    data.set(buffer, at);
    at += buffer.length;
    if (performance.now() < pauseAt) continue;
    await breathe();
    pauseAt = performance.now() + SLICE_MS;
  }
  return { data, sha256: hash.digest('hex'), head };
}

/** The text in parts, each made in about a millisecond at most. */
function* partsOf(value: Json): Generator<string, void> {
  if (isSmall(value)) yield JSON.stringify(value);
  else if (typeof value === 'string') yield* textParts(value);
  else if (Array.isArray(value)) yield* listParts(value);
  else if (isMap(value)) yield* mapParts(value);
}

function* listParts(list: readonly Json[]): Generator<string, void> {
  let from = 0;
  let size = 0;
  let separator = '[';
  for (const [index, member] of list.entries()) {
    const chars = charsOf(member, PART_CHARS);
    if (chars > PART_CHARS) {
      if (from < index) {
        yield separator + JSON.stringify(list.slice(from, index)).slice(1, -1);
        separator = ',';
      }
      yield separator;
      yield* partsOf(member);
      separator = ',';
      from = index + 1;
      size = 0;
      continue;
    }
    size += chars;
    if (size < PART_CHARS) continue;
    yield separator + JSON.stringify(list.slice(from, index + 1)).slice(1, -1);
    separator = ',';
    from = index + 1;
    size = 0;
  }
  yield from < list.length ? `${separator}${JSON.stringify(list.slice(from)).slice(1)}` : ']';
}

function* mapParts(map: JsonMap): Generator<string, void> {
  let text = '{';
  let isFirst = true;
  for (const key of Object.keys(map)) {
    const member = map[key] ?? null;
    text += `${isFirst ? '' : ','}${JSON.stringify(key)}:`;
    isFirst = false;
    if (isSmall(member)) text += JSON.stringify(member);
    else {
      yield text;
      text = '';
      yield* partsOf(member);
    }
    if (text.length < KEYS_CHARS) continue;
    yield text;
    text = '';
  }
  yield `${text}}`;
}

function* textParts(text: string): Generator<string, void> {
  yield '"';
  for (let from = 0; from < text.length; ) {
    let to = Math.min(from + PART_CHARS, text.length);
    // Two halves of one character are written differently when they stand alone.
    if (to < text.length && isHighHalf(text.charCodeAt(to - 1))) to += 1;
    yield JSON.stringify(text.slice(from, to)).slice(1, -1);
    from = to;
  }
  yield '"';
}

function isHighHalf(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}

function isSmall(value: Json): boolean {
  return charsOf(value, PART_CHARS) <= PART_CHARS;
}

/** About the length of the text, counted no further than a little above `most`. */
function charsOf(value: Json, most: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 8;
  let chars = 2;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && chars <= most; index += 1)
      chars += charsOf(value[index] ?? null, most - chars) + 1;
    return chars;
  }
  for (const key in value) {
    chars += key.length + 4 + charsOf((value as JsonMap)[key] ?? null, most - chars);
    if (chars > most) break;
  }
  return chars;
}
