/**
 * Whole values with templates inside: every string of a map or list is one, and keys with `{{` are rendered as text
 * (language 8.1). Parts without templates are kept as they are, so rendering them costs nothing.
 */
import type { Json } from '../../json.ts';
import { compileTemplate, type Template } from './compiled.ts';
import { syntaxErrorIn, TemplateError, TemplateSyntaxError } from './errors.ts';
import type { Scope } from './facade.ts';
import { renderText, renderTextOrNull, renderValue } from './render.ts';
import type { Limits } from './run.ts';

export interface TreeTemplate {
  readonly roots: readonly string[];
  readonly members: readonly string[];
}

type Render = (scope: Scope, limits: Limits | undefined) => Json;
type Path = readonly (string | number)[];

class CompiledTree implements TreeTemplate {
  readonly roots: readonly string[];
  readonly members: readonly string[];
  readonly render: Render;

  constructor(templates: readonly Template[], render: Render) {
    this.roots = [...new Set(templates.flatMap((template) => template.roots))];
    this.members = [...new Set(templates.flatMap((template) => template.members))];
    this.render = render;
  }
}

/** `optional text`: text, but null where a single expression yields null, because that removes the entry (language 8.5). */
export type LeafType = 'value' | 'text' | 'optional text';

/**
 * Compiles every string in a value. `leafType` says what string leaves yield (language 8.5); list indexes are written in
 * its path as text. A TemplateSyntaxError carries the path in `at`.
 */
export function compileTree(
  value: Json,
  leafType: (path: readonly string[]) => LeafType = () => 'value',
): TreeTemplate {
  const compiler = new TreeCompiler(leafType);
  const render = compiler.compile(value, []);
  return new CompiledTree(compiler.templates, render ?? (() => value));
}

/** Plain JSON; a tree without templates is returned as it is. Throws TemplateError. */
export function renderTree(tree: TreeTemplate, scope: Scope, limits?: Limits): Json {
  if (!(tree instanceof CompiledTree)) throw new TypeError('not a tree of compileTree');
  return tree.render(scope, limits);
}

class TreeCompiler {
  readonly templates: Template[] = [];
  readonly #leafType: (path: readonly string[]) => LeafType;

  constructor(leafType: (path: readonly string[]) => LeafType) {
    this.#leafType = leafType;
  }

  /** Null when there is nothing to render. */
  compile(value: Json, path: Path): Render | null {
    if (typeof value === 'string') return this.#string(value, path);
    if (typeof value !== 'object' || value === null) return null;
    return isList(value) ? this.#list(value, path) : this.#map(value, path);
  }

  #string(source: string, path: Path): Render | null {
    const template = this.#template(source, path);
    if (template === null) return null;
    const type = this.#leafType(path.map(String));
    if (type === 'text') return (scope, limits) => renderText(template, scope, limits);
    if (type === 'optional text') return (scope, limits) => renderTextOrNull(template, scope, limits);
    // A rendered value is JSON by contract of renderValue.
    return (scope, limits) => renderValue(template, scope, limits) as Json;
  }

  #list(list: readonly Json[], path: Path): Render | null {
    const parts = list.map((each, index) => this.compile(each, [...path, index]));
    if (parts.every((part) => part === null)) return null;
    return (scope, limits) =>
      list.map((each, index) => {
        const render = parts[index];
        return render === null || render === undefined ? each : render(scope, limits);
      });
  }

  #map(map: { readonly [key: string]: Json }, path: Path): Render | null {
    const entries = Object.entries(map).map(([key, value]) => ({
      key,
      value,
      keyTemplate: key.includes('{{') ? this.#template(key, [...path, key]) : null,
      render: this.compile(value, [...path, key]),
    }));
    if (entries.every(({ keyTemplate, render }) => keyTemplate === null && render === null)) return null;
    return (scope, limits) => {
      const result: { [key: string]: Json } = {};
      for (const { key, value, keyTemplate, render } of entries) {
        const name = keyTemplate === null ? key : renderText(keyTemplate, scope, limits);
        if (name === '__proto__') throw new TemplateError('TEMPLATE_ERROR', "'__proto__' cannot be a key", key);
        result[name] = render === null ? value : render(scope, limits);
      }
      return result;
    };
  }

  #template(source: string, path: Path): Template | null {
    try {
      const template = compileTemplate(source);
      if (template.form === 'plain') return null;
      this.templates.push(template);
      return template;
    } catch (error) {
      const { reason, excerpt, offset } = syntaxErrorIn(error);
      throw new TemplateSyntaxError(reason, excerpt, offset, path);
    }
  }
}

/** `Array.isArray` does not narrow readonly lists. */
function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
