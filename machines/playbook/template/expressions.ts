/**
 * nunjucks' expression tree to closures. A closure takes the run and returns a value, JSON or a Facade; it costs at
 * least one step. Facades stay Facades through names, members, conditions, `and`, `or` and `default`, and are turned
 * into plain JSON by everything else, inside lists and maps too, so that no JSON value ever has a Facade within.
 */
import type {
  Arguments,
  Binary,
  Body,
  Compare,
  Dict,
  Expression,
  Filter,
  FunCall,
  InlineIf,
  Is,
  LookupVal,
  Name,
  Sequence,
} from 'nunjucks/src/nodes.js';
import { fault } from './errors.ts';
import { Facade } from './facade.ts';
import { FILTERS } from './filters.ts';
import { Callable, FUNCTIONS, keyText, Namespace } from './functions.ts';
import { methodOf } from './methods.ts';
import type { Names } from './names.ts';
import type { Operation } from './operation.ts';
import {
  add,
  concatenate,
  contains,
  divide,
  equal,
  floorDivide,
  modulo,
  multiply,
  negate,
  type Ordering,
  ordered,
  posit,
  power,
  slice,
  subtract,
} from './operators.ts';
import { type Run, UNSET } from './run.ts';
import { TESTS } from './tests.ts';
import type { Tokens } from './tokens.ts';
import { type DataMap, data, kindOf, member, plain, put, truthy } from './values.ts';

export type Evaluate = (run: Run) => unknown;

/** Height of the tree: chains such as `a + b + …` nest in it although they do not in the text. */
const HEIGHT_MAX = 1_000;
const NO_ARGUMENTS: readonly unknown[] = [];
const NO_NAMED: DataMap = {};
/** Filters whose first argument names a filter or a test. */
const NAMES_A_FILTER: ReadonlySet<string> = new Set(['map']);
const NAMES_A_TEST: ReadonlyMap<string, number> = new Map([
  ['select', 0],
  ['reject', 0],
  ['selectattr', 1],
  ['rejectattr', 1],
]);
/** Names that mean something in Jinja2 templates with macros and blocks only. */
const FORBIDDEN_CALLS: ReadonlySet<string> = new Set(['caller', 'super', 'self']);

const ARITHMETIC: Readonly<
  Record<Exclude<Binary['typename'], 'And' | 'Or'>, (run: Run, left: unknown, right: unknown) => unknown>
> = {
  Add: add,
  Sub: subtract,
  Mul: multiply,
  Div: divide,
  FloorDiv: floorDivide,
  Mod: modulo,
  Pow: power,
  Concat: concatenate,
};

export class Expressions {
  readonly #names: Names;
  readonly #tokens: Tokens;
  readonly #capture: (body: Body) => Evaluate;
  #height = 0;

  /** `capture` compiles the body of a block `set` or a `filter` block to a closure that returns its text. */
  constructor(names: Names, tokens: Tokens, capture: (body: Body) => Evaluate) {
    this.#names = names;
    this.#tokens = tokens;
    this.#capture = capture;
  }

  compile(node: Expression): Evaluate {
    this.#height += 1;
    if (this.#height > HEIGHT_MAX)
      this.#tokens.fail(`more than ${HEIGHT_MAX} operations in one expression`, node.colno);
    const evaluate = this.#node(node);
    this.#height -= 1;
    return evaluate;
  }

  #node(node: Expression): Evaluate {
    switch (node.typename) {
      case 'Literal':
      case 'TemplateData': {
        const { value } = node;
        return () => value;
      }
      case 'Symbol':
        return this.#name(node.value);
      case 'LookupVal':
        return this.#lookup(node);
      case 'Array':
      case 'Group':
        return listOf(this.#all(node.children), plain);
      case 'Dict':
        return this.#dict(node);
      case 'FunCall':
        return this.#call(node);
      case 'Filter':
        return this.#filter(node);
      case 'Is':
        return this.#test(node);
      case 'Not': {
        const target = this.compile(node.target);
        return (run) => !truthy(target(run));
      }
      case 'Neg': {
        const target = this.compile(node.target);
        return (run) => negate(target(run));
      }
      case 'Pos': {
        const target = this.compile(node.target);
        return (run) => posit(target(run));
      }
      case 'Compare':
        return this.#compare(node);
      case 'InlineIf':
        return this.#inlineIf(node);
      case 'Capture':
        return node.body === null ? () => '' : this.#capture(node.body);
      default:
        return this.#binary(node);
    }
  }

  #all(nodes: readonly Expression[]): Evaluate[] {
    return nodes.map((node) => this.compile(node));
  }

