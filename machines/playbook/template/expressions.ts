/**
 * nunjucks' expression tree to closures. A closure takes the run and returns a value, JSON or a Facade; it costs at
 * least one step. Facades stay Facades through names, members, conditions, `and`, `or` and `default`, and are turned
 * into plain JSON by everything else, inside lists and maps too, so that no JSON value ever has a Facade within.
 */

import type { Binary, Body, Compare, Dict, Expression, InlineIf, LookupVal, Sequence } from 'nunjucks/src/nodes.js';
import { present } from '../../known.ts';
import { Calls } from './calls.ts';
import { keyText } from './functions.ts';
import type { Names } from './names.ts';
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
import type { Tokens } from './tokens.ts';
import { data, member, plain, put, truthy } from './values.ts';

export type Evaluate = (run: Run) => unknown;

/** Height of the tree: chains such as `a + b + …` nest in it although they do not in the text. */
const HEIGHT_MAX = 1_000;

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
  readonly #calls: Calls;
  #height = 0;

  /** `capture` compiles the body of a block `set` or a `filter` block to a closure that returns its text. */
  constructor(names: Names, tokens: Tokens, capture: (body: Body) => Evaluate) {
    this.#names = names;
    this.#tokens = tokens;
    this.#capture = capture;
    this.#calls = new Calls({
      tokens,
      compile: (node) => this.compile(node),
      operand: (node, operator) => this.#operand(node, operator),
      isVariable: (name) => names.isVariable(name),
    });
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
        return this.#calls.call(node);
      case 'Filter':
        return this.#calls.filter(node);
      case 'Is':
        return this.#calls.test(node);
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
        return this.#capture(present(node.body));
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
      // A name that is not free has a slot that is always set.
      return data(run.scope.lookup(name));
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
