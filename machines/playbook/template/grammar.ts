/**
 * Jinja2's grammar on top of nunjucks' parser. Statements and the tree are nunjucks'; expressions are ours, because
 * nunjucks' precedence is not Jinja2's (`6 * 3 // 2`, `a + b ~ c`, `-x | abs`) and it lacks slices, test arguments,
 * tuples and namespaces. The names of filters and tests are checked here, so an unknown one is refused at registration.
 */
import nodes, {
  type Arguments,
  type Assign,
  type Body,
  type Capture,
  type CompareOperand,
  type Expression,
  type For,
  type FunCall,
  type If,
  type KeywordArgs,
  type Name,
  type Output,
  type Pair,
  type Slice,
  type Statement,
  type With,
} from 'nunjucks/src/nodes.js';
import nunjucks, { type Token } from 'nunjucks/src/parser.js';
import { FILTERS } from './filters.ts';
import { TESTS } from './tests.ts';
import { TOKEN, Tokens } from './tokens.ts';

/** Nesting of brackets, conditions and statements in the text (language 8.12.3). */
const DEPTH_MAX = 100;

const COMPARISONS: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=']);
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
const KEYWORDS: ReadonlySet<string> = new Set(['and', 'or', 'not', 'in', 'is', 'if', 'else']);
const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);
/** Binary operators, loosest level first; all of them group to the left, `**` too, as in Jinja2. */
const LEVELS = [
  new Map([
    ['+', nodes.Add],
    ['-', nodes.Sub],
  ]),
  new Map([['~', nodes.Concat]]),
  new Map([
    ['*', nodes.Mul],
    ['/', nodes.Div],
    ['//', nodes.FloorDiv],
    ['%', nodes.Mod],
  ]),
  new Map([['**', nodes.Pow]]),
] as const;

const SliceNode = nodes.Node.extend<Slice, [Expression | null, Expression | null, Expression | null]>('Slice', {
  fields: ['start', 'stop', 'step'],
});
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

/** nunjucks names its own functions and tokens in messages; authors of playbooks know neither. */
function inOurWords(message: string): string {
  return message
    .replace(/^parse\w+: /, '')
    .replace(/^expected variable end$/, "expected '}}'")
    .replace(/^expected block end in (\w+) statement$/, "expected '%}' to end the '$1' tag")
    .replace(/end of file$/, 'end');
}

class JinjaParser extends nunjucks.Parser {
  readonly #tokens: Tokens;
  #depth = 0;

  constructor(tokens: Tokens) {
    super(tokens);
    this.#tokens = tokens;
  }

  /** nunjucks throws what this returns; every refusal of its statement half comes through here. */
  override error(message: string, _line?: number, offset?: number): Error {
    return this.#tokens.refusal(inOurWords(message), offset ?? this.#offset());
  }

  override parseStatement(): Statement | null {
    const token = this.peekToken();
    if (token?.type !== TOKEN.name) this.#refuse('a tag needs a name');
    if (this.breakOnBlocks?.includes(token.value)) return null;
    return this.#nested(() => this.#statement(token.value));
  }

