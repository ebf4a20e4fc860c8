/**
 * The part of nunjucks we use: its tree and the statement half of its parser. @types/nunjucks covers only the
 * rendering API. `colno` is the offset in the source, because our token source (tokens.ts) counts nothing else.
 */
declare module 'nunjucks/src/nodes.js' {
  export interface Literal {
    readonly typename: 'Literal' | 'TemplateData';
    readonly colno: number;
    readonly value: string | number | boolean | null;
  }
  export interface Name {
    readonly typename: 'Symbol';
    readonly colno: number;
    readonly value: string;
  }
  export interface Sequence {
    /** `Group` is a tuple; brackets round one expression leave no node. */
    readonly typename: 'Array' | 'Group';
    readonly colno: number;
    readonly children: readonly Expression[];
  }
  export interface Pair {
    readonly typename: 'Pair';
    readonly colno: number;
    readonly key: Expression;
    readonly value: Expression;
  }
  export interface Dict {
    readonly typename: 'Dict';
    readonly colno: number;
    readonly children: readonly Pair[];
  }
  export interface KeywordArgs {
    readonly typename: 'KeywordArgs';
    readonly colno: number;
    readonly children: readonly Pair[];
  }
  export interface LookupVal {
    readonly typename: 'LookupVal';
    readonly colno: number;
    readonly target: Expression;
    readonly val: Expression | Slice;
  }
  export interface Slice {
    readonly typename: 'Slice';
    readonly colno: number;
    readonly start: Expression | null;
    readonly stop: Expression | null;
    readonly step: Expression | null;
  }
  export interface Arguments {
    readonly typename: 'NodeList';
    readonly children: readonly (Expression | KeywordArgs)[];
  }
  export interface FunCall {
    readonly typename: 'FunCall';
    readonly colno: number;
    readonly name: Expression;
    readonly args: Arguments;
  }
  export interface Filter {
    readonly typename: 'Filter';
    readonly colno: number;
    readonly name: Name;
    /** The subject first, then the arguments. */
    readonly args: Arguments;
  }
  export interface Is {
    readonly typename: 'Is';
    readonly colno: number;
    readonly left: Expression;
    readonly right: FunCall;
  }
  export interface Binary {
    readonly typename: 'Or' | 'And' | 'Add' | 'Concat' | 'Sub' | 'Mul' | 'Div' | 'FloorDiv' | 'Mod' | 'Pow';
    readonly colno: number;
    readonly left: Expression;
    readonly right: Expression;
  }
  export interface Unary {
    readonly typename: 'Not' | 'Neg' | 'Pos';
    readonly colno: number;
    readonly target: Expression;
  }
  export interface Compare {
    readonly typename: 'Compare';
    readonly colno: number;
    readonly expr: Expression;
    readonly ops: readonly CompareOperand[];
  }
  export interface CompareOperand {
    readonly typename: 'CompareOperand';
    readonly colno: number;
    readonly expr: Expression;
    readonly type: string;
  }
  export interface InlineIf {
    readonly typename: 'InlineIf';
    readonly colno: number;
    readonly cond: Expression;
    readonly body: Expression;
    readonly else_: Expression | null;
  }
  export interface Capture {
    readonly typename: 'Capture';
    readonly colno: number;
    /** Parsed after the filters that stand before it. */
    body: Body | null;
  }
  export type Expression =
    | Literal
    | Name
    | Sequence
    | Dict
    | LookupVal
    | FunCall
    | Filter
    | Is
    | Binary
    | Unary
    | Compare
    | InlineIf
    | Capture;

  export interface Output {
    readonly typename: 'Output';
    readonly colno: number;
    readonly children: readonly Expression[];
  }
  export interface If {
    readonly typename: 'If';
    readonly colno: number;
    readonly cond: Expression;
    readonly body: Body;
    readonly else_: If | Body | null;
  }
  export interface For {
    readonly typename: 'For';
    readonly colno: number;
    readonly name: Expression;
    readonly arr: Expression;
    readonly cond: Expression | null;
    readonly body: Body;
    readonly else_: Body | null;
  }
  export interface Assign {
    readonly typename: 'Set';
    readonly colno: number;
    /** One, two or more targets unpack. */
    readonly targets: readonly Expression[];
    readonly value: Expression;
  }
  export interface With {
    readonly typename: 'With';
    readonly colno: number;
    readonly names: readonly Name[];
    readonly values: readonly Expression[];
    readonly body: Body;
  }
  export type Statement = Output | If | For | Assign | With;
  export interface Body {
    readonly typename: 'NodeList' | 'Root';
    readonly children: readonly Statement[];
  }

