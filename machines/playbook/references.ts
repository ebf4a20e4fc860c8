/**
 * What a step's tasks can read of the execution's context, told from their templates alone. The engine limits the
 * snapshot of a command to it (language 8.3), so saying too much is slow and saying too little is wrong.
 */
import { isMap, type Json } from '../json.ts';
import type { Rule, Step, Task } from './document.ts';
import { hasTemplate } from './names.ts';
import { compileCondition, compileTemplate } from './template/compiled.ts';

export interface References {
  /** Root names, and the names of steps read through `steps`. Names bound inside a template are not among them. */
  readonly roots: readonly string[];
  /** The whole context may be read: code mentions `context` or cannot be seen, or `steps` is indexed by a value. */
  readonly everything: boolean;
  /** Entries read as `keychain.<entry>`. */
  readonly keychain: readonly string[];
  /** `keychain` is used as a whole or indexed by a value: any declared entry may be meant. */
  readonly everyKeychainEntry: boolean;
}

const known = new WeakMap<Step, References>();

/** The references of all tasks of the step, of its cursor, and of their rules; remembered per step. */
export function referencesOf(step: Step): References {
  const before = known.get(step);
  if (before) return before;
  const found = new Collector();
  for (const task of step.tasks) collectTask(found, task);
  if (step.loop?.cursor) {
    const { options: _engine, ...claimed } = step.loop.cursor;
    found.value(claimed);
  }
  const references = found.references();
  known.set(step, references);
  return references;
}

/** Entries of the keychain that one task, its rules included, may read. */
export function keychainOf(task: Task): Pick<References, 'keychain' | 'everyKeychainEntry'> {
  const found = new Collector();
  collectTask(found, task);
  return found.references();
}

function collectTask(found: Collector, task: Task): void {
  found.value(task.fields);
  found.value(task.input);
  found.value(task.timeout);
  for (const { value } of task.set) found.value(value);
  for (const rule of task.rules) collectRule(found, rule);
  if ((task.kind === 'python' || task.kind === 'javascript') && mayReadContext(task)) found.everything = true;
}

function collectRule(found: Collector, rule: Rule): void {
  if (typeof rule.when === 'string') found.template(compileCondition(rule.when));
  for (const { value } of rule.set) found.value(value);
  for (const value of [rule.attempts, rule.delay, rule.backoff, rule.maxDelay]) found.value(value);
}

/** Encoded code and scripts are only seen by the worker, so they may. */
function mayReadContext({ fields }: Task): boolean {
  const { code } = fields;
  return typeof code === 'string' ? /\bcontext\b/.test(code) : true;
}

class Collector {
  everything = false;
  #everyEntry = false;
  readonly #roots = new Set<string>();
  readonly #entries = new Set<string>();

  value(value: Json): void {
    if (typeof value === 'string') {
      if (hasTemplate(value)) this.template(compileTemplate(value));
    } else if (Array.isArray(value)) {
      for (const item of value) this.value(item);
    } else if (isMap(value)) {
      for (const [key, inner] of Object.entries(value)) {
        if (key.includes('{{')) this.template(compileTemplate(key));
        this.value(inner);
      }
    }
  }

  template(template: Compiled): void {
    for (const root of template.roots) this.#roots.add(root);
    const steps = membersOf(template, 'steps');
    if (steps === 'any') this.everything = true;
    else for (const name of steps) this.#roots.add(name);
    const entries = membersOf(template, 'keychain');
    if (entries === 'any') this.#everyEntry = true;
    else for (const name of entries) this.#entries.add(name);
  }

  references(): References {
    return {
      roots: [...this.#roots].sort(),
      everything: this.everything,
      keychain: [...this.#entries].sort(),
      everyKeychainEntry: this.#everyEntry,
    };
  }
}

/** What templates and conditions say of themselves. */
interface Compiled {
  readonly source: string;
  readonly roots: readonly string[];
  readonly members: readonly string[];
}

/**
 * The members of a root a template reads by a fixed name; `any` when the root is used in some other way. A mention in
 * a string or behind a dot counts as a use too: it says too much, never too little.
 */
function membersOf({ source, roots, members }: Compiled, root: 'steps' | 'keychain'): readonly string[] | 'any' {
  if (!roots.includes(root)) return [];
  if (OTHER_USE[root].test(source)) return 'any';
  return members.filter((member) => member.startsWith(`${root}.`)).map((member) => member.slice(root.length + 1));
}

/** The word, not followed by `.name` (that is not called) or by `['name']`. */
const OTHER_USE = {
  steps: /\bsteps\b(?!\s*(?:\.\s*[A-Za-z_]\w*(?!\w*\s*\()|\[\s*(?:'[^'\\]*'|"[^"\\]*")\s*\]))/,
  keychain: /\bkeychain\b(?!\s*(?:\.\s*[A-Za-z_]\w*(?!\w*\s*\()|\[\s*(?:'[^'\\]*'|"[^"\\]*")\s*\]))/,
} as const;
