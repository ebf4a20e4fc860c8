/** Rendering: a compiled template and a scope to a value, a text or a truth (language 8.5 to 8.8). */
import { CompiledCondition, CompiledTemplate, type Condition, type Template } from './compiled.ts';
import { Fault, fault, TemplateError } from './errors.ts';
import type { Scope } from './facade.ts';
import { fromJson } from './filters.ts';
import { print } from './printing.ts';
import { DEFAULT_LIMITS, type Limits, Run } from './run.ts';
import { plain, truthy } from './values.ts';

/** Words that make a condition false although they are not empty. */
const FALSE_WORDS: ReadonlySet<string> = new Set(['', 'false', '0', 'no', 'off', 'none', 'null', '[]', '{}']);

/** The value of a value field (language 8.5): plain JSON, undefined as null. Throws TemplateError. */
export function renderValue(template: Template, scope: Scope, limits?: Limits): unknown {
  return evaluateNative(template, scope, limits) ?? null;
}

/** Like renderValue, but undefined stays undefined. */
export function evaluateNative(template: Template, scope: Scope, limits: Limits = DEFAULT_LIMITS): unknown {
  const compiled = internals(template);
  if (compiled.form === 'plain') return compiled.source;
  return render(compiled, scope, limits, (run) => {
    const value = compiled.parts.evaluate(run);
    if (run.strict && value === undefined) fault('the value is undefined');
    return compiled.form === 'text' && typeof value === 'string' ? typedText(run, value) : value;
  });
}

/** The text of a text field (language 8.5). Throws TemplateError. */
export function renderText(template: Template, scope: Scope, limits?: Limits): string {
  // Null is only for those who ask for it.
  return textOf(template, scope, limits, false) as string;
}

/** Like renderText, but null where a single expression yields null or undefined. */
export function renderTextOrNull(template: Template, scope: Scope, limits?: Limits): string | null {
  return textOf(template, scope, limits, true);
}

function textOf(template: Template, scope: Scope, limits = DEFAULT_LIMITS, keepsNull: boolean): string | null {
  const compiled = internals(template);
  if (compiled.form === 'plain') return compiled.source;
  const { evaluate, margins } = compiled.parts;
  return render(compiled, scope, limits, (run) => {
    const value = evaluate(run);
    if (compiled.form === 'text') return print(run, value);
    if (keepsNull && (value === null || value === undefined)) return null;
    run.write(margins[0] + print(run, value) + margins[1]);
    return run.finish();
  });
}

/** Whether a condition holds. Throws TemplateError when its evaluation raises. */
export function holds(condition: Condition, scope: Scope, limits?: Limits): boolean {
  if (!(condition instanceof CompiledCondition)) throw new TypeError('not a condition of compileCondition');
  const { body } = condition;
  return typeof body === 'boolean' ? body : isTruthy(evaluateNative(body, scope, limits));
}

/** Truth of a condition's value (language 8.8): Python's, and some words are false. */
export function isTruthy(value: unknown): boolean {
  const bare = plain(value);
  return typeof bare === 'string' ? !FALSE_WORDS.has(bare.trim().toLowerCase()) : truthy(bare);
}

/** Runs an evaluation and gives its faults the expression they happened in. Errors of Facades pass unchanged. */
function render<Result>(
  compiled: CompiledTemplate,
  scope: Scope,
  limits: Limits,
  evaluate: (run: Run) => Result,
): Result {
  const run = new Run(scope, compiled.parts.slots, limits);
  try {
    return evaluate(run);
  } catch (error) {
    if (error instanceof Fault) throw new TemplateError(error.code, error.message, compiled.parts.excerpt(run.at));
    throw error;
  }
}

function internals(template: Template): CompiledTemplate {
  if (template instanceof CompiledTemplate) return template;
  throw new TypeError('not a template of compileTemplate');
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
