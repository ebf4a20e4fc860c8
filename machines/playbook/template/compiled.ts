/**
 * Strings to compiled templates and conditions: what form a string has (language 8.5), which names it asks for, and the
 * closure that evaluates it. Rendering is render.ts.
 */
import type { Expression, Output, Statement } from 'nunjucks/src/nodes.js';
import { known } from '../../known.ts';
import { excerptOf, syntaxErrorIn, TemplateSyntaxError } from './errors.ts';
import { parseTemplate } from './grammar.ts';
import { Names } from './names.ts';
import { settled } from './printing.ts';
import type { Run } from './run.ts';
import { type Execute, Statements } from './statements.ts';
import { plain } from './values.ts';

/** A compiled string. `expression` is exactly one `{{ }}`; `plain` has no tags at all. */
export interface Template {
  readonly source: string;
  readonly form: 'plain' | 'expression' | 'text';
  /** Free names, in order of appearance: what the scope may be asked for. */
  readonly roots: readonly string[];
  /** Static accesses to a member of a free name: `keychain.billing`, `event.name`. */
  readonly members: readonly string[];
}

/** A compiled `when` (language 8.8). */
export interface Condition {
  readonly source: string;
  readonly roots: readonly string[];
  readonly members: readonly string[];
}

/** What rendering needs of a template besides its interface. */
interface Parts {
  readonly slots: number;
  /** The value of an expression, the text of anything else. */
  readonly evaluate: (run: Run) => unknown;
  /** Whitespace round an expression, which only text fields keep. */
  readonly margins: readonly [before: string, after: string];
  /** The tag around an offset, for messages. */
  readonly excerpt: (offset: number) => string;
}

export class CompiledTemplate implements Template {
  readonly source: string;
  readonly form: Template['form'];
  readonly roots: readonly string[];
  readonly members: readonly string[];
  readonly parts: Parts;

  constructor(source: string, form: Template['form'], names: Names, parts: Parts) {
    this.source = source;
    this.form = form;
    this.roots = [...names.roots];
    this.members = [...names.members];
    this.parts = parts;
  }
}

export class CompiledCondition implements Condition {
  readonly source: string;
  /** A boolean for `when: true`. */
  readonly body: Template | boolean;
  readonly roots: readonly string[];
  readonly members: readonly string[];

  constructor(source: string, body: Template | boolean) {
    this.source = source;
    this.body = body;
    this.roots = typeof body === 'boolean' ? [] : body.roots;
    this.members = typeof body === 'boolean' ? [] : body.members;
  }
}

/** Throws TemplateSyntaxError, for unknown filters, tests and statements too. */
export function compileTemplate(source: string): Template {
  if (!hasTags(source)) return new CompiledTemplate(source, 'plain', new Names(), plainParts(source));
  // Jinja2 drops one newline at the end of a template.
  const { root, tokens } = parseTemplate(source.replace(/\r?\n$/, ''));
  const statements = new Statements(tokens);
  const single = onlyExpression(source, root.children);
  const evaluate = single === null ? textOf(statements.body(root)) : nativeOf(statements, single);
  return new CompiledTemplate(source, single === null ? 'text' : 'expression', statements.names, {
    slots: statements.names.slotCount,
    evaluate,
    margins: single?.margins ?? ['', ''],
    excerpt: (offset) => tokens.excerpt(offset),
  });
}

/** A condition of language 8.8: a boolean, a bare expression, or a template. Throws TemplateSyntaxError. */
export function compileCondition(source: string | boolean): Condition {
  if (typeof source === 'boolean') return new CompiledCondition(String(source), source);
  return new CompiledCondition(source, hasTags(source) ? compileTemplate(source) : compileBare(source));
}

function compileBare(source: string): Template {
  const opening = '{{ ';
  try {
    const template = compileTemplate(`${opening}${source} }}`);
    if (template.form === 'expression') return template;
  } catch (error) {
    const { reason, offset: found } = syntaxErrorIn(error);
    const offset = Math.min(Math.max(found - opening.length, 0), source.length);
    throw new TemplateSyntaxError(reason, excerptOf(source), offset);
  }
  // The braces of the source closed the tag that was put round it.
  throw new TemplateSyntaxError("unexpected '}}'", excerptOf(source), source.indexOf('}}'));
}

function hasTags(source: string): boolean {
  return source.includes('{{') || source.includes('{%');
}

function plainParts(source: string): Parts {
  return { slots: 0, evaluate: () => source, margins: ['', ''], excerpt: () => excerptOf(source) };
}

function textOf(body: Execute): (run: Run) => string {
  return (run) => {
    body(run);
    return run.finish();
  };
}

function nativeOf(statements: Statements, { node, at }: Single): (run: Run) => unknown {
  const evaluate = statements.expressions.compile(node);
  const built = !passesDataThrough(node);
  return (run) => {
    run.at = at;
    const value = plain(evaluate(run));
    return built ? settled(run, value) : value;
  };
}

interface Single {
  readonly node: Expression;
  readonly at: number;
  readonly margins: readonly [before: string, after: string];
}

/** The expression of a source that is one `{{ }}` with only whitespace around it. */
function onlyExpression(source: string, statements: readonly Statement[]): Single | null {
  const trimmed = source.trim();
  if (!trimmed.startsWith('{{') || !trimmed.endsWith('}}')) return null;
  const index = statements.findIndex((each) => textIn(each) === null);
  // The source begins with braces, so its first tag is an output.
  const tag = statements[index] as Output;
  const node = known(tag.children[0]);
  const before = statements.slice(0, index).map(textIn);
  const after = statements.slice(index + 1).map(textIn);
  if ([...before, ...after].some((text) => text === null || text.trim() !== '')) return null;
  return { node, at: tag.colno, margins: [before.join(''), after.join('')] };
}

/** The text of a piece of ordinary text; null for tags. */
function textIn(statement: Statement): string | null {
  const part = statement.typename === 'Output' ? statement.children[0] : undefined;
  return part?.typename === 'TemplateData' ? String(part.value) : null;
}

/** True when the value can only be data as it was found, which needs neither measuring nor mending. */
function passesDataThrough(node: Expression): boolean {
  switch (node.typename) {
    case 'Symbol':
      return true;
    case 'LookupVal':
      return node.val.typename !== 'Slice' && passesDataThrough(node.target);
    case 'InlineIf':
      return passesDataThrough(node.body) && (node.else_ === null || passesDataThrough(node.else_));
    case 'And':
    case 'Or':
      return passesDataThrough(node.left) && passesDataThrough(node.right);
    default:
      return false;
  }
}
