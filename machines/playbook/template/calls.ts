/**
 * Whatever takes arguments: filters, tests, functions and methods. Named arguments find their places when a template is
 * compiled where the operation is known by then, and a method's when it is called, because it depends on the value.
 */
import type { Arguments, Expression, Filter, FunCall, Is, Literal, Name } from 'nunjucks/src/nodes.js';
import { known } from '../../known.ts';
import { fault } from './errors.ts';
import type { Evaluate } from './expressions.ts';
import { Facade } from './facade.ts';
import { FILTERS } from './filters.ts';
import { Callable, FUNCTIONS, Namespace } from './functions.ts';
import { methodOf } from './methods.ts';
import type { Operation } from './operation.ts';
import type { Run } from './run.ts';
import { TESTS } from './tests.ts';
import type { Tokens } from './tokens.ts';
import { aKindOf, type DataMap, plain, put } from './values.ts';

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

/** What calls need of the expressions around them. */
export interface Surroundings {
  readonly tokens: Tokens;
  readonly compile: (node: Expression) => Evaluate;
  /** Like compile, but a list written there keeps its Facades when the operator or test is a membership. */
  readonly operand: (node: Expression, operator: string) => Evaluate;
  /** True for names that the template itself sets. */
  readonly isVariable: (name: string) => boolean;
}

export class Calls {
  readonly #tokens: Tokens;
  readonly #around: Surroundings;

  constructor(around: Surroundings) {
    this.#tokens = around.tokens;
    this.#around = around;
  }

  test(node: Is): Evaluate {
    // The grammar makes tests of names that it knows, and nothing else.
    const name = (node.right.name as Name).value;
    const test = known(TESTS.get(name));
    const subject = this.#around.compile(node.left);
    const args = node.right.args.children.map((each) =>
      each.typename === 'KeywordArgs'
        ? this.#tokens.fail('a test takes no named arguments', each.colno)
        : this.#around.operand(each, name),
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

  filter(node: Filter): Evaluate {
    const name = node.name.value;
    // The grammar knows the filter, and puts what stands before the bar first.
    const filter = known(FILTERS.get(name));
    const [first, ...rest] = node.args.children;
    const subjectNode = first as Expression;
    this.#checkNames(name, rest);
    const subject = this.#around.compile(subjectNode);
    const args = this.#arguments(filter, rest, `filter '${name}'`, node.colno);
    if (name === 'default' || name === 'd') return passingDefault(subject, filter, args);
    return (run) => {
      run.step();
      const value = plain(subject(run));
      if (run.strict && value === undefined) fault(`filter '${name}' gets an undefined value`);
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

  call(node: FunCall): Evaluate {
    const { name } = node;
    if (name.typename === 'Symbol' && !this.#around.isVariable(name.value))
      return this.#function(name, node.args.children);
    if (name.typename === 'LookupVal' && name.val.typename === 'Literal' && typeof name.val.value === 'string') {
      return this.#method(this.#around.compile(name.target), name.val.value, node);
    }
    const target = this.#around.compile(name);
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
      const value = this.#around.compile(name);
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
      if (child.typename !== 'KeywordArgs') given.push(this.#around.compile(child));
      else for (const { key, value } of child.children) named.push([nameOf(key), this.#around.compile(value)]);
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
  // The grammar writes the name of an argument as a literal.
  return String((key as Literal).value);
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
  return fault(`${aKindOf(plain(value))} cannot be called`);
}
