/**
 * The functions of language 8.11 and the objects only templates have: `loop`, namespaces, cyclers and joiners. Those are
 * Facades, so their members go through `member` and nothing of their implementation can be reached.
 */
import { fault } from './errors.ts';
import { Facade } from './facade.ts';
import { type Operations, variadic } from './operation.ts';
import type { Run } from './run.ts';
import { elementsOf, isMap, keysOf, mapOf, plain, put, wholeOf } from './values.ts';

/** An object with methods or one that can itself be called (`method` null). */
export abstract class Callable extends Facade {
  abstract call(run: Run, method: string | null, args: readonly unknown[]): unknown;
}

/** `loop` inside a `for`. */
export class LoopState extends Callable {
  index = 0;
  readonly elements: readonly unknown[];

  constructor(elements: readonly unknown[]) {
    super();
    this.elements = elements;
  }

  member(key: string | number): unknown {
    const last = this.elements.length - 1;
    switch (key) {
      case 'index':
        return this.index + 1;
      case 'index0':
        return this.index;
      case 'revindex':
        return last - this.index + 1;
      case 'revindex0':
        return last - this.index;
      case 'first':
        return this.index === 0;
      case 'last':
        return this.index === last;
      case 'length':
        return last + 1;
      case 'previtem':
        return this.elements[this.index - 1];
      case 'nextitem':
        return this.elements[this.index + 1];
      default:
        return undefined;
    }
  }

  plain(): unknown {
    const names = ['index', 'index0', 'revindex', 'revindex0', 'first', 'last', 'length'];
    return mapOf(names.map((name) => [name, this.member(name)]));
  }

  call(_run: Run, method: string | null, args: readonly unknown[]): unknown {
    if (method !== 'cycle')
      return fault(method === null ? "'loop' cannot be called" : `'loop' has no method '${method}'`);
    return args.length === 0 ? fault('cycle needs values') : args[this.index % args.length];
  }
}

/** `namespace(...)`: the one thing a template can write to from an inner scope. */
export class Namespace extends Facade {
  readonly #values: { [key: string]: unknown };

  constructor(values: { [key: string]: unknown }) {
    super();
    this.#values = values;
  }

  member(key: string | number): unknown {
    return Object.hasOwn(this.#values, key) ? this.#values[key] : undefined;
  }

  assign(key: string, value: unknown): void {
    put(this.#values, key, value);
  }

  plain(): unknown {
    return mapOf(Object.entries(this.#values).map(([key, value]) => [key, plain(value)]));
  }
}

/** `cycler('a', 'b')`: `.next()`, `.reset()`, `.current`. */
class Cycler extends Callable {
  #index = 0;
  readonly #values: readonly unknown[];

  constructor(values: readonly unknown[]) {
    super();
    this.#values = values;
  }

  member(key: string | number): unknown {
    return key === 'current' ? this.#values[this.#index] : undefined;
  }

  plain(): unknown {
    return this.#values;
  }

  call(_run: Run, method: string | null): unknown {
    if (method === 'next') {
      const current = this.#values[this.#index];
      this.#index = (this.#index + 1) % this.#values.length;
      return current;
    }
    if (method !== 'reset') return fault("a cycler has the methods 'next' and 'reset'");
    this.#index = 0;
    return undefined;
  }
}

/** `joiner(', ')`: nothing the first time it is called, the separator afterwards. */
class Joiner extends Callable {
  #used = false;
  readonly #separator: unknown;

  constructor(separator: unknown) {
    super();
    this.#separator = separator;
  }

  member(): unknown {
    return undefined;
  }

  plain(): unknown {
    return this.#separator;
  }

  call(_run: Run, method: string | null): unknown {
    if (method !== null) return fault('a joiner has no methods');
    const text = this.#used ? this.#separator : '';
    this.#used = true;
    return text;
  }
}

export const FUNCTIONS: Operations = new Map([
  ['range', variadic((run, _subject, args) => range(run, args))],
  ['dict', variadic((run, _subject, [pairs], named) => mapOf([...entriesOf(run, pairs), ...entriesOf(run, named)]))],
  [
    'namespace',
    variadic((run, _subject, [pairs], named) => {
      const values: { [key: string]: unknown } = {};
      for (const [key, value] of [...entriesOf(run, pairs), ...entriesOf(run, named)]) put(values, key, value);
      return new Namespace(values);
    }),
  ],
  ['cycler', variadic((_run, _subject, args) => (args.length === 0 ? fault('cycler needs values') : new Cycler(args)))],
  ['joiner', variadic((_run, _subject, [separator = ', ']) => new Joiner(separator))],
]);

function range(run: Run, args: readonly unknown[]): unknown[] {
  if (args.length < 1 || args.length > 3) fault('range takes 1 to 3 numbers');
  const [first = 0, second = 0, step = 1] = args.map((each) => wholeOf(each, 'range'));
  const [start, stop] = args.length === 1 ? [0, first] : [first, second];
  if (step === 0) fault('range step cannot be zero');
  const length = Math.max(0, Math.ceil((stop - start) / step));
  run.elements(length);
  return Array.from({ length }, (_none, index) => start + index * step);
}

function entriesOf(run: Run, source: unknown): (readonly [string, unknown])[] {
  if (source === undefined) return [];
  if (isMap(source)) return keysOf(run, source).map((key) => [key, source[key]]);
  return elementsOf(run, source).map((pair) =>
    Array.isArray(pair) && pair.length === 2
      ? [keyText(pair[0]), pair[1]]
      : fault('dict needs a map or a list of pairs'),
  );
}

/** Keys are text; a number is spelled as it prints. */
export function keyText(key: unknown): string {
  const value = plain(key);
  if (typeof value === 'string') return value;
  return typeof value === 'number' ? String(value) : fault('a key must be text or a number');
}
