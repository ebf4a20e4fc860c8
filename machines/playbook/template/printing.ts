/** Values as text (language 8.6) and as JSON. The writer is our own because its cost must be counted as it goes. */
import { limit } from './errors.ts';
import { Facade } from './facade.ts';
import { type Run, VALUE_DEPTH_MAX } from './run.ts';

/** Counts what is read and made. */
type Meter = Pick<Run, 'chars' | 'items' | 'room'>;

const FREE: Meter = { chars: () => {}, items: () => {}, room: () => {} };

/** Text of a value: language 8.6. */
export function printValue(value: unknown): string {
  return print(FREE, value);
}

export function print(meter: Meter, value: unknown): string {
  switch (typeof value) {
    case 'string':
      return value;
    case 'number':
      return String(value);
    case 'boolean':
      return value ? 'True' : 'False';
    case 'object':
      if (value === null) return '';
      return value instanceof Facade ? print(meter, value.plain()) : toJson(meter, value, '');
    default:
      return '';
  }
}

/** JSON text, key order kept; `indent` is one level of indentation, empty for compact. */
export function toJson(meter: Meter, value: unknown, indent: string): string {
  return new Writer(meter, indent).text(value, 0);
}

class Writer {
  readonly #meter: Meter;
  readonly #indent: string;

  constructor(meter: Meter, indent: string) {
    this.#meter = meter;
    this.#indent = indent;
  }

  text(value: unknown, depth: number): string {
    switch (typeof value) {
      case 'string': {
        this.#meter.room(value.length + 2);
        return JSON.stringify(value);
      }
      case 'number':
        return Number.isFinite(value) ? String(value) : 'null';
      case 'boolean':
        return value ? 'true' : 'false';
      case 'object':
        break;
      default:
        return 'null';
    }
    if (value === null) return 'null';
    if (depth > VALUE_DEPTH_MAX) limit(`a value is nested deeper than ${VALUE_DEPTH_MAX}`);
    if (value instanceof Facade) return this.text(value.plain(), depth + 1);
    return Array.isArray(value) ? this.#list(value, depth) : this.#map(value, depth);
  }

  #list(list: readonly unknown[], depth: number): string {
    if (list.length === 0) return '[]';
    this.#meter.items(list.length * 4);
    const separator = this.#separator(depth, list.length);
    let text = `[${separator.slice(1)}`;
    for (let index = 0; index < list.length; index += 1) {
      if (index > 0) text += separator;
      text += this.text(list[index], depth + 1);
    }
    return `${text}${this.#end(depth)}]`;
  }

  #map(map: object, depth: number): string {
    const entries = Object.entries(map);
    if (entries.length === 0) return '{}';
    this.#meter.items(entries.length * 4);
    const separator = this.#separator(depth, entries.length);
    const colon = this.#indent === '' ? ':' : ': ';
    let text = `{${separator.slice(1)}`;
    let first = true;
    for (const [key, value] of entries) {
      if (key === '__proto__') continue;
      if (!first) text += separator;
      first = false;
      this.#meter.room(key.length + 3);
      text += JSON.stringify(key) + colon + this.text(value, depth + 1);
    }
    return `${text}${this.#end(depth)}}`;
  }

  #separator(depth: number, count: number): string {
    if (this.#indent === '') {
      this.#meter.room(count * 2);
      return ',';
    }
    this.#meter.room((count + 1) * (2 + this.#indent.length * (depth + 1)));
    return `,\n${this.#indent.repeat(depth + 1)}`;
  }

  #end(depth: number): string {
    return this.#indent === '' ? '' : `\n${this.#indent.repeat(depth)}`;
  }
}

/**
 * A result that a template built, ready to be handed out: undefined becomes null, and its size is paid for, because
 * values made by repetition are small in memory and huge when written out.
 */
export function settled(run: Run, value: unknown, depth = 0): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (depth > VALUE_DEPTH_MAX) limit(`a value is nested deeper than ${VALUE_DEPTH_MAX}`);
  if (Array.isArray(value)) {
    run.items(value.length * 4);
    return Array.from(value, (each) => settledPart(run, each, depth));
  }
  const copy: { [key: string]: unknown } = {};
  for (const [key, each] of Object.entries(value)) {
    run.step();
    run.room(key.length);
    if (key !== '__proto__') copy[key] = settledPart(run, each, depth);
  }
  return copy;
}

function settledPart(run: Run, value: unknown, depth: number): unknown {
  if (typeof value === 'string') run.room(value.length);
  return value === undefined ? null : settled(run, value, depth + 1);
}
