/** Reads policy rules (language 7.5 to 7.7), and the legacy `retry` map as the rule it stands for. */
import type { Json } from '../json.ts';
import type { Rule, Task } from './document.ts';
import { containsTemplate, literalNumber } from './literal.ts';
import { shown } from './names.ts';
import { isListPlace, isMapPlace, items, type ListPlace, type MapPlace, member, type Place, textOf } from './place.ts';
import { readSets, SET_KEYS } from './read-set.ts';
import type { Report, Subject } from './report.ts';
import { checkCondition, checkTemplates } from './template-checks.ts';
import { warnUnknownKeys } from './unknown-keys.ts';

export type Policy = Pick<Task, 'rules' | 'onUnmatched'>;

const RULE_KEYS = new Set(['when', 'then', 'else']);
const POLICY_KEYS = new Set(['rules', 'on_unmatched', 'mode']);
const THEN_KEYS = new Set([...SET_KEYS, 'do', 'to', 'attempts', 'delay', 'backoff', 'max_delay']);
const RETRY_KEYS = new Set(['max_attempts', 'attempts', 'delay', 'initial_delay', 'backoff_multiplier']);
const ACTIONS = ['continue', 'retry', 'jump', 'break', 'fail'] as const;
const BACKOFFS = new Set(['none', 'fixed', 'constant', 'linear', 'exponential']);
const PREVIOUS = new Set(['previous', 'prev', '_previous', '@previous']);

/** What a retry waits at most where its rule does not say (language 7.7). */
export const MAX_DELAY_SECONDS = 3600;

/** The policy of a task; `labels` are those of its pipeline. */
export function readPolicy(report: Report, subject: Subject, place: Place, labels: ReadonlySet<string>): Policy {
  if (place.node.json === null) return { rules: [], onUnmatched: null };
  if (!isMapPlace(place)) {
    report.error('rule_shape', subject, place, 'policy must be a map with rules');
    return { rules: [], onUnmatched: null };
  }
  warnUnknownKeys(report, subject, place, POLICY_KEYS, 'policy');
  const mode = member(place, 'mode');
  if (mode && mode.node.json !== null && mode.node.json !== 'exclusive') {
    report.error('rule_shape', subject, mode, 'policy.mode must be exclusive');
  }
  return { rules: readRules(report, subject, place, labels), onUnmatched: readOnUnmatched(report, subject, place) };
}

function readOnUnmatched(report: Report, subject: Subject, place: MapPlace): Task['onUnmatched'] {
  const found = member(place, 'on_unmatched');
  const text = textOf(found);
  if (text === 'fail' || text === 'continue') return text;
  if (found && found.node.json !== null) {
    report.error('rule_shape', subject, found, 'on_unmatched must be fail or continue');
  }
  return null;
}

function readRules(report: Report, subject: Subject, policy: MapPlace, labels: ReadonlySet<string>): Rule[] {
  const place = member(policy, 'rules');
  if (place === null || place.node.json === null) return [];
  if (!isListPlace(place)) {
    report.error('rule_shape', subject, place, 'policy.rules must be a list');
    return [];
  }
  warnUnreachableRules(report, subject, place);
  return items(place).flatMap((item, index) => readRule(report, subject, item, index, labels) ?? []);
}

function readRule(
  report: Report,
  subject: Subject,
  place: Place,
  index: number,
  labels: ReadonlySet<string>,
): Rule | null {
  const parts = isMapPlace(place) ? partsOf(report, subject, place) : null;
  if (!isMapPlace(place) || parts === null) {
    report.error('rule_shape', subject, place, `rule ${index} needs 'when' or 'else' and 'then'`);
    return null;
  }
  const { condition, effect: then } = parts;
  warnUnknownKeys(report, subject, then, THEN_KEYS, `rule ${index}`);
  const when = condition?.node.json ?? null;
  if (typeof when === 'string' && condition) checkCondition(report, subject, condition, when, 'worker');
  else if (condition && typeof when !== 'boolean') {
    report.error('rule_shape', subject, condition, `rule ${index}: 'when' must be a string or a boolean`);
  }
  const action = readAction(report, subject, then, index);
  const numbers = readRetry(report, subject, then, index, action);
  return {
    index,
    when: typeof when === 'string' || typeof when === 'boolean' ? when : null,
    action,
    set: readSets(report, subject, then, 'rule'),
    to: action === 'jump' ? readTarget(report, subject, then, index, labels) : null,
    ...numbers,
  };
}

/** The condition (null for an else rule) and the map with the action; null when the rule has none of the known forms. */
function partsOf(
  report: Report,
  subject: Subject,
  rule: MapPlace,
): { readonly condition: Place | null; readonly effect: MapPlace } | null {
  const expr = member(rule, 'expr');
  if (expr) report.error('step_key', subject, expr, "'expr' is not supported, use 'when'", 'key');
  warnUnknownKeys(report, subject, rule, new Set([...RULE_KEYS, 'expr']), 'a rule');
  const condition = member(rule, 'when') ?? expr;
  const otherwise = member(rule, 'else');
  const then = member(rule, 'then');
  if (condition && otherwise) return null;
  if (!otherwise || otherwise.node.json === null) return isMapPlace(then) ? { condition, effect: then } : null;
  if (then !== null || !isMapPlace(otherwise)) return null;
  const inner = member(otherwise, 'then');
  if (inner === null) return { condition: null, effect: otherwise };
  return isMapPlace(inner) && otherwise.node.entries.length === 1 ? { condition: null, effect: inner } : null;
}

