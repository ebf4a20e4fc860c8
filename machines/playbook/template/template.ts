/**
 * Jinja2 templates without generated code (language 8): text is compiled once to closures and evaluated against a scope.
 * A template never runs host code, reads own members of JSON only, and every render has limits. Callers cache templates.
 */
import type { Expression } from 'nunjucks/src/nodes.js';
import { excerptOf, Fault, TemplateError, TemplateSyntaxError } from './errors.ts';
import type { Scope } from './facade.ts';
import { fromJson } from './filters.ts';
import { parseTemplate } from './grammar.ts';
import { print, printValue, settled } from './printing.ts';
import { DEFAULT_LIMITS, type Limits, Run } from './run.ts';
import { Statements } from './statements.ts';
import { plain, truthy } from './values.ts';

export { TemplateError, TemplateSyntaxError } from './errors.ts';
export { DEFAULT_LIMITS, type Limits } from './run.ts';
export { compileTree, renderTree, type TreeTemplate } from './tree.ts';
export { printValue };

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

/** Words that make a condition false although they are not empty. */
const FALSE_WORDS: ReadonlySet<string> = new Set(['', 'false', '0', 'no', 'off', 'none', 'null', '[]', '{}']);

class Compiled implements Template {
  readonly source: string;
  readonly form: 'plain' | 'expression' | 'text';
  readonly roots: readonly string[];
  readonly members: readonly string[];
  readonly slots: number;
  /** Returns the value of an expression, or writes the text. */
  readonly evaluate: (run: Run) => unknown;
  /** The tag around an offset, for messages. */
  readonly excerpt: (offset: number) => string;

  constructor(
    form: Compiled['form'],
    source: string,
    excerpt: Compiled['excerpt'],
    statements: Statements | null,
    evaluate: Compiled['evaluate'],
  ) {
    this.source = source;
    this.form = form;
    this.roots = statements === null ? [] : [...statements.names.roots];
    this.members = statements === null ? [] : [...statements.names.members];
    this.slots = statements?.names.slotCount ?? 0;
    this.evaluate = evaluate;
    this.excerpt = excerpt;
  }
}

class CompiledCondition implements Condition {
  readonly source: string;
  readonly template: Template | null;
  readonly constant: boolean;
  readonly roots: readonly string[];
  readonly members: readonly string[];

  constructor(source: string, template: Template | null, constant: boolean) {
    this.source = source;
    this.template = template;
    this.constant = constant;
    this.roots = template?.roots ?? [];
    this.members = template?.members ?? [];
  }
}

/** Throws TemplateSyntaxError, for unknown filters, tests and statements too. */
export function compileTemplate(source: string): Template {
  if (!hasTags(source))
    return new Compiled(
      'plain',
      source,
      () => excerptOf(source),
      null,
      () => source,
    );
  // Jinja2 drops one newline at the end of a template.
  const { root, tokens } = parseTemplate(source.replace(/\r?\n$/, ''));
  const statements = new Statements(tokens);
  const excerpt = (offset: number) => tokens.excerpt(offset);
  const expression = onlyExpression(source, root.children);
  if (expression === null) {
    const body = statements.body(root);
    return new Compiled('text', source, excerpt, statements, (run) => {
      body(run);
      return run.finish();
    });
  }
  const { value: node, at } = expression;
  const evaluate = statements.expressions.compile(node);
  const built = !passesDataThrough(node);
  return new Compiled('expression', source, excerpt, statements, (run) => {
    run.at = at;
    const value = plain(evaluate(run));
    return built ? settled(run, value) : value;
  });
}

/** A condition of language 8.8: a boolean, a bare expression, or a template. Throws TemplateSyntaxError. */
export function compileCondition(source: string | boolean): Condition {
  if (typeof source === 'boolean') return new CompiledCondition(String(source), null, source);
  if (hasTags(source)) return new CompiledCondition(source, compileTemplate(source), false);
  try {
    return new CompiledCondition(source, compileTemplate(`{{ ${source} }}`), false);
  } catch (error) {
    if (!(error instanceof TemplateSyntaxError)) throw error;
    throw new TemplateSyntaxError(
      error.reason,
      excerptOf(source),
      Math.min(Math.max(error.offset - 3, 0), source.length),
    );
  }
}

