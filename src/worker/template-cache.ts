/**
 * The template engine for a worker: limits and clock set, compiled templates kept. Commands of one step come again and
 * again with the same text, so compiling is what a worker must not repeat. The cache is bounded and forgets the oldest.
 */
import type { Json } from '../../machines/json.ts';
import { type Condition, compileCondition } from '../../machines/playbook/template/compiled.ts';
import type { Scope } from '../../machines/playbook/template/facade.ts';
import { holds } from '../../machines/playbook/template/render.ts';
import type { Limits } from '../../machines/playbook/template/run.ts';
import { compileTree, renderTree, type TreeTemplate } from '../../machines/playbook/template/tree.ts';
import type { Templates } from './templates.ts';

const CACHED_MAX = 2000;
/** Longer sources are compiled each time: their key alone would cost what it saves. */
const KEY_MAX = 65_536;

export class CachingTemplates implements Templates {
  readonly #limits: Limits;
  readonly #values = new Bounded<TreeTemplate>();
  readonly #texts = new Bounded<TreeTemplate>();
  readonly #optionalTexts = new Bounded<TreeTemplate>();
  readonly #conditions = new Bounded<Condition>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  value(source: Json, scope: Scope): Json {
    if (source === null || typeof source === 'number' || typeof source === 'boolean') return source;
    const tree = this.#values.get(keyOf(source), () => compileTree(source));
    return renderTree(tree, scope, this.#limits);
  }

  text(source: Json, scope: Scope): Json {
    if (source === null || typeof source === 'number' || typeof source === 'boolean') return source;
    const tree = this.#texts.get(keyOf(source), () => compileTree(source, () => 'text'));
    return renderTree(tree, scope, this.#limits);
  }

  optionalText(source: Json, scope: Scope): Json {
    if (source === null || typeof source === 'number' || typeof source === 'boolean') return source;
    const tree = this.#optionalTexts.get(keyOf(source), () => compileTree(source, () => 'optional text'));
    return renderTree(tree, scope, this.#limits);
  }

  condition(source: string | boolean, scope: Scope): boolean {
    if (typeof source === 'boolean') return source;
    const condition = this.#conditions.get(keyOf(source), () => compileCondition(source));
    return holds(condition, scope, this.#limits);
  }
}

/** Text is its own key; a map or list is told from text by its first character. */
function keyOf(source: Json): string {
  return typeof source === 'string' ? `"${source}` : JSON.stringify(source);
}

class Bounded<T> {
  readonly #entries = new Map<string, T>();

  get(key: string, make: () => T): T {
    if (key.length > KEY_MAX) return make();
    const known = this.#entries.get(key);
    if (known !== undefined) return known;
    const made = make();
    this.#entries.set(key, made);
    if (this.#entries.size > CACHED_MAX) {
      const [oldest] = this.#entries.keys();
      if (oldest !== undefined) this.#entries.delete(oldest);
    }
    return made;
  }
}