  #name(name: string): Evaluate {
    const { slots, free } = this.#names.resolve(name);
    const only = slots[0];
    if (only === undefined) return free && name !== '__proto__' ? rootOf(name) : () => undefined;
    if (!free && slots.length === 1) {
      return (run) => {
        run.step();
        return run.slots[only];
      };
    }
    return (run) => {
      run.step();
      for (const slot of slots) if (run.slots[slot] !== UNSET) return run.slots[slot];
      return free ? data(run.scope.lookup(name)) : undefined;
    };
  }

  #lookup(node: LookupVal): Evaluate {
    const { val } = node;
    if (val.typename === 'Slice') {
      const target = this.compile(node.target);
      const none: Evaluate = () => undefined;
      const start = val.start === null ? none : this.compile(val.start);
      const stop = val.stop === null ? none : this.compile(val.stop);
      const step = val.step === null ? none : this.compile(val.step);
      return (run) => slice(run, target(run), start(run), stop(run), step(run));
    }
    if (val.typename === 'Literal') return this.#path(node);
    const target = this.compile(node.target);
    const key = this.compile(val);
    return (run) => {
      run.step();
      const value = target(run);
      return member(value, plain(key(run)));
    };
  }

  /** `a.b[0].c`: all literal keys are walked by one closure. */
  #path(node: LookupVal): Evaluate {
    const keys: (string | number)[] = [];
    let base: Expression = node;
    while (base.typename === 'LookupVal' && base.val.typename === 'Literal') {
      const key = base.val.value;
      // `x[true]` and `x[none]` name nothing.
      if (typeof key !== 'string' && typeof key !== 'number') return () => undefined;
      keys.unshift(key);
      base = base.target;
    }
    const target = this.compile(base);
    const first = keys[0];
    if (base.typename === 'Symbol' && typeof first === 'string' && this.#names.resolve(base.value).free) {
      this.#names.members.add(`${base.value}.${first}`);
    }
    if (keys.length === 1) {
      return (run) => {
        run.step();
        return member(target(run), first);
      };
    }
    return (run) => {
      let value = target(run);
      for (const key of keys) {
        run.step();
        value = member(value, key);
      }
      return value;
    };
  }

  #dict(node: Dict): Evaluate {
    const entries = node.children.map((pair) => [this.compile(pair.key), this.compile(pair.value)] as const);
    return (run) => {
      run.items(entries.length * 4);
      const map: { [key: string]: unknown } = {};
      for (const [key, value] of entries) put(map, keyText(key(run)), plain(value(run)));
      return map;
    };
  }

  #binary(node: Binary): Evaluate {
    const left = this.compile(node.left);
    const right = this.compile(node.right);
    if (node.typename === 'And') {
      return (run) => {
        const value = left(run);
        return truthy(value) ? right(run) : value;
      };
    }
    if (node.typename === 'Or') {
      return (run) => {
        const value = left(run);
        return truthy(value) ? value : right(run);
      };
    }
    if (node.typename === 'Mod' && node.right.typename === 'Group') {
      return (run) => modulo(run, left(run), right(run), true);
    }
    const apply = ARITHMETIC[node.typename];
    return (run) => {
      run.step();
      return apply(run, left(run), right(run));
    };
  }

  #inlineIf(node: InlineIf): Evaluate {
    const condition = this.compile(node.cond);
    const body = this.compile(node.body);
    const otherwise = node.else_ === null ? () => undefined : this.compile(node.else_);
    return (run) => (truthy(condition(run)) ? body(run) : otherwise(run));
  }

  #compare(node: Compare): Evaluate {
    const first = this.compile(node.expr);
    const links = node.ops.map(({ expr, type }) => ({ right: this.#operand(expr, type), holds: comparison(type) }));
    const only = links[0];
    if (links.length === 1 && only !== undefined) {
      const { right, holds } = only;
      return (run) => {
        run.step();
        return holds(run, first(run), right(run));
      };
    }
    return (run) => {
      let left = first(run);
      for (const { right, holds } of links) {
        run.step();
        const value = right(run);
        if (!holds(run, left, value)) return false;
        left = value;
      }
      return true;
    };
  }

  /** A list written after `in` keeps its Facades, whose own equality decides (`'step.done' in [event.name]`). */
  #operand(node: Expression, type: string): Evaluate {
    const membership = type === 'in' || type === 'not in';
    if (!membership || !isSequence(node)) return this.compile(node);
    return listOf(this.#all(node.children), (value) => value);
  }

  #test(node: Is): Evaluate {
    const name = node.right.name.typename === 'Symbol' ? node.right.name.value : '';
    const test = TESTS.get(name);
    if (test === undefined) return this.#tokens.fail(`unknown test '${name}'`, node.colno);
    const subject = this.compile(node.left);
    const args = node.right.args.children.map((each) =>
      each.typename === 'KeywordArgs'
        ? this.#tokens.fail('a test takes no named arguments', each.colno)
        : this.#operand(each, name),
    );
    if (args.length !== test.arguments) {
      this.#tokens.fail(`test '${name}' takes ${test.arguments === 0 ? 'no argument' : 'one argument'}`, node.colno);
    }
    return (run) => {
      run.step();
      const value = subject(run);
      return test.holds(run, value, args.length === 0 ? NO_ARGUMENTS : args.map((each) => each(run)));
    };
  }

  #filter(node: Filter): Evaluate {
    const name = node.name.value;
    const filter = FILTERS.get(name);
    const [subjectNode, ...rest] = node.args.children;
    if (filter === undefined || subjectNode === undefined || subjectNode.typename === 'KeywordArgs') {
      return this.#tokens.fail(`unknown filter '${name}'`, node.colno);
    }
    this.#checkNames(name, rest);
    const subject = this.compile(subjectNode);
    const args = this.#arguments(filter, rest, `filter '${name}'`, node.colno);
    if (name === 'default' || name === 'd') return passingDefault(subject, filter, args);
    return (run) => {
      run.step();
      const value = plain(subject(run));
      return filter.apply(run, value, args.positional(run), args.named(run));
    };
  }

  /** `map('nosuch')` is as wrong as `x | nosuch`, and as early. */
  #checkNames(filter: string, args: Arguments['children']): void {
    const position = NAMES_A_FILTER.has(filter) ? 0 : NAMES_A_TEST.get(filter);
    const name = position === undefined ? undefined : args[position];
    if (name?.typename !== 'Literal' || typeof name.value !== 'string') return;
    const [table, what] = NAMES_A_FILTER.has(filter) ? [FILTERS, 'filter'] : [TESTS, 'test'];
    if (!table.has(name.value)) this.#tokens.fail(`unknown ${what} '${name.value}'`, name.colno);
  }

  #call(node: FunCall): Evaluate {
    const { name } = node;
    if (name.typename === 'Symbol' && !this.#names.isVariable(name.value))
      return this.#function(name, node.args.children);
    if (name.typename === 'LookupVal' && name.val.typename === 'Literal' && typeof name.val.value === 'string') {
      return this.#method(this.compile(name.target), name.val.value, node);
    }
    const target = this.compile(name);
    const args = this.#arguments(null, node.args.children, 'this', node.colno);
    return (run) => {
      run.step();
      const value = target(run);
      return value instanceof Callable ? value.call(run, null, args.positional(run)) : notCallable(value);
    };
  }

  #function(name: Name, children: Arguments['children']): Evaluate {
    if (FORBIDDEN_CALLS.has(name.value)) this.#tokens.fail(`'${name.value}' is not supported`, name.colno);
    const found = FUNCTIONS.get(name.value);
    const args = this.#arguments(found ?? null, children, `function '${name.value}'`, name.colno);
    if (found === undefined) {
      const value = this.#name(name.value);
      return (run) => notCallable(value(run));
    }
    return (run) => {
      run.step();
      return found.apply(run, undefined, args.positional(run), args.named(run));
    };
  }

  #method(target: Evaluate, name: string, node: FunCall): Evaluate {
    const args = this.#arguments(null, node.args.children, `method '${name}'`, node.colno);
    return (run) => {
      run.step();
      const subject = target(run);
      if (subject instanceof Callable) return subject.call(run, name, args.positional(run));
      if (subject instanceof Namespace) {
        const inner = subject.member(name);
        if (inner instanceof Callable) return inner.call(run, null, args.positional(run));
      }
      const value = plain(subject);
      const method = methodOf(value, name);
      const named = args.named(run);
      const positional = args.positional(run);
      return method.apply(run, value, method.variadic ? positional : inPlace(method, positional, named, name), named);
    };
  }

  /** Arguments as closures; named ones go to their places now when the operation is known. */
  #arguments(
    operation: Operation | null,
    children: Arguments['children'],
    what: string,
    at: number,
  ): CompiledArguments {
    const given: Evaluate[] = [];
    const named: (readonly [string, Evaluate])[] = [];
    for (const child of children) {
      if (child.typename !== 'KeywordArgs') given.push(this.compile(child));
      else for (const { key, value } of child.children) named.push([nameOf(key), this.compile(value)]);
    }
    // A namespace keeps what only templates have: cyclers, other namespaces, `loop`.
    const treat = operation === FUNCTIONS.get('namespace') ? (value: unknown) => value : plain;
    if (operation === null || operation.variadic) return argumentsOf(given, named, treat);
    const { parameters } = operation;
    if (given.length > parameters.length) this.#tokens.fail(`${what} has too many arguments`, at);
    const places = new Map(given.map((evaluate, index) => [index, evaluate]));
    for (const [name, evaluate] of named) {
      const index = parameters.indexOf(name);
      if (index < 0 || places.has(index)) this.#tokens.fail(`${what} cannot take the argument '${name}'`, at);
      places.set(index, evaluate);
    }
    const count = Math.max(-1, ...places.keys()) + 1;
    return argumentsOf(
      Array.from({ length: count }, (_none, index) => places.get(index) ?? (() => undefined)),
      [],
      plain,
    );
  }
}