/** The value of a value field (language 8.5): plain JSON, undefined as null. Throws TemplateError. */
export function renderValue(template: Template, scope: Scope, limits?: Limits): unknown {
  return evaluateNative(template, scope, limits) ?? null;
}

/** Like renderValue, but undefined stays undefined. */
export function evaluateNative(template: Template, scope: Scope, limits: Limits = DEFAULT_LIMITS): unknown {
  const compiled = internals(template);
  if (compiled.form === 'plain') return compiled.source;
  return render(compiled, scope, limits, (run) => {
    const value = compiled.evaluate(run);
    return compiled.form === 'text' && typeof value === 'string' ? typedText(run, value) : value;
  });
}

/** The text of a text field (language 8.5). Throws TemplateError. */
export function renderText(template: Template, scope: Scope, limits: Limits = DEFAULT_LIMITS): string {
  const compiled = internals(template);
  if (compiled.form === 'plain') return compiled.source;
  return render(compiled, scope, limits, (run) => print(run, compiled.evaluate(run)));
}

/** Whether a condition holds. Throws TemplateError when its evaluation raises. */
export function holds(condition: Condition, scope: Scope, limits?: Limits): boolean {
  if (!(condition instanceof CompiledCondition)) throw new TypeError('not a condition of compileCondition');
  return condition.template === null ? condition.constant : isTruthy(evaluateNative(condition.template, scope, limits));
}

/** Truth of a condition's value (language 8.8): Python's, and some words are false. */
export function isTruthy(value: unknown): boolean {
  const bare = plain(value);
  return typeof bare === 'string' ? !FALSE_WORDS.has(bare.trim().toLowerCase()) : truthy(bare);
}

/** Runs an evaluation and gives its faults the expression they happened in. Errors of Facades pass unchanged. */
function render<Result>(compiled: Compiled, scope: Scope, limits: Limits, evaluate: (run: Run) => Result): Result {
  const run = new Run(scope, compiled.slots, limits);
  try {
    return evaluate(run);
  } catch (error) {
    if (error instanceof Fault) throw new TemplateError(error.code, error.message, compiled.excerpt(run.at));
    throw error;
  }
}

function internals(template: Template): Compiled {
  if (template instanceof Compiled) return template;
  throw new TypeError('not a template of compileTemplate');
}

function hasTags(source: string): boolean {
  return source.includes('{{') || source.includes('{%');
}

type Statement = ReturnType<typeof parseTemplate>['root']['children'][number];

/** The expression of a source that is one `{{ }}` with only whitespace around it. */
function onlyExpression(
  source: string,
  statements: readonly Statement[],
): { readonly value: Expression; readonly at: number } | null {
  const trimmed = source.trim();
  if (!trimmed.startsWith('{{') || !trimmed.endsWith('}}')) return null;
  const tags = statements.filter((each) => each.typename !== 'Output' || each.children[0]?.typename !== 'TemplateData');
  const only = tags[0];
  if (tags.length !== 1 || only?.typename !== 'Output') return null;
  const texts = statements.filter((each) => each !== only);
  const blank = texts.every(
    (each) =>
      each.typename === 'Output' &&
      each.children[0]?.typename === 'TemplateData' &&
      String(each.children[0].value).trim() === '',
  );
  const value = only.children[0];
  return blank && value !== undefined ? { value, at: only.colno } : null;
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

/** The last row of the table in language 8.5: text that reads as a boolean, a number or JSON becomes that. */
function typedText(run: Run, text: string): unknown {
  const trimmed = text.trim();
  switch (trimmed) {
    case 'true':
    case 'True':
      return true;
    case 'false':
    case 'False':
      return false;
    default:
  }
  const first = trimmed.charAt(0);
  if (first === '[' || first === '{') {
    try {
      return fromJson(run, trimmed);
    } catch (error) {
      if (error instanceof Fault && error.code === 'TEMPLATE_ERROR') return text;
      throw error;
    }
  }
  const number = Number(trimmed);
  return trimmed !== '' && Number.isFinite(number) && String(number) === trimmed ? number : text;
}
