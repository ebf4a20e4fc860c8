/**
 * The words of the playbook language that the editor offers, by where they stand. The kinds of tools and their fields
 * come from the same table that the server checks with, so the editor never offers what would be refused.
 */
import { KNOWN_KINDS, toolSpecOf } from '../../../machines/playbook/tool-fields.ts';

export interface Word {
  readonly word: string;
  readonly info: string;
}

const of = (words: Readonly<Record<string, string>>): readonly Word[] =>
  Object.entries(words).map(([word, info]) => ({ word, info }));

const DOCUMENT = of({
  apiVersion: 'callboard/v2',
  kind: 'Playbook',
  metadata: 'name, path, description',
  workload: 'inputs and their defaults',
  workflow: 'the steps; a run begins at the one named start',
  workbook: 'tasks that steps use by name',
  keychain: 'tokens to fetch before the first step',
});
const METADATA = of({ name: 'shown in lists', path: 'place in the catalog', description: 'one sentence' });
const STEP = of({
  step: 'its name, unique',
  desc: 'for readers',
  tool: 'what it does: one tool or a list',
  loop: 'the same work for many items',
  next: 'where it leads',
  set: 'variables to set before it runs',
  spec: 'policies and limits',
});
const LOOP = of({
  in: 'a list, or a number n for 0 to n-1',
  iterator: 'name of the item in iter',
  spec: 'mode, max_in_flight',
});
const NEXT = of({ spec: 'mode: exclusive or inclusive', arcs: 'where it may lead' });
const ARC = of({ step: 'the next step', when: 'a condition', set: 'variables to set on the way' });
const RULE: readonly Word[] = [
  { word: 'when', info: 'a condition' },
  { word: 'then', info: 'what to do' },
  { word: 'else', info: 'the last rule' },
];
const THEN = of({
  do: 'retry, continue, fail, jump, break',
  attempts: 'tries in all',
  delay: 'seconds before the next try',
  backoff: 'fixed, linear or exponential',
  set: 'variables to set',
  to: 'the task to jump to',
});
const MODES: Readonly<Record<string, readonly Word[]>> = {
  loop: of({ sequential: 'one after the other', parallel: 'several at once' }),
  next: of({ exclusive: 'the first arc whose condition holds', inclusive: 'every arc whose condition holds' }),
};
const COMMON_TOOL = of({
  kind: 'what kind of work',
  input: 'values the tool works with',
  spec: 'rules for errors and retries',
  name: 'name of the task',
});

/** Keys that fit below `path`, the keys around the cursor from the outside in; `kind` is that of the tool around it. */
export function keysAt(path: readonly string[], kind: string | null): readonly Word[] {
  const [last = '', before = ''] = [path.at(-1), path.at(-2)];
  if (path.length === 0) return DOCUMENT;
  switch (last) {
    case 'metadata':
      return METADATA;
    case 'workflow':
      return STEP;
    case 'loop':
      return LOOP;
    case 'next':
      return NEXT;
    case 'arcs':
      return ARC;
    case 'tool':
    case 'workbook':
      return [...COMMON_TOOL, ...toolFields(kind)];
    case 'policy':
      return of({ rules: 'tried from the top; the first that fits decides' });
    case 'rules':
      return RULE;
    case 'then':
      return THEN;
    case 'spec':
      if (before === 'loop')
        return of({ mode: 'sequential or parallel', max_in_flight: 'rounds at once', policy: 'on errors' });
      if (before === 'next') return of({ mode: 'exclusive or inclusive' });
      return of({ policy: 'rules for errors and retries', timeout: 'seconds' });
    default:
      return [];
  }
}

/** Values that fit behind a key. */
export function valuesAt(key: string, path: readonly string[], steps: readonly string[]): readonly Word[] {
  switch (key) {
    case 'kind':
      return path.length === 0
        ? of({ Playbook: 'can be run' })
        : KNOWN_KINDS.map((word) => ({ word, info: 'kind of tool' }));
    case 'apiVersion':
      return of({ 'callboard/v2': 'the language of this service' });
    case 'step':
      return path.at(-1) === 'arcs' ? steps.map((word) => ({ word, info: 'step' })) : [];
    case 'mode':
      return MODES[path.at(-2) ?? ''] ?? [];
    case 'do':
      return of({
        retry: 'try again',
        continue: 'go on',
        fail: 'end the step',
        jump: 'to another task',
        break: 'end the pipeline',
      });
    case 'backoff':
      return of({ fixed: 'the same pause', linear: 'growing by the same', exponential: 'doubling' });
    default:
      return [];
  }
}

function toolFields(kind: string | null): readonly Word[] {
  const spec = kind === null ? null : toolSpecOf(kind);
  if (spec === null) return [];
  const required = new Set(spec.required.map(([first]) => first));
  return Object.entries(spec.fields).map(([word, field]) => ({
    word,
    info: `${field.type}${required.has(word) ? ', required' : ''}`,
  }));
}
