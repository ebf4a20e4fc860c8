/**
 * Jinja2's expressions on top of nunjucks' parser: its precedence is not Jinja2's (`6 * 3 // 2`, `a + b ~ c`, `-x | abs`)
 * and it lacks slices, test arguments and tuples. `or`, `and` and the handling of tokens are nunjucks' own. Names of
 * filters and tests are checked here, so an unknown one is refused at registration.
 */
import nodes, {
  type Arguments,
  type CompareOperand,
  type Expression,
  type FunCall,
  type KeywordArgs,
  type Pair,
  type Slice,
} from 'nunjucks/src/nodes.js';
import nunjucks, { type Token } from 'nunjucks/src/parser.js';
import { present } from '../../known.ts';
import { FILTERS } from './filters.ts';
import { TESTS } from './tests.ts';
import { TOKEN, type Tokens } from './tokens.ts';

/** Nesting of brackets, conditions and statements in the text (language 8.12.3). */
const DEPTH_MAX = 100;

const COMPARISONS: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=']);
export const KEYWORDS: ReadonlySet<string> = new Set(['and', 'or', 'not', 'in', 'is', 'if', 'else']);
export const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
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

/** nunjucks names its own functions and tokens in messages; authors of playbooks know neither. */
function inOurWords(message: string): string {
  return message
    .replace(/^parse\w+: /, '')
    .replace(/^expected variable end$/, "expected '}}'")
    .replace(/^expected block end in (\w+) statement$/, "expected '%}' to end the '$1' tag")
    .replace(/end of file$/, 'end');
}

export class ExpressionParser extends nunjucks.Parser {
  readonly #tokens: Tokens;
  #depth = 0;

  constructor(tokens: Tokens) {
    super(tokens);
    this.#tokens = tokens;
  }

  /** nunjucks throws what this returns; every refusal of its statement half comes through here. */
  override error(message: string, _line?: number, offset?: number): Error {
    return this.#tokens.refusal(inOurWords(message), offset ?? this.offset());
  }

  override parseExpression(): Expression {
    return this.nested(() => this.parseInlineIf());
  }

  override parseInlineIf(): Expression {
    let body = this.parseOr();
    while (this.at(TOKEN.name, 'if')) {
      const at = this.keyword('if');
      const condition = this.parseOr();
      const otherwise = this.skipSymbol('else') ? this.parseExpression() : null;
      body = new nodes.InlineIf(0, at, condition, body, otherwise);
    }
    return body;
  }

  override parseNot(): Expression {
    const at = this.offset();
    if (!this.skipSymbol('not')) return this.parseIn();
    return new nodes.Not(
      0,
      at,
      this.nested(() => this.parseNot()),
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
      operands.push(new nodes.CompareOperand(0, present(token).colno, this.#math(0), operator));
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
    this.keyword('in');
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
    const at = this.offset();
    let node: Expression;
    if (this.skipValue(TOKEN.operator, '-'))
      node = new nodes.Neg(
        0,
        at,
        this.nested(() => this.parseUnary(true)),
      );
    else if (this.skipValue(TOKEN.operator, '+'))
      node = new nodes.Pos(
        0,
        at,
        this.nested(() => this.parseUnary(true)),
      );
    else node = this.parsePrimary();
    node = this.parsePostfix(node);
    return noFilters ? node : this.#filtersAndTests(node);
  }

  override parsePrimary(): Expression {
    const token = this.nextToken();
    if (token === null) return this.refuse('unexpected end');
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
          this.until(TOKEN.closeBracket, () => this.parseExpression()),
        );
      case TOKEN.openBrace:
        return new nodes.Dict(
          0,
          token.colno,
          this.until(TOKEN.closeBrace, () => this.#pair()),
        );
      default:
    }
    return this.refuse('expected an expression', token.colno);
  }

  #parenthesis(at: number): Expression {
    if (this.skip(TOKEN.closeParen)) return new nodes.Group(0, at, []);
    const inner = this.listed(() => this.parseExpression());
    this.expect(TOKEN.closeParen);
    return inner;
  }

  #pair(): Pair {
    const key = this.parseExpression();
    this.expect(TOKEN.colon);
    return new nodes.Pair(0, key.colno, key, this.parseExpression());
  }

  override parsePostfix(node: Expression): Expression {
    let target = node;
    for (;;) {
      const at = this.offset();
      if (this.skipValue(TOKEN.operator, '.')) target = new nodes.LookupVal(0, at, target, this.#member());
      else if (this.skip(TOKEN.openBracket)) target = new nodes.LookupVal(0, at, target, this.#subscript(at));
      else if (this.at(TOKEN.openParen)) target = new nodes.FunCall(0, at, target, this.parseSignature());
      else return target;
    }
  }

  #member(): Expression {
    const token = this.nextToken();
    if (token?.type === TOKEN.int) return new nodes.Literal(0, token.colno, Number(token.value));
    if (token?.type !== TOKEN.name) return this.refuse("expected a name after '.'", token?.colno);
    return new nodes.Literal(0, token.colno, token.value);
  }

  #subscript(at: number): Expression | Slice {
    const parts: (Expression | null)[] = [];
    let isSlice = false;
    for (;;) {
      const empty = this.at(TOKEN.colon) || this.at(TOKEN.closeBracket);
      parts.push(empty ? null : this.parseExpression());
      if (!this.skip(TOKEN.colon)) break;
      isSlice = true;
    }
    this.expect(TOKEN.closeBracket);
    const [start = null, stop = null, step = null] = parts;
    if (isSlice && parts.length <= 3) return new SliceNode(0, at, start, stop, step);
    return start !== null && !isSlice ? start : this.refuse('index is not valid', at);
  }

