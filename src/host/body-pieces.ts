/**
 * A large JSON value on its way out of the thread that read it. Handing the value itself over would rebuild it at one go,
 * which is what the thread is there to avoid; so it is cut into texts of some KiB that the receiver parses one after
 * the other, with room for others in between (`put together` below).
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';

/** About as many bytes of text as are parsed without a pause; a single long text may be longer. */
const PIECE_BYTES = 64 * 1024;
/** How long the receiver keeps the event loop. */
const SLICE_MS = 2;

/** What to do next, in the order of the document; `key` names the place in the map that is open. */
type Step =
  | { readonly open: 'list' | 'map'; readonly key: string | null }
  | { readonly close: true }
  /** The next so many bytes are JSON: a list or a map, whose members belong into what is open. */
  | { readonly members: number }
  /** The next so many bytes are one long text, as it is. */
  | { readonly text: number; readonly key: string | null };

export interface Pieces {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly steps: readonly Step[];
  /** About what the value takes in memory. */
  readonly heapBytes: number;
}

/** What has been read of a body: no deeper than 64 levels, without keys that mean something to objects. */
export function cut(value: Json): Pieces {
  const cutter = new Cutter();
  cutter.weigh(value);
  const { parts, steps, heapBytes } = cutter;
  cutter.addList([value]);
  return { bytes: new Uint8Array(Buffer.concat(parts)), steps, heapBytes };
}

class Cutter {
  readonly steps: Step[] = [];
  readonly parts: Buffer[] = [];
  heapBytes = 0;
  /** Containers that are too long for one piece. */
  readonly #long = new Set<object>();

  /** About the length of its text; adds up the memory on the way. */
  weigh(value: Json): number {
    if (typeof value === 'string') {
      this.heapBytes += 24 + value.length;
      return value.length + 2;
    }
    if (typeof value !== 'object' || value === null) return 8;
    let text = 2;
    if (Array.isArray(value)) {
      this.heapBytes += 32 + 8 * value.length;
      for (const member of value) text += this.weigh(member) + 1;
    } else {
      const keys = Object.keys(value);
      this.heapBytes += 48 + 24 * keys.length;
      for (const key of keys) text += this.weigh((value as JsonMap)[key] ?? null) + key.length + 4;
    }
    if (text > PIECE_BYTES) this.#long.add(value);
    return text;
  }

  /** The members of the list that is open. */
  addList(list: readonly Json[]): void {
    let start = 0;
    let size = 0;
    const flush = (end: number) => {
      if (end > start) this.steps.push({ members: this.#write(JSON.stringify(list.slice(start, end))) });
      start = end;
      size = 0;
    };
    for (const [index, member] of list.entries()) {
      if (this.#isLong(member)) {
        flush(index);
        this.#addLong(null, member);
        start = index + 1;
        continue;
      }
      size += this.#weighSmall(member);
      if (size > PIECE_BYTES) flush(index + 1);
    }
    flush(list.length);
  }

  /** The members of the map that is open. */
  addMap(map: JsonMap): void {
    let run: [string, Json][] = [];
    let size = 0;
    const flush = () => {
      if (run.length > 0) this.steps.push({ members: this.#write(JSON.stringify(Object.fromEntries(run))) });
      run = [];
      size = 0;
    };
    for (const [key, member] of Object.entries(map)) {
      if (this.#isLong(member)) {
        flush();
        this.#addLong(key, member);
        continue;
      }
      run.push([key, member]);
      size += this.#weighSmall(member) + key.length + 4;
      if (size > PIECE_BYTES) flush();
    }
    flush();
  }

  #weighSmall(value: Json): number {
    return typeof value === 'object' && value !== null ? this.weigh(value) : String(value).length + 2;
  }

  #isLong(value: Json): boolean {
    if (typeof value === 'string') return value.length > PIECE_BYTES;
    return typeof value === 'object' && value !== null && this.#long.has(value);
  }

  #addLong(key: string | null, value: Json): void {
    if (typeof value === 'string') {
      this.steps.push({ text: this.#write(value), key });
    } else if (Array.isArray(value) || isMap(value)) {
      this.steps.push({ open: Array.isArray(value) ? 'list' : 'map', key });
      if (Array.isArray(value)) this.addList(value);
      else this.addMap(value as JsonMap);
      this.steps.push({ close: true });
    }
  }

  #write(text: string): number {
    const bytes = Buffer.from(text, 'utf8');
    this.parts.push(bytes);
    return bytes.length;
  }
}

/** The value again, without holding up the process. */
export async function putTogether({ bytes, steps }: Pieces): Promise<Json> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const root: Json[] = [];
  const open: (Json[] | { [key: string]: Json })[] = [root];
  let at = 0;
  let pauseAt = performance.now() + SLICE_MS;
  const take = (length: number) => {
    at += length;
    return buffer.toString('utf8', at - length, at);
  };
  const place = (key: string | null, value: Json) => {
    const top = open.at(-1) ?? root;
    if (Array.isArray(top)) top.push(value);
    else if (key !== null) top[key] = value;
  };
  for (const step of steps) {
    if ('members' in step) {
      // Written by `cut` from JSON.
      const members = JSON.parse(take(step.members)) as Json[] | JsonMap;
      const top = open.at(-1) ?? root;
      if (Array.isArray(members)) for (const member of members) place(null, member);
      else Object.assign(top, members);
    } else if ('text' in step) {
      place(step.key, take(step.text));
    } else if ('open' in step) {
      const container = step.open === 'list' ? [] : {};
      place(step.key, container);
      open.push(container);
    } else {
      open.pop();
    }
    if (performance.now() < pauseAt) continue;
    await new Promise((resolve) => setImmediate(resolve));
    pauseAt = performance.now() + SLICE_MS;
  }
  return root[0] ?? null;
}