  interface NodeClass<Node, Fields extends readonly unknown[]> {
    new (lineno: number, colno: number, ...fields: Fields): Node;
  }
  type BinaryClass = NodeClass<Binary, [left: Expression, right: Expression]>;
  type UnaryClass = NodeClass<Unary, [target: Expression]>;
  const nodes: {
    readonly Node: {
      extend<Node, Fields extends readonly unknown[]>(
        name: string,
        spec: { fields: string[] },
      ): NodeClass<Node, Fields>;
    };
    readonly Literal: NodeClass<Literal, [value: string | number | boolean | null]>;
    readonly Symbol: NodeClass<Name, [value: string]>;
    readonly Array: NodeClass<Sequence, [children: readonly Expression[]]>;
    readonly Group: NodeClass<Sequence, [children: readonly Expression[]]>;
    readonly Dict: NodeClass<Dict, [children: readonly Pair[]]>;
    readonly Pair: NodeClass<Pair, [key: Expression, value: Expression]>;
    readonly KeywordArgs: NodeClass<KeywordArgs, [children: readonly Pair[]]>;
    readonly NodeList: NodeClass<Arguments, [children: readonly (Expression | KeywordArgs)[]]>;
    readonly LookupVal: NodeClass<LookupVal, [target: Expression, val: Expression | Slice]>;
    readonly FunCall: NodeClass<FunCall, [name: Expression, args: Arguments]>;
    readonly Filter: NodeClass<Filter, [name: Name, args: Arguments]>;
    readonly Is: NodeClass<Is, [left: Expression, right: FunCall]>;
    readonly Compare: NodeClass<Compare, [expr: Expression, ops: readonly CompareOperand[]]>;
    readonly CompareOperand: NodeClass<CompareOperand, [expr: Expression, type: string]>;
    readonly InlineIf: NodeClass<InlineIf, [cond: Expression, body: Expression, else_: Expression | null]>;
    readonly Capture: NodeClass<Capture, []>;
    readonly Output: NodeClass<Output, [children: readonly Expression[]]>;
    readonly Add: BinaryClass;
    readonly Concat: BinaryClass;
    readonly Sub: BinaryClass;
    readonly Mul: BinaryClass;
    readonly Div: BinaryClass;
    readonly FloorDiv: BinaryClass;
    readonly Mod: BinaryClass;
    readonly Pow: BinaryClass;
    readonly Not: UnaryClass;
    readonly Neg: UnaryClass;
    readonly Pos: UnaryClass;
  };
  export default nodes;
}

declare module 'nunjucks/src/parser.js' {
  import type { Arguments, Body, Expression, If, Statement } from 'nunjucks/src/nodes.js';

  export interface Token {
    readonly type: string;
    readonly value: string;
    readonly lineno: number;
    readonly colno: number;
  }
  export interface TokenSource {
    /** The next token, or null at the end. */
    nextToken(): Token | null;
    /** nunjucks reads the lengths of two of these. */
    readonly tags: {
      readonly VARIABLE_START: string;
      readonly VARIABLE_END: string;
      readonly COMMENT_START: string;
      readonly COMMENT_END: string;
    };
  }
  class Parser {
    constructor(tokens: TokenSource);
    readonly tokens: TokenSource;
    nextToken(): Token | null;
    peekToken(): Token | null;
    skip(type: string): boolean;
    skipValue(type: string, value: string): boolean;
    skipSymbol(value: string): boolean;
    error(message: string, lineno?: number, colno?: number): Error;
    advanceAfterBlockEnd(name?: string): Token;
    parseUntilBlocks(...names: string[]): Body;
    parseAsRoot(): Body;
    parseStatement(): Statement | null;
    parseIf(): If;
    parseExpression(): Expression;
    parseInlineIf(): Expression;
    parseOr(): Expression;
    parseAnd(): Expression;
    parseNot(): Expression;
    parseIn(): Expression;
    parseUnary(): Expression;
    parsePrimary(): Expression;
    parsePostfix(node: Expression): Expression;
    parseFilter(node: Expression): Expression;
    parseSignature(): Arguments;
    readonly breakOnBlocks: readonly string[] | null;
  }
  const parser: { readonly Parser: typeof Parser };
  export default parser;
}
