/** Statements to closures that write into the run. Each tag remembers its place, so an error can quote it. */
import type {
  Assign,
  Body,
  Expression,
  For,
  If,
  Literal,
  LookupVal,
  Output,
  Statement,
  With,
} from 'nunjucks/src/nodes.js';
import { known } from '../../known.ts';
import { fault } from './errors.ts';
import { type Evaluate, Expressions } from './expressions.ts';
import { LoopState, Namespace } from './functions.ts';
import { Names } from './names.ts';
import { print } from './printing.ts';
import { type Run, UNSET } from './run.ts';
import type { Tokens } from './tokens.ts';
import { elementsOf, truthy } from './values.ts';

export type Execute = (run: Run) => void;
type Bind = (run: Run, value: unknown) => void;

export class Statements {
  readonly names = new Names();
  readonly expressions: Expressions;

  constructor(tokens: Tokens) {
    this.expressions = new Expressions(this.names, tokens, (body) => this.#capture(body));
  }

  body(node: Body): Execute {
    const parts = node.children.map((child) => this.#statement(child));
    const only = parts[0];
    if (parts.length === 1 && only !== undefined) return only;
    return (run) => {
      for (const part of parts) part(run);
    };
  }

  #statement(node: Statement): Execute {
    switch (node.typename) {
      case 'Output':
        return this.#output(node);
      case 'If':
        return this.#if(node);
      case 'For':
        return this.#for(node);
      case 'Set':
        return this.#set(node);
      case 'With':
        return this.#with(node);
    }
  }

  #output(node: Output): Execute {
    const at = node.colno;
    // The grammar makes an output of each text and of each expression.
    const child = known(node.children[0]);
    if (child.typename === 'TemplateData') {
      const text = String(child.value);
      return (run) => run.write(text);
    }
    const evaluate = this.expressions.compile(child);
    return (run) => {
      run.at = at;
      const value = evaluate(run);
      if (run.strict && value === undefined) fault('an undefined value is printed');
      run.write(print(run, value));
    };
  }

  #if(node: If): Execute {
    const at = node.colno;
    const condition = this.expressions.compile(node.cond);
    const body = this.names.branch(() => this.body(node.body));
    const { else_ } = node;
    const otherwise =
      else_ === null
        ? () => {}
        : this.names.branch(() => (else_.typename === 'If' ? this.#if(else_) : this.body(else_)));
    return (run) => {
      run.at = at;
      if (truthy(condition(run))) body(run);
      else otherwise(run);
    };
  }

  #for(node: For): Execute {
    const at = node.colno;
    const collection = this.expressions.compile(node.arr);
    const { result, unset } = this.names.frame(() => {
      const bind = this.#target(node.name);
      const condition = node.cond === null ? null : this.expressions.compile(node.cond);
      const loop = this.names.declare('loop');
      return { bind, condition, loop, body: this.body(node.body) };
    });
    const { bind, condition, loop, body } = result;
    const otherwise = node.else_ === null ? () => {} : this.#inFrame(node.else_);
    return (run) => {
      run.at = at;
      const value = collection(run);
      if (run.strict && value === undefined) fault('an undefined value is iterated');
      const all = elementsOf(run, value);
      const elements = condition === null ? all : all.filter((element) => admits(run, bind, condition, element));
      if (elements.length === 0) return otherwise(run);
      const state = new LoopState(elements);
      run.slots[loop] = state;
      for (let index = 0; index < elements.length; index += 1) {
        run.step();
        for (const slot of unset) run.slots[slot] = UNSET;
        state.index = index;
        bind(run, elements[index]);
        body(run);
      }
    };
  }

  #set(node: Assign): Execute {
    const at = node.colno;
    const value = this.expressions.compile(node.value);
    const targets = node.targets.map((target) => this.#target(target));
    const only = targets[0];
    const bind = targets.length === 1 && only !== undefined ? only : unpacking(targets);
    return (run) => {
      run.at = at;
      run.step();
      bind(run, value(run));
    };
  }

  #with(node: With): Execute {
    const at = node.colno;
    const values = node.values.map((value) => this.expressions.compile(value));
    const { result, unset } = this.names.frame(() => ({
      slots: node.names.map((name) => this.names.declare(name.value)),
      body: this.body(node.body),
    }));
    const { slots, body } = result;
    return (run) => {
      run.at = at;
      for (const slot of unset) run.slots[slot] = UNSET;
      const found = values.map((value) => value(run));
      for (const [index, slot] of slots.entries()) run.slots[slot] = found[index];
      body(run);
    };
  }

  #capture(node: Body): Evaluate {
    const body = this.#inFrame(node);
    return (run) => {
      const outer = run.out;
      run.out = '';
      run.captures += 1;
      body(run);
      run.captures -= 1;
      const text = run.out;
      run.out = outer;
      return text;
    };
  }

  #inFrame(node: Body): Execute {
    const { result, unset } = this.names.frame(() => this.body(node));
    return (run) => {
      for (const slot of unset) run.slots[slot] = UNSET;
      result(run);
    };
  }

  #target(node: Expression): Bind {
    if (node.typename === 'Symbol') {
      const slot = this.names.declare(node.value);
      return (run, value) => {
        run.slots[slot] = value;
      };
    }
    if (node.typename === 'Group') return unpacking(node.children.map((child) => this.#target(child)));
    // The grammar admits names, groups of them, and members of a name.
    const { target: owner, val } = node as LookupVal & { readonly val: Literal };
    const space = this.expressions.compile(owner);
    const key = String(val.value);
    return (run, value) => {
      const target = space(run);
      if (!(target instanceof Namespace)) fault('only a namespace has members that can be set');
      target.assign(key, value);
    };
  }
}

function admits(run: Run, bind: Bind, condition: Evaluate, element: unknown): boolean {
  run.step();
  bind(run, element);
  return truthy(condition(run));
}

function unpacking(targets: readonly Bind[]): Bind {
  return (run, value) => {
    const parts = elementsOf(run, value);
    if (parts.length !== targets.length) fault(`expected ${targets.length} values to unpack, got ${parts.length}`);
    for (const [index, bind] of targets.entries()) bind(run, parts[index]);
  };
}
