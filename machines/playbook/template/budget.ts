/**
 * Renders a whole value of somebody outside with one budget. Each template alone may be harmless and a thousand of them
 * not, so what one has used is not there for the next.
 */
import type { Json } from '../../json.ts';
import { compileTemplate, type Template } from './compiled.ts';
import { excerptOf, syntaxErrorIn, TemplateError, TemplateSyntaxError } from './errors.ts';
import type { Scope } from './facade.ts';
import { renderText, renderValue } from './render.ts';
import type { Limits } from './run.ts';

export interface Compiled {
  /** Free names of all templates in it. */
  readonly roots: ReadonlySet<string>;
  /** Plain JSON. Throws TemplateError. */
  render(scope: Scope, limits: Limits): Json;
}

type Render = (scope: Scope, budget: Budget) => Json;

/** What is left for the templates that come. */
interface Budget {
  readonly limits: Limits;
  bytes: number;
}

/** Every string of the value is a template, and every key with `{{` is a text. Throws TemplateSyntaxError with the place in `at`. */
export function compileWithBudget(value: Json): Compiled {
  const roots = new Set<string>();
  const render = compile(value, [], roots);
  return { roots, render: (scope, limits) => render(scope, { limits, bytes: limits.outputBytes }) };
}

function compile(value: Json, at: readonly (string | number)[], roots: Set<string>): Render {
  if (typeof value === 'string') {
    const template = templateOf(value, at, roots);
    if (template.form === 'plain') return () => value;
    return (scope, budget) => spend(budget, template, (limits) => renderValue(template, scope, limits) as Json);
  }
  if (typeof value !== 'object' || value === null) return () => value;
  if (isList(value)) {
    const parts = value.map((each, index) => compile(each, [...at, index], roots));
    return (scope, budget) => parts.map((render) => render(scope, budget));
  }
  const entries = Object.entries(value).map(([key, each]) => ({
    key: key.includes('{{') ? templateOf(key, [...at, key], roots) : key,
    render: compile(each, [...at, key], roots),
  }));
  return (scope, budget) => {
    const made: { [key: string]: Json } = {};
    for (const { key, render } of entries) {
      const name = typeof key === 'string' ? key : spend(budget, key, (limits) => renderText(key, scope, limits));
      if (name === '__proto__') throw new TemplateError('TEMPLATE_ERROR', "'__proto__' cannot be a key", name);
      made[name] = render(scope, budget);
    }
    return made;
  };
}

function spend<T extends Json>(budget: Budget, template: Template, render: (limits: Limits) => T): T {
  const { limits } = budget;
  // A small template ends before it looks at the clock itself.
  if (limits.now !== undefined && limits.until !== undefined && limits.now() > limits.until) {
    throw new TemplateError('TEMPLATE_LIMIT', 'the templates together take too long', excerptOf(template.source));
  }
  const rendered = render({ ...limits, outputBytes: budget.bytes });
  // The length of the JSON text is close enough to its bytes, and needs no second copy.
  budget.bytes -= JSON.stringify(rendered).length;
  if (budget.bytes >= 0) return rendered;
  throw new TemplateError(
    'TEMPLATE_LIMIT',
    `more than ${limits.outputBytes} bytes of text`,
    excerptOf(template.source),
  );
}

function templateOf(source: string, at: readonly (string | number)[], roots: Set<string>): Template {
  try {
    const template = compileTemplate(source);
    for (const root of template.roots) roots.add(root);
    return template;
  } catch (error) {
    const { reason, excerpt, offset } = syntaxErrorIn(error);
    throw new TemplateSyntaxError(reason, excerpt, offset, at);
  }
}

/** `Array.isArray` does not narrow readonly lists. */
function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
