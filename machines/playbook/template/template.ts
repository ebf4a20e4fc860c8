/**
 * Jinja2 templates without generated code (language 8): text is compiled once to closures and evaluated against a scope.
 * A template never runs host code, reads own members of JSON only, and every render has limits. This file and facade.ts
 * are all that the rest of the tree imports; callers cache what they compile.
 */
export { type Condition, compileCondition, compileTemplate, type Template } from './compiled.ts';
export { TemplateError, type TemplateErrorCode, TemplateSyntaxError } from './errors.ts';
export { printValue } from './printing.ts';
export { evaluateNative, holds, isTruthy, renderText, renderValue } from './render.ts';
export { DEFAULT_LIMITS, type Limits } from './run.ts';
export { compileTree, renderTree, type TreeTemplate } from './tree.ts';
