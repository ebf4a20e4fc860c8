/** Problems of a value as sentences, one a field: `body.older_than_minutes: must be at least 1` (api 1.7), or `'name' is required`. */
import type { BaseIssue } from 'valibot';
import { ID_SENTENCE, PLACE_SENTENCE } from './ids.ts';

export interface Problem {
  readonly sentence: string;
  /** The value stands where an id is expected and is none. */
  readonly id: boolean;
}

const OF_IDS: ReadonlySet<string> = new Set([ID_SENTENCE, PLACE_SENTENCE]);

export function problemOf(issue: BaseIssue<unknown>, root: string): Problem {
  const keys = (issue.path ?? []).map((item) => item.key);
  const missing = issue.input === undefined ? keys.pop() : undefined;
  const path = keys.reduce<string>((text, key) => text + step(key), root);
  if (missing === undefined) return { sentence: `${path}: ${sentenceOf(issue)}`, id: OF_IDS.has(issue.message) };
  const place = keys.length === 0 ? '' : `${path}: `;
  return { sentence: `${place}'${String(missing)}' is required`, id: false };
}

/** All problems in the order they were found, no sentence twice. */
export function problemsOf(issues: readonly BaseIssue<unknown>[], root: string): readonly Problem[] {
  const seen = new Map<string, Problem>();
  for (const issue of issues) {
    const problem = problemOf(issue, root);
    seen.set(problem.sentence, problem);
  }
  return [...seen.values()];
}

function step(key: unknown): string {
  return typeof key === 'number' ? `[${key}]` : `.${String(key)}`;
}

/** The library's own words for a wrong type are not ours. */
function sentenceOf(issue: BaseIssue<unknown>): string {
  if (!issue.message.startsWith('Invalid ')) return issue.message;
  if (issue.expected === null) return 'does not fit';
  return WORDS.get(issue.expected) ?? `must be ${issue.expected}`;
}

const WORDS: ReadonlyMap<string, string> = new Map([
  ['never', 'is not known here'],
  ['Object', 'must be an object'],
  ['Array', 'must be a list'],
]);