function readAction(report: Report, subject: Subject, then: MapPlace, index: number): Rule['action'] {
  const place = member(then, 'do');
  if (place === null || place.node.json === null) return 'continue';
  const action = ACTIONS.find((known) => known === place.node.json);
  if (action !== undefined) return action;
  const written = typeof place.node.json === 'object' ? JSON.stringify(place.node.json) : String(place.node.json);
  report.error('rule_action', subject, place, `rule ${index}: unknown action '${shown(written)}'`);
  return 'fail';
}

function readTarget(
  report: Report,
  subject: Subject,
  then: MapPlace,
  index: number,
  labels: ReadonlySet<string>,
): string | null {
  const place = member(then, 'to');
  const target = textOf(place);
  if (place === null || target === null) {
    report.error('rule_action', subject, place ?? then, `rule ${index}: 'jump' needs 'to'`);
    return null;
  }
  if (labels.has(target)) return target;
  if (PREVIOUS.has(target)) return '@previous';
  report.error('rule_action', subject, place, `jump target '${shown(target)}' does not exist`);
  return null;
}

type RetryNumbers = Pick<Rule, 'attempts' | 'delay' | 'backoff' | 'maxDelay' | 'multiplier'>;

function readRetry(
  report: Report,
  subject: Subject,
  then: MapPlace,
  index: number,
  action: Rule['action'],
): RetryNumbers {
  if (action !== 'retry') return { attempts: null, delay: null, backoff: null, maxDelay: null, multiplier: null };
  const option = (key: string, fits: (value: Json) => boolean, text: string): Json => {
    const place = member(then, key);
    if (place === null || place.node.json === null) return null;
    checkTemplates(report, subject, place, 'worker');
    const value = place.node.json;
    if (!containsTemplate(value) && !fits(value)) report.error('rule_retry', subject, place, `rule ${index}: ${text}`);
    return value;
  };
  warnCutDelay(report, subject, member(then, 'delay'), then.node.json['max_delay'] ?? null);
  return {
    attempts: option('attempts', isCount, "'attempts' must be an integer of at least 1"),
    delay: option('delay', isDelay, "'delay' must be a number of at least 0"),
    backoff: option('backoff', isBackoff, `unknown backoff '${shown(String(then.node.json['backoff']))}'`),
    maxDelay: option('max_delay', isDelay, "'max_delay' must be a number of at least 0"),
    multiplier: null,
  };
}

/** The rule a legacy `retry` map adds after the others: on error, try again (language 7.7). */
export function readLegacyRetry(report: Report, subject: Subject, place: Place, index: number): Rule | null {
  if (place.node.json === null) return null;
  if (!isMapPlace(place)) {
    report.error('tool_field', subject, place, "'retry' must be a map");
    return null;
  }
  report.warn('legacy_retry', subject, place, "'retry' is read as a policy rule with 'do: retry'", 'key');
  warnUnknownKeys(report, subject, place, RETRY_KEYS, 'retry');
  const number = (keys: readonly string[], fits: (value: Json) => boolean, text: string): Json => {
    for (const key of keys) {
      const found = member(place, key);
      if (found === null || found.node.json === null) continue;
      checkTemplates(report, subject, found, 'worker');
      const literal = !containsTemplate(found.node.json);
      if (literal && !fits(found.node.json)) report.error('rule_retry', subject, found, `'${key}' must be ${text}`);
      return found.node.json;
    }
    return null;
  };
  const multiplier = number(['backoff_multiplier'], isDelay, 'a number of at least 0');
  warnCutDelay(report, subject, member(place, 'delay') ?? member(place, 'initial_delay'), null);
  return {
    index,
    when: "{{ output.status == 'error' }}",
    action: 'retry',
    set: [],
    to: null,
    attempts: number(['max_attempts', 'attempts'], isCount, 'an integer of at least 1'),
    delay: number(['delay', 'initial_delay'], isDelay, 'a number of at least 0') ?? 1,
    backoff: null,
    maxDelay: null,
    multiplier: literalNumber(multiplier) ?? 1,
  };
}

/** A literal delay that no try will wait for in full (language 7.7). */
function warnCutDelay(report: Report, subject: Subject, place: Place | null, max: Json): void {
  const delay = place === null ? null : literalNumber(place.node.json);
  const most = max === null ? MAX_DELAY_SECONDS : literalNumber(max);
  if (place === null || delay === null || most === null || delay <= most) return;
  const limit = max === null ? `${most} s, the default of 'max_delay'` : `'max_delay', ${most} s`;
  report.warn('rule_retry', subject, place, `'delay' of ${delay} s is cut to ${limit}`);
}

function isCount(value: Json): boolean {
  const number = literalNumber(value);
  return number !== null && Number.isInteger(number) && number >= 1;
}
function isDelay(value: Json): boolean {
  const number = literalNumber(value);
  return number !== null && number >= 0;
}
function isBackoff(value: Json): boolean {
  return typeof value === 'string' && BACKOFFS.has(value);
}

function warnUnreachableRules(report: Report, subject: Subject, rules: ListPlace): void {
  let after = false;
  for (const item of items(rules)) {
    if (after) report.warn('unreachable_rule', subject, item, 'this rule is never reached: it follows an else rule');
    after ||= isMapPlace(item) && !member(item, 'when') && !member(item, 'expr');
  }
}
