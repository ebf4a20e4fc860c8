/**
 * The part of a large JSON text that a path selects, without building the rest of it: its bytes are walked over, with
 * room for others in between. What was stored is text that this service wrote, so it is not checked again.
 */
import { createHash, subtle } from 'node:crypto';
import { setImmediate as breathe } from 'node:timers/promises';

export interface JsonPart {
  /** UTF-8, a view of the whole. */
  readonly data: Uint8Array;
  /** Hex, of the bytes. */
  readonly sha256: string;
}

/** How long the event loop is kept. */
const SLICE_MS = 2;
/** Bytes between two looks at the clock. */
const STRIDE = 128 * 1024;
/** Larger ones are hashed off the event loop. */
const HASH_MAX_BYTES = 256 * 1024;

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_MAP, CLOSE_MAP] = [0x5b, 0x5d, 0x7b, 0x7d];
const INDEX = /^-?\d+$/;

/** `path`: member names and positions in lists, counted from the end when negative. Null where there is nothing. */
export async function partOfJson(json: Uint8Array, path: readonly string[]): Promise<JsonPart | null> {
  const walk = new Walk(json);
  let pauseAt = performance.now() + SLICE_MS;
  for (const steps = walk.to(path); ; ) {
    const { done, value } = steps.next();
    if (done === true) return value ? hashed(walk.value(value.from, value.to)) : null;
    if (performance.now() < pauseAt) continue;
    await breathe();
    pauseAt = performance.now() + SLICE_MS;
  }
}

async function hashed(data: Uint8Array): Promise<JsonPart> {
  if (data.length <= HASH_MAX_BYTES) return { data, sha256: createHash('sha256').update(data).digest('hex') };
  // A digest asks for bytes of an ordinary buffer, which these are.
  const digest = await subtle.digest('SHA-256', data as Uint8Array<ArrayBuffer>);
  return { data, sha256: Buffer.from(digest).toString('hex') };
}

interface Range {
  readonly from: number;
  readonly to: number;
}

/** Where its generators yield, the walk may pause. */
class Walk {
  readonly #json: Buffer;
  #at = 0;
  #pauseAt = STRIDE;
  /** Of the text last passed. */
  #hasEscapes = false;

  constructor(json: Uint8Array) {
    this.#json = Buffer.from(json.buffer, json.byteOffset, json.byteLength);
  }

  value(from: number, to: number): Uint8Array {
    return this.#json.subarray(from, to);
  }

  /** Where the value at a path begins and ends. */
  *to(path: readonly string[]): Generator<void, Range | null> {
    for (const part of path) {
      const byte = this.#json[this.#at];
      let isThere = false;
      if (byte === OPEN_MAP) isThere = yield* this.#enterMap(part);
      else if (byte === OPEN_LIST && INDEX.test(part)) isThere = yield* this.#enterList(Number(part));
      if (!isThere) return null;
    }
    const from = this.#at;
    yield* this.#passValue();
    return { from, to: this.#at };
  }

  /** Stands at the value of a member then. */
  *#enterMap(name: string): Generator<void, boolean> {
    const wanted = Buffer.from(name);
    this.#at += 1;
    while (this.#json[this.#at] === QUOTE) {
      const from = this.#at;
      this.#openText();
      while (!this.#passText()) yield this.#pause();
      const isWanted = this.#isName(from, this.#at, wanted, name);
      // The colon.
      this.#at += 1;
      if (isWanted) return true;
      yield* this.#passValue();
      if (this.#json[this.#at] === COMMA) this.#at += 1;
    }
    return false;
  }

  #isName(from: number, to: number, wanted: Buffer, name: string): boolean {
    if (this.#hasEscapes) return JSON.parse(this.#json.toString('utf8', from, to)) === name;
    return to - from - 2 === wanted.length && wanted.compare(this.#json, from + 1, to - 1) === 0;
  }

  /** Stands at a member of the list then. */
  *#enterList(position: number): Generator<void, boolean> {
    const start = this.#at;
    let index = position;
    if (position < 0) {
      index += yield* this.#passMembers(Number.POSITIVE_INFINITY);
      this.#at = start;
      this.#pause();
    }
    if (index < 0) return false;
    const passed = yield* this.#passMembers(index);
    return passed === index && this.#json[this.#at] !== CLOSE_LIST;
  }

  /** From the beginning of a list past as many of its members, or past all; how many that were. */
  *#passMembers(count: number): Generator<void, number> {
    this.#at += 1;
    let passed = 0;
    while (passed < count && this.#at < this.#json.length && this.#json[this.#at] !== CLOSE_LIST) {
      yield* this.#passValue();
      passed += 1;
      if (this.#json[this.#at] === COMMA) this.#at += 1;
    }
    return passed;
  }

  *#passValue(): Generator<void, void> {
    const json = this.#json;
    for (let depth = 0; this.#at < json.length; ) {
      const byte = json[this.#at];
      if (byte === QUOTE) {
        this.#openText();
        while (!this.#passText()) yield this.#pause();
        if (depth === 0) return;
      } else if (byte === CLOSE_LIST || byte === CLOSE_MAP) {
        // Of what a number or a word stands in.
        if (depth === 0) return;
        depth -= 1;
        this.#at += 1;
        if (depth === 0) return;
      } else if (byte === COMMA && depth === 0) return;
      else {
        if (byte === OPEN_LIST || byte === OPEN_MAP) depth += 1;
        this.#at += 1;
      }
      if (this.#at >= this.#pauseAt) yield this.#pause();
    }
  }

  #openText(): void {
    this.#hasEscapes = false;
    this.#at += 1;
  }

  /** False: it is time to pause, within the text. */
  #passText(): boolean {
    const json = this.#json;
    const end = Math.min(json.length, this.#pauseAt);
    let at = this.#at;
    let byte = json[at];
    while (at < end && byte !== QUOTE) {
      if (byte === BACKSLASH) {
        this.#hasEscapes = true;
        at += 1;
      }
      at += 1;
      byte = json[at];
    }
    const isOver = byte === QUOTE || at >= json.length;
    this.#at = isOver ? at + 1 : at;
    return isOver;
  }

  #pause(): void {
    this.#pauseAt = this.#at + STRIDE;
  }
}
