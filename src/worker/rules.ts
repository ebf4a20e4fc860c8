/**
 * Policy rules of a task (language 7.5 to 7.7) as pure decisions: which rule answers to an outcome, what it orders, and
 * how long a retry waits.
 */
import type { Rule, Task } from '../../machines/playbook/document.ts';
import { MAX_DELAY_SECONDS } from '../../machines/playbook/read-rules.ts';

/** What follows a try. `rule` is null where no rule matched. */
export interface Ruling {
  readonly action: Rule['action'];
  readonly rule: Rule | null;
  /** `when` conditions that raised; they count as not matching. */
  readonly warnings: readonly string[];
}

/** `matches` evaluates a condition and may throw. The first match wins. */
export async function ruleOn(
  task: Pick<Task, 'name' | 'rules' | 'onUnmatched'>,
  ok: boolean,
  matches: (when: string | boolean) => Promise<boolean>,
): Promise<Ruling> {
  const warnings: string[] = [];
  for (const rule of task.rules) {
    try {
      if (rule.when === null || (await matches(rule.when))) return { action: rule.action, rule, warnings };
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown reason';
      warnings.push(`task '${task.name}' rule ${rule.index + 1}: ${reason}`);
    }
  }
  return { action: unmatched(task.onUnmatched, ok), rule: null, warnings };
}

function unmatched(onUnmatched: Task['onUnmatched'], ok: boolean): 'continue' | 'fail' {
  if (onUnmatched !== null) return onUnmatched === 'fail' ? 'fail' : 'continue';
  return ok ? 'continue' : 'fail';
}

export interface RetryPlan {
  /** Tries in total. */
  readonly attempts: number;
  /** Seconds. */
  readonly delay: number;
  readonly backoff: Backoff;
  readonly maxDelay: number;
  /** Legacy: the delay grows by this factor with each try. */
  readonly multiplier: number | null;
}

export type Backoff = 'none' | 'fixed' | 'linear' | 'exponential';

const ATTEMPTS = 3;
const DELAY_SECONDS = 1;

/** The rendered numbers of a retry rule; null means: not given. Throws a sentence for what is no number. */
export function retryPlan(given: {
  readonly attempts: unknown;
  readonly delay: unknown;
  readonly backoff: unknown;
  readonly maxDelay: unknown;
  readonly multiplier: number | null;
}): RetryPlan {
  const delayGiven = given.delay !== null && given.delay !== undefined;
  return {
    attempts: Math.max(1, Math.floor(numberOf('attempts', given.attempts) ?? ATTEMPTS)),
    delay: Math.max(0, numberOf('delay', given.delay) ?? DELAY_SECONDS),
    backoff: backoffOf(given.backoff, delayGiven || given.multiplier !== null),
    maxDelay: Math.max(0, numberOf('max_delay', given.maxDelay) ?? MAX_DELAY_SECONDS),
    multiplier: given.multiplier,
  };
}

/** Milliseconds before the next try; `n` is the number of tries made in this visit. */
export function retryDelayMs(plan: RetryPlan, n: number): number {
  const seconds = plan.multiplier === null ? delayOf(plan, n) : plan.delay * plan.multiplier ** (n - 1);
  return Math.min(seconds, plan.maxDelay) * 1000;
}

function delayOf({ backoff, delay }: RetryPlan, n: number): number {
  switch (backoff) {
    case 'none':
      return 0;
    case 'fixed':
      return delay;
    case 'linear':
      return delay * n;
    case 'exponential':
      return delay * 2 ** (n - 1);
  }
}

function backoffOf(given: unknown, delayGiven: boolean): Backoff {
  switch (given) {
    case null:
    case undefined:
      return delayGiven ? 'fixed' : 'none';
    case 'constant':
      return 'fixed';
    case 'none':
    case 'fixed':
    case 'linear':
    case 'exponential':
      return given;
    default:
      throw new RangeError("retry 'backoff' must be none, fixed, constant, linear or exponential");
  }
}

function numberOf(name: string, given: unknown): number | null {
  if (given === null || given === undefined) return null;
  const number = typeof given === 'string' && given.trim() !== '' ? Number(given) : given;
  if (typeof number === 'number' && Number.isFinite(number)) return number;
  throw new RangeError(`retry '${name}' must be a number`);
}
