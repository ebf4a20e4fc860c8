/**
 * One evaluation: where names come from, the variables of the template, and the fuel. Every node costs a step and every
 * operation costs steps in proportion to the text and lists it reads and makes, so that no template, however short,
 * runs for long. The clock is optional and looked at only every few thousand steps.
 */
import { limit } from './errors.ts';
import type { Scope } from './facade.ts';

/** Limits of one render (language 8.12.3). The clock is an argument: machines have none. */
export interface Limits {
  readonly steps: number;
  /** Bytes of produced text; the sum of all intermediate strings is held to the same number. */
  readonly outputBytes: number;
  readonly timeoutMs?: number;
  /** Milliseconds; without it `timeoutMs` and `until` say nothing. */
  readonly now?: () => number;
  /** An instant of `now` at which whatever is rendered together has to be done. */
  readonly until?: number;
  /** Printing, filtering, iterating or yielding an undefined value is an error. */
  readonly strict?: boolean;
}

export const DEFAULT_LIMITS: Limits = { steps: 1_000_000, outputBytes: 16_777_216 };

/** Elements of a range or a repetition. */
export const ELEMENTS_MAX = 100_000;
/** Nesting of a value that is printed, compared or handed out. */
export const VALUE_DEPTH_MAX = 500;

const TICK = 4_096;
const CHARS_PER_STEP = 64;
const ITEMS_PER_STEP = 4;

/** A variable that no `set` has reached yet; reading it looks further out. */
export const UNSET = Symbol('unset');

export class Run {
  readonly scope: Scope;
  readonly slots: unknown[];
  /** Steps left. `step()` and the inlined copies of it compare with `floor`. */
  steps: number;
  floor: number;
  /** Text written so far by statements; captures put their own in its place for a while. */
  out = '';
  /** How many captures are open; their text is intermediate. */
  captures = 0;
  /** Offset of the tag that is being evaluated, for messages. */
  at = 0;
  readonly strict: boolean;
  readonly #limits: Limits;
  readonly #deadline: number;
  #written = 0;
  #intermediate = 0;

  constructor(scope: Scope, slots: number, limits: Limits) {
    this.scope = scope;
    this.slots = slots === 0 ? NONE : new Array(slots).fill(UNSET);
    this.steps = limits.steps;
    this.#limits = limits;
    this.strict = limits.strict === true;
    this.#deadline = deadlineOf(limits);
    this.floor = Number.isFinite(this.#deadline) ? Math.max(0, limits.steps - TICK) : 0;
  }

  /** One node. */
  step(): void {
    this.steps -= 1;
    if (this.steps < this.floor) this.tick();
  }

  /** `count` elements of a list or map were, or are about to be, visited. */
  items(count: number): void {
    this.steps -= Math.ceil(count / ITEMS_PER_STEP);
    if (this.steps < this.floor) this.tick();
  }

  /** `length` characters were, or are about to be, read. */
  chars(length: number): void {
    this.steps -= Math.ceil(length / CHARS_PER_STEP);
    if (this.steps < this.floor) this.tick();
  }

  /** Called when `steps` fell below `floor`: either the fuel is used up or it is time to look at the clock. */
  tick(): void {
    if (this.steps < 0) limit(`more than ${this.#limits.steps} steps`);
    this.floor = Math.max(0, this.steps - TICK);
    if (this.#limits.now !== undefined && this.#limits.now() > this.#deadline) {
      limit(`more than ${this.#limits.timeoutMs} ms`);
    }
  }

  /** Room for an intermediate string of `length` characters; to be called before it is made. */
  room(length: number): void {
    this.#intermediate += length;
    if (this.#intermediate > this.#limits.outputBytes) limit(`more than ${this.#limits.outputBytes} bytes of text`);
    this.chars(length);
  }

  /** Appends to the output. */
  write(text: string): void {
    if (this.captures > 0) this.room(text.length);
    else this.#count(text.length);
    this.out += text;
  }

  #count(length: number): void {
    this.#written += length;
    if (this.#written > this.#limits.outputBytes) limit(`more than ${this.#limits.outputBytes} bytes of text`);
    this.chars(length);
  }

  /** The finished text, measured in bytes. */
  finish(): string {
    const text = this.out;
    if (text.length * 3 > this.#limits.outputBytes && utf8Length(text) > this.#limits.outputBytes) {
      limit(`more than ${this.#limits.outputBytes} bytes of text`);
    }
    return text;
  }

  /** Counts elements against the hard limit of ranges and repetitions. */
  elements(count: number): void {
    if (count > ELEMENTS_MAX) limit(`more than ${ELEMENTS_MAX} elements`);
    this.items(count);
  }
}

function deadlineOf({ now, timeoutMs, until = Number.POSITIVE_INFINITY }: Limits): number {
  if (now === undefined) return Number.POSITIVE_INFINITY;
  return timeoutMs === undefined ? until : Math.min(until, now() + timeoutMs);
}

/** Shared by all runs of templates without variables; nothing writes to it. */
const NONE: unknown[] = [];

function utf8Length(text: string): number {
  let bytes = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code < 0x80) bytes += 1;
    else if (code < 0x800) bytes += 2;
    else if (code >= 0xd800 && code < 0xdc00) {
      bytes += 4;
      index += 1;
    } else bytes += 3;
  }
  return bytes;
}