  override parseFilter(node: Expression): Expression {
    let subject = node;
    while (this.skip(TOKEN.pipe)) subject = this.filter(subject);
    return subject;
  }

  protected filter(subject: Expression): Expression {
    const token = this.expect(TOKEN.name);
    if (!FILTERS.has(token.value)) this.refuse(`unknown filter '${token.value}'`, token.colno);
    const args = this.at(TOKEN.openParen) ? this.parseSignature().children : [];
    const name = new nodes.Symbol(0, token.colno, token.value);
    return new nodes.Filter(0, token.colno, name, new nodes.NodeList(0, token.colno, [subject, ...args]));
  }

  #filtersAndTests(node: Expression): Expression {
    let subject = node;
    for (;;) {
      const at = this.offset();
      if (this.skip(TOKEN.pipe)) subject = this.filter(subject);
      else if (this.skipSymbol('is')) subject = this.#test(subject);
      else if (this.at(TOKEN.openParen)) subject = new nodes.FunCall(0, at, subject, this.parseSignature());
      else return subject;
    }
  }

  /** `x is even`, `x is not divisibleby 3`, `x is in [1, 2]`, `x is eq(3)`. */
  #test(subject: Expression): Expression {
    const at = this.offset();
    const negated = this.skipSymbol('not');
    const token = this.expect(TOKEN.name);
    const test = TESTS.get(token.value);
    if (test === undefined) return this.refuse(`unknown test '${token.value}'`, token.colno);
    let args: Arguments = new nodes.NodeList(0, token.colno, []);
    if (this.at(TOKEN.openParen)) args = this.parseSignature();
    else if (test.arguments > 0) {
      args = new nodes.NodeList(0, token.colno, [this.parsePostfix(this.nested(() => this.parsePrimary()))]);
    }
    const call: FunCall = new nodes.FunCall(0, token.colno, new nodes.Symbol(0, token.colno, token.value), args);
    const node = new nodes.Is(0, at, subject, call);
    return negated ? new nodes.Not(0, at, node) : node;
  }

  /** Call arguments: positional ones first, then `name=value`; the latter become one KeywordArgs at the end. */
  override parseSignature(): Arguments {
    const at = this.offset();
    this.expect(TOKEN.openParen);
    const named: Pair[] = [];
    const args: (Expression | KeywordArgs)[] = [];
    this.until(TOKEN.closeParen, () => {
      const value = this.parseExpression();
      if (this.skipValue(TOKEN.operator, '=')) {
        if (value.typename !== 'Symbol') this.refuse('argument name is not valid', value.colno);
        if (named.some((pair) => pair.key.typename === 'Literal' && pair.key.value === value.value)) {
          this.refuse(`argument '${value.value}' is given twice`, value.colno);
        }
        named.push(
          new nodes.Pair(0, value.colno, new nodes.Literal(0, value.colno, value.value), this.parseExpression()),
        );
        return;
      }
      if (named.length > 0) this.refuse('positional argument after a named one', value.colno);
      args.push(value);
    });
    if (named.length > 0) args.push(new nodes.KeywordArgs(0, at, named));
    return new nodes.NodeList(0, at, args);
  }

  // Small steps shared by the rules above.

  /** `a` stays itself, `a, b` and `a,` are a tuple. */
  protected listed(part: () => Expression): Expression {
    const at = this.offset();
    const parts = [part()];
    let commas = 0;
    while (this.skip(TOKEN.comma)) {
      commas += 1;
      const next = this.peekToken()?.type;
      if (next === TOKEN.blockEnd || next === TOKEN.closeParen) break;
      parts.push(part());
    }
    return commas === 0 ? this.oneOf(parts, at) : new nodes.Group(0, at, parts);
  }

  protected oneOf(parts: readonly Expression[], at: number): Expression {
    const only = parts[0];
    return parts.length === 1 && only !== undefined ? only : new nodes.Group(0, at, parts);
  }

  /** Elements separated by commas, a trailing comma allowed, up to and including the closing token. */
  protected until<Element>(closing: string, element: () => Element): Element[] {
    const elements: Element[] = [];
    while (!this.skip(closing)) {
      if (elements.length > 0) {
        this.expect(TOKEN.comma);
        if (this.skip(closing)) break;
      }
      elements.push(element());
    }
    return elements;
  }

  protected at(type: string, value?: string): boolean {
    const token = this.peekToken();
    return token?.type === type && (value === undefined || token.value === value);
  }

  protected expect(type: string, value?: string): Token {
    const token = this.nextToken();
    if (token === null) return this.refuse('unexpected end');
    if (token.type === type && (value === undefined || token.value === value)) return token;
    return this.refuse(`expected ${value === undefined ? type : `'${value}'`}, got '${token.value}'`, token.colno);
  }

  protected keyword(word: string): number {
    return this.expect(TOKEN.name, word).colno;
  }

  protected offset(): number {
    return this.peekToken()?.colno ?? this.#tokens.source.length;
  }

  protected refuse(reason: string, offset = this.offset()): never {
    throw this.#tokens.refusal(reason, offset);
  }

  protected nested<Node>(parse: () => Node): Node {
    this.#depth += 1;
    if (this.#depth > DEPTH_MAX) this.refuse(`nested deeper than ${DEPTH_MAX}`);
    const node = parse();
    this.#depth -= 1;
    return node;
  }
}