function nameOf(key: Expression): string {
  return key.typename === 'Literal' ? String(key.value) : '';
}

function argumentsOf(
  given: readonly Evaluate[],
  named: readonly (readonly [string, Evaluate])[],
  treat: (value: unknown) => unknown,
): CompiledArguments {
  return {
    positional: given.length === 0 ? () => NO_ARGUMENTS : (run) => given.map((each) => treat(each(run))),
    named: named.length === 0 ? () => NO_NAMED : (run) => namedValues(run, named, treat),
  };
}

interface CompiledArguments {
  readonly positional: (run: Run) => readonly unknown[];
  readonly named: (run: Run) => DataMap;
}

function rootOf(name: string): Evaluate {
  return (run) => {
    run.step();
    return data(run.scope.lookup(name));
  };
}

function isSequence(node: Expression): node is Sequence {
  return node.typename === 'Array' || node.typename === 'Group';
}

function listOf(elements: readonly Evaluate[], treat: (value: unknown) => unknown): Evaluate {
  return (run) => {
    run.items(elements.length * 4);
    return elements.map((each) => treat(each(run)));
  };
}

function comparison(type: string): (run: Run, left: unknown, right: unknown) => boolean {
  switch (type) {
    case '==':
      return equal;
    case '!=':
      return (run, left, right) => !equal(run, left, right);
    case 'in':
      return contains;
    case 'not in':
      return (run, left, right) => !contains(run, left, right);
    default: {
      // The grammar admits only the four orderings besides the cases above.
      const ordering = type as Ordering;
      return (run, left, right) => ordered(run, ordering, left, right);
    }
  }
}

/** `default` of a Facade that stands for something is the Facade itself, so its accessors survive. */
function passingDefault(subject: Evaluate, filter: Operation, args: CompiledArguments): Evaluate {
  return (run) => {
    run.step();
    const value = subject(run);
    const bare = plain(value);
    const result = filter.apply(run, bare, args.positional(run), args.named(run));
    return value instanceof Facade && result === bare ? value : result;
  };
}

function namedValues(
  run: Run,
  named: readonly (readonly [string, Evaluate])[],
  treat: (value: unknown) => unknown,
): DataMap {
  const values: { [key: string]: unknown } = {};
  for (const [name, evaluate] of named) put(values, name, treat(evaluate(run)));
  return values;
}

function inPlace(method: Operation, positional: readonly unknown[], named: DataMap, name: string): readonly unknown[] {
  const args = [...positional];
  for (const [key, value] of Object.entries(named)) {
    const index = method.parameters.indexOf(key);
    if (index < 0) fault(`method '${name}' has no argument '${key}'`);
    args[index] = value;
  }
  return args.length > method.parameters.length ? fault(`method '${name}' has too many arguments`) : args;
}

function notCallable(value: unknown): never {
  return fault(`a ${kindOf(plain(value))} cannot be called`);
}
