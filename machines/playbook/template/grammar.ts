/**
 * The statements of language 8.1 and the entry to parsing. `if`, bodies and output are nunjucks' own; `for`, `set`, `with`
 * and `filter` are ours, because nunjucks knows no `for … if`, no unpacking, no namespaces and no `with`.
 */
import nodes, {
  type Assign,
  type Body,
  type Capture,
  type Expression,
  type For,
  type If,
  type Name,
  type Output,
  type Statement,
  type With,
} from 'nunjucks/src/nodes.js';
import { CONSTANTS, ExpressionParser, KEYWORDS } from './expression-grammar.ts';
import { TOKEN, Tokens } from './tokens.ts';

const FORBIDDEN: ReadonlySet<string> = new Set([
  'include',
  'import',
  'from',
  'extends',
  'block',
  'macro',
  'call',
  'do',
]);

const ForNode = nodes.Node.extend<For, [Expression, Expression, Expression | null, Body, Body | null]>('For', {
  fields: ['name', 'arr', 'cond', 'body', 'else_'],
});
const AssignNode = nodes.Node.extend<Assign, [readonly Expression[], Expression]>('Set', {
  fields: ['targets', 'value'],
});
const WithNode = nodes.Node.extend<With, [readonly Name[], readonly Expression[], Body]>('With', {
  fields: ['names', 'values', 'body'],
});

/** The tree of a template; throws TemplateSyntaxError. */
export function parseTemplate(source: string): { readonly root: Body; readonly tokens: Tokens } {
  const tokens = new Tokens(source);
  return { root: new JinjaParser(tokens).parseAsRoot(), tokens };
}

class JinjaParser extends ExpressionParser {
  override parseStatement(): Statement | null {
    const token = this.peekToken();
    if (token?.type !== TOKEN.name) this.refuse('a tag needs a name');
    if (this.breakOnBlocks?.includes(token.value)) return null;
    return this.nested(() => this.#statement(token.value));
  }

  #statement(tag: string): Statement {
    if (tag === 'if') return this.parseIf();
    if (tag === 'for') return this.#for();
    if (tag === 'set') return this.#set();
    if (tag === 'with') return this.#with();
    if (tag === 'filter') return this.#filterBlock();
    return this.refuse(FORBIDDEN.has(tag) ? `'${tag}' is not supported` : `unknown tag '${tag}'`);
  }

  /** Every `elif` is parsed inside the one before it. */
  override parseIf(): If {
    return this.nested(() => super.parseIf());
  }

  #for(): For {
    const at = this.keyword('for');
    const target = this.oneOf(this.#targets(), at);
    this.keyword('in');
    const collection = this.listed(() => this.parseOr());
    const condition = this.skipSymbol('if') ? this.parseExpression() : null;
    if (this.at(TOKEN.name, 'recursive')) this.refuse("'recursive' is not supported");
    this.advanceAfterBlockEnd('for');
    const body = this.parseUntilBlocks('endfor', 'else');
    let otherwise: Body | null = null;
    if (this.skipSymbol('else')) {
      this.advanceAfterBlockEnd('else');
      otherwise = this.parseUntilBlocks('endfor');
    }
    this.advanceAfterBlockEnd();
    return new ForNode(0, at, target, collection, condition, body, otherwise);
  }

  #set(): Assign {
    const at = this.keyword('set');
    const targets = this.#targets();
    if (this.skipValue(TOKEN.operator, '=')) {
      const value = this.listed(() => this.parseExpression());
      this.advanceAfterBlockEnd('set');
      return new AssignNode(0, at, targets, value);
    }
    if (targets.length > 1) this.refuse("'set' needs a value");
    const capture = new nodes.Capture(0, at);
    const value = this.parseFilter(capture);
    this.#capture('set', capture);
    return new AssignNode(0, at, targets, value);
  }

  #filterBlock(): Output {
    const at = this.keyword('filter');
    const capture = new nodes.Capture(0, at);
    const value = this.parseFilter(this.filter(capture));
    this.#capture('filter', capture);
    return new nodes.Output(0, at, [value]);
  }

  #capture(tag: string, capture: Capture): void {
    this.advanceAfterBlockEnd(tag);
    capture.body = this.parseUntilBlocks(`end${tag}`);
    this.advanceAfterBlockEnd();
  }

  #with(): With {
    const at = this.keyword('with');
    const names: Name[] = [];
    const values: Expression[] = [];
    while (this.peekToken()?.type === TOKEN.name) {
      names.push(this.#name());
      this.expect(TOKEN.operator, '=');
      values.push(this.parseExpression());
      if (!this.skip(TOKEN.comma)) break;
    }
    this.advanceAfterBlockEnd('with');
    const body = this.parseUntilBlocks('endwith');
    this.advanceAfterBlockEnd();
    return new WithNode(0, at, names, values, body);
  }

  /** Names to bind: `a`, `a, b`, `(a, (b, c))`, and `space.a` in a `set`. */
  #targets(): Expression[] {
    const targets = [this.#target()];
    while (this.skip(TOKEN.comma)) targets.push(this.#target());
    return targets;
  }

  #target(): Expression {
    const at = this.offset();
    if (this.skip(TOKEN.openParen)) {
      const inner = this.nested(() => this.#targets());
      this.expect(TOKEN.closeParen);
      return this.oneOf(inner, at);
    }
    const name = this.#name();
    if (!this.skipValue(TOKEN.operator, '.')) return name;
    const member = this.expect(TOKEN.name);
    return new nodes.LookupVal(0, at, name, new nodes.Literal(0, member.colno, member.value));
  }

  #name(): Name {
    const token = this.expect(TOKEN.name);
    if (CONSTANTS.has(token.value) || KEYWORDS.has(token.value)) {
      this.refuse(`cannot assign to '${token.value}'`, token.colno);
    }
    return new nodes.Symbol(0, token.colno, token.value);
  }
}
