/** Playbooks for tests: steps with a `noop` tool unless said otherwise, read by the real parser. */
import type { Json, JsonMap } from '../../machines/json.ts';
import type { Playbook } from '../../machines/playbook/document.ts';
import { parsePlaybook } from '../../machines/playbook/parse.ts';

/** A step of the document; its arcs are written with `to`, `when` and `either`. */
export function step(name: string, keys: JsonMap = {}): JsonMap {
  return { step: name, tool: { kind: 'noop' }, ...keys };
}

export function arc(to: string, keys: JsonMap | string = {}): JsonMap {
  return typeof keys === 'string' ? { step: to, when: keys } : { step: to, ...keys };
}

/** The first arc that is true. */
export function first(...arcs: readonly (JsonMap | string)[]): { readonly next: JsonMap } {
  return { next: { spec: { mode: 'exclusive' }, arcs: arcs.map(written) } };
}

/** Every arc that is true. */
export function every(...arcs: readonly (JsonMap | string)[]): { readonly next: JsonMap } {
  return { next: { spec: { mode: 'inclusive' }, arcs: arcs.map(written) } };
}

/** `spec` with admission rules; each `[condition, allow]`, a condition of null is the else rule. */
export function admission(...rules: readonly (readonly [when: string | boolean | null, allow: boolean])[]): JsonMap {
  const list = rules.map(([when, allow]) => {
    const answer = entry('then', { allow });
    return when === null ? { else: answer } : { when, ...answer };
  });
  return { spec: { policy: { admit: { rules: list } } } };
}

/** Admits when the condition holds. */
export function admits(when: string): JsonMap {
  return admission([when, true], [null, false]);
}

export const NEVER: JsonMap = admission([null, false]);

function entry(key: string, value: Json): JsonMap {
  return { [key]: value };
}

/** The text of a document with these steps. */
export function documentOf(workflow: readonly JsonMap[], keys: JsonMap = {}): string {
  return JSON.stringify({
    apiVersion: 'callboard/v2',
    kind: 'Playbook',
    metadata: { name: 'told', path: 'tests/told' },
    ...keys,
    workflow,
  });
}

export function playbookOf(workflow: readonly JsonMap[], keys: JsonMap = {}): Playbook {
  const parsed = parsePlaybook(documentOf(workflow, keys));
  if (!parsed.ok) throw new Error(parsed.errors.map((error) => error.message).join('\n'));
  return parsed.playbook;
}

function written(each: JsonMap | string): Json {
  return typeof each === 'string' ? { step: each } : each;
}