  #statement(tag: string): Statement {
    if (tag === 'if') return this.parseIf();
    if (tag === 'for') return this.#for();
    if (tag === 'set') return this.#set();
    if (tag === 'with') return this.#with();
    if (tag === 'filter') return this.#filterBlock();
    return this.#refuse(FORBIDDEN.has(tag) ? `'${tag}' is not supported` : `unknown tag '${tag}'`);
  }

  /** Every `elif` is parsed inside the one before it. */
  override parseIf(): If {
    return this.#nested(() => super.parseIf());
  }

  #for(): For {
    const at = this.#keyword('for');
    const target = this.#oneOf(this.#targets(), at);
    this.#keyword('in');
    const collection = this.#listed(() => this.parseOr());
    const condition = this.skipSymbol('if') ? this.parseExpression() : null;
    if (this.#at(TOKEN.name, 'recursive')) this.#refuse("'recursive' is not supported");
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
    const at = this.#keyword('set');
    const targets = this.#targets();
    if (this.skipValue(TOKEN.operator, '=')) {
      const value = this.#listed(() => this.parseExpression());
      this.advanceAfterBlockEnd('set');
      return new AssignNode(0, at, targets, value);
    }
    if (targets.length > 1) this.#refuse("'set' needs a value");
    const capture = new nodes.Capture(0, at);
    const value = this.parseFilter(capture);
    this.#capture('set', capture);
    return new AssignNode(0, at, targets, value);
  }

  #filterBlock(): Output {
    const at = this.#keyword('filter');
    const capture = new nodes.Capture(0, at);
    const value = this.parseFilter(this.#filter(capture));
    this.#capture('filter', capture);
    return new nodes.Output(0, at, [value]);
  }

  #capture(tag: string, capture: Capture): void {
    this.advanceAfterBlockEnd(tag);
    capture.body = this.parseUntilBlocks(`end${tag}`);
    this.advanceAfterBlockEnd();
  }

  #with(): With {
    const at = this.#keyword('with');
    const names: Name[] = [];
    const values: Expression[] = [];
    while (this.peekToken()?.type === TOKEN.name) {
      names.push(this.#name());
      this.#expect(TOKEN.operator, '=');
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
    const at = this.#offset();
    if (this.skip(TOKEN.openParen)) {
      const inner = this.#nested(() => this.#targets());
      this.#expect(TOKEN.closeParen);
      return this.#oneOf(inner, at);
    }
    const name = this.#name();
    if (!this.skipValue(TOKEN.operator, '.')) return name;
    const member = this.#expect(TOKEN.name);
    return new nodes.LookupVal(0, at, name, new nodes.Literal(0, member.colno, member.value));
  }

  #name(): Name {
    const token = this.#expect(TOKEN.name);
    if (CONSTANTS.has(token.value) || KEYWORDS.has(token.value)) {
      this.#refuse(`cannot assign to '${token.value}'`, token.colno);
    }
    return new nodes.Symbol(0, token.colno, token.value);
  }

  // Expressions, loosest first. `or` and `and` are nunjucks' own.

  override parseExpression(): Expression {
    return this.#nested(() => this.parseInlineIf());
  }

  override parseInlineIf(): Expression {
    let body = this.parseOr();
    while (this.#at(TOKEN.name, 'if')) {
      const at = this.#keyword('if');
      const condition = this.parseOr();
      const otherwise = this.skipSymbol('else') ? this.parseExpression() : null;
      body = new nodes.InlineIf(0, at, condition, body, otherwise);
    }
    return body;
  }

  override parseNot(): Expression {
    const at = this.#offset();
    if (!this.skipSymbol('not')) return this.parseIn();
    return new nodes.Not(
      0,
      at,
      this.#nested(() => this.parseNot()),
    );
  }

  /** Comparisons and `in` are one level and chain: `1 < x in [2, 3]`. */
  override parseIn(): Expression {
    const left = this.#math(0);
    const operands: CompareOperand[] = [];
    for (;;) {
      const token = this.peekToken();
      const operator = this.#comparison();
      if (operator === null) break;
      operands.push(new nodes.CompareOperand(0, token?.colno ?? 0, this.#math(0), operator));
    }
    return operands.length === 0 ? left : new nodes.Compare(0, left.colno, left, operands);
  }

  #comparison(): string | null {
    const token = this.peekToken();
    if (token?.type === TOKEN.operator && COMPARISONS.has(token.value)) {
      this.nextToken();
      return token.value;
    }
    if (this.skipSymbol('in')) return 'in';
    if (!this.skipSymbol('not')) return null;
    this.#keyword('in');
    return 'not in';
  }

  #math(level: number): Expression {
    const operators = LEVELS[level];
    if (operators === undefined) return this.parseUnary();
    let left = this.#math(level + 1);
    for (;;) {
      const token = this.peekToken();
      const symbolic = token?.type === TOKEN.operator || token?.type === TOKEN.tilde;
      const node = symbolic ? operators.get(token.value) : undefined;
      if (node === undefined) return left;
      this.nextToken();
      left = new node(0, left.colno, left, this.#math(level + 1));
    }
  }

  override parseUnary(noFilters = false): Expression {
    const at = this.#offset();
    let node: Expression;
    if (this.skipValue(TOKEN.operator, '-'))
      node = new nodes.Neg(
        0,
        at,
        this.#nested(() => this.parseUnary(true)),
      );
    else if (this.skipValue(TOKEN.operator, '+'))
      node = new nodes.Pos(
        0,
        at,
        this.#nested(() => this.parseUnary(true)),
      );
    else node = this.parsePrimary();
    node = this.parsePostfix(node);
    return noFilters ? node : this.#filtersAndTests(node);
  }

  override parsePrimary(): Expression {
    const token = this.nextToken();
    if (token === null) return this.#refuse('unexpected end');
    switch (token.type) {
      case TOKEN.string: {
        let text = token.value;
        for (let next = this.peekToken(); next?.type === TOKEN.string; next = this.peekToken()) {
          text += next.value;
          this.nextToken();
        }
        return new nodes.Literal(0, token.colno, text);
      }
      case TOKEN.int:
      case TOKEN.float:
        return new nodes.Literal(0, token.colno, Number(token.value));
      case TOKEN.name: {
        if (KEYWORDS.has(token.value)) break;
        const constant = CONSTANTS.get(token.value);
        if (constant !== undefined) return new nodes.Literal(0, token.colno, constant);
        return new nodes.Symbol(0, token.colno, token.value);
      }
      case TOKEN.openParen:
        return this.#parenthesis(token.colno);
      case TOKEN.openBracket:
        return new nodes.Array(
          0,
          token.colno,
          this.#until(TOKEN.closeBracket, () => this.parseExpression()),
        );
      case TOKEN.openBrace:
        return new nodes.Dict(
          0,
          token.colno,
          this.#until(TOKEN.closeBrace, () => this.#pair()),
        );
      default:
    }
    return this.#refuse('expected an expression', token.colno);
  }

  #parenthesis(at: number): Expression {
    if (this.skip(TOKEN.closeParen)) return new nodes.Group(0, at, []);
    const inner = this.#listed(() => this.parseExpression());
    this.#expect(TOKEN.closeParen);
    return inner;
  }

  #pair(): Pair {
    const key = this.parseExpression();
    this.#expect(TOKEN.colon);
    return new nodes.Pair(0, key.colno, key, this.parseExpression());
  }

  override parsePostfix(node: Expression): Expression {
    let target = node;
    for (;;) {
      const at = this.#offset();
      if (this.skipValue(TOKEN.operator, '.')) target = new nodes.LookupVal(0, at, target, this.#member());
      else if (this.skip(TOKEN.openBracket)) target = new nodes.LookupVal(0, at, target, this.#subscript(at));
      else if (this.#at(TOKEN.openParen)) target = new nodes.FunCall(0, at, target, this.parseSignature());
      else return target;
    }
  }

  #member(): Expression {
    const token = this.nextToken();
    if (token?.type === TOKEN.int) return new nodes.Literal(0, token.colno, Number(token.value));
    if (token?.type !== TOKEN.name) return this.#refuse("expected a name after '.'", token?.colno);
    return new nodes.Literal(0, token.colno, token.value);
  }

  #subscript(at: number): Expression | Slice {
    const parts: (Expression | null)[] = [];
    let isSlice = false;
    for (;;) {
      const empty = this.#at(TOKEN.colon) || this.#at(TOKEN.closeBracket);
      parts.push(empty ? null : this.parseExpression());
      if (!this.skip(TOKEN.colon)) break;
      isSlice = true;
    }
    this.#expect(TOKEN.closeBracket);
    const [start = null, stop = null, step = null] = parts;
    if (isSlice && parts.length <= 3) return new SliceNode(0, at, start, stop, step);
    return start !== null && !isSlice ? start : this.#refuse('index is not valid', at);
  }

  override parseFilter(node: Expression): Expression {
    let subject = node;
    while (this.skip(TOKEN.pipe)) subject = this.#filter(subject);
    return subject;
  }

  #filter(subject: Expression): Expression {
    const token = this.#expect(TOKEN.name);
    if (!FILTERS.has(token.value)) this.#refuse(`unknown filter '${token.value}'`, token.colno);
    const args = this.#at(TOKEN.openParen) ? this.parseSignature().children : [];
    const name = new nodes.Symbol(0, token.colno, token.value);
    return new nodes.Filter(0, token.colno, name, new nodes.NodeList(0, token.colno, [subject, ...args]));
  }

  #filtersAndTests(node: Expression): Expression {
    let subject = node;
    for (;;) {
      const at = this.#offset();
      if (this.skip(TOKEN.pipe)) subject = this.#filter(subject);
      else if (this.skipSymbol('is')) subject = this.#test(subject);
      else if (this.#at(TOKEN.openParen)) subject = new nodes.FunCall(0, at, subject, this.parseSignature());
      else return subject;
    }
  }

  /** `x is even`, `x is not divisibleby 3`, `x is in [1, 2]`, `x is eq(3)`. */
  #test(subject: Expression): Expression {
    const at = this.#offset();
    const negated = this.skipSymbol('not');
    const token = this.#expect(TOKEN.name);
    const test = TESTS.get(token.value);
    if (test === undefined) return this.#refuse(`unknown test '${token.value}'`, token.colno);
    let args: Arguments = new nodes.NodeList(0, token.colno, []);
    if (this.#at(TOKEN.openParen)) args = this.parseSignature();
    else if (test.arguments > 0) {
      args = new nodes.NodeList(0, token.colno, [this.parsePostfix(this.#nested(() => this.parsePrimary()))]);
    }
    const call: FunCall = new nodes.FunCall(0, token.colno, new nodes.Symbol(0, token.colno, token.value), args);
    const node = new nodes.Is(0, at, subject, call);
    return negated ? new nodes.Not(0, at, node) : node;
  }

  /** Call arguments: positional ones first, then `name=value`; the latter become one KeywordArgs at the end. */
  override parseSignature(): Arguments {
    const at = this.#offset();
    this.#expect(TOKEN.openParen);
    const named: Pair[] = [];
    const args: (Expression | KeywordArgs)[] = [];
    this.#until(TOKEN.closeParen, () => {
      const value = this.parseExpression();
      if (this.skipValue(TOKEN.operator, '=')) {
        if (value.typename !== 'Symbol') this.#refuse('argument name is not valid', value.colno);
        if (named.some((pair) => pair.key.typename === 'Literal' && pair.key.value === value.value)) {
          this.#refuse(`argument '${value.value}' is given twice`, value.colno);
        }
        named.push(
          new nodes.Pair(0, value.colno, new nodes.Literal(0, value.colno, value.value), this.parseExpression()),
        );
        return;
      }
      if (named.length > 0) this.#refuse('positional argument after a named one', value.colno);
      args.push(value);
    });
    if (named.length > 0) args.push(new nodes.KeywordArgs(0, at, named));
    return new nodes.NodeList(0, at, args);
  }

  // Small steps shared by the rules above.

  /** `a` stays itself, `a, b` and `a,` are a tuple. */
  #listed(part: () => Expression): Expression {
    const at = this.#offset();
    const parts = [part()];
    let commas = 0;
    while (this.skip(TOKEN.comma)) {
      commas += 1;
      const next = this.peekToken()?.type;
      if (next === TOKEN.blockEnd || next === TOKEN.closeParen) break;
      parts.push(part());
    }
    return commas === 0 ? this.#oneOf(parts, at) : new nodes.Group(0, at, parts);
  }

  #oneOf(parts: readonly Expression[], at: number): Expression {
    const only = parts[0];
    return parts.length === 1 && only !== undefined ? only : new nodes.Group(0, at, parts);
  }

  /** Elements separated by commas, a trailing comma allowed, up to and including the closing token. */
  #until<Element>(closing: string, element: () => Element): Element[] {
    const elements: Element[] = [];
    while (!this.skip(closing)) {
      if (elements.length > 0) {
        this.#expect(TOKEN.comma);
        if (this.skip(closing)) break;
      }
      elements.push(element());
    }
    return elements;
  }

  #at(type: string, value?: string): boolean {
    const token = this.peekToken();
    return token?.type === type && (value === undefined || token.value === value);
  }

  #expect(type: string, value?: string): Token {
    const token = this.nextToken();
    if (token === null) return this.#refuse('unexpected end');
    if (token.type === type && (value === undefined || token.value === value)) return token;
    return this.#refuse(`expected ${value === undefined ? type : `'${value}'`}, got '${token.value}'`, token.colno);
  }

  #keyword(word: string): number {
    return this.#expect(TOKEN.name, word).colno;
  }

  #offset(): number {
    return this.peekToken()?.colno ?? this.#tokens.source.length;
  }

  #refuse(reason: string, offset = this.#offset()): never {
    throw this.#tokens.refusal(reason, offset);
  }

  #nested<Node>(parse: () => Node): Node {
    this.#depth += 1;
    if (this.#depth > DEPTH_MAX) this.#refuse(`nested deeper than ${DEPTH_MAX}`);
    const node = parse();
    this.#depth -= 1;
    return node;
  }
}
