import { describe, expect, it } from 'vitest';
import type { Rule } from '../../machines/playbook/document.ts';
import { retryDelayMs, retryPlan, ruleOn } from '../../src/worker/rules.ts';

const NOT_GIVEN = { attempts: null, delay: null, backoff: null, maxDelay: null, multiplier: null };

function delays(given: Partial<Parameters<typeof retryPlan>[0]>, tries: number): number[] {
  const plan = retryPlan({ ...NOT_GIVEN, ...given });
  return Array.from({ length: tries }, (_, index) => retryDelayMs(plan, index + 1));
}

describe('the delay of a retry', () => {
  it.each([
    ['nothing given', {}, [0, 0]],
    ['a delay alone is fixed', { delay: 2 }, [2000, 2000]],
    ['constant', { delay: 2, backoff: 'constant' }, [2000, 2000]],
    ['none', { delay: 2, backoff: 'none' }, [0, 0]],
    ['fixed without a delay', { backoff: 'fixed' }, [1000, 1000]],
    ['linear', { delay: 2, backoff: 'linear' }, [2000, 4000]],
    ['exponential', { delay: 0.5, backoff: 'exponential' }, [500, 1000, 2000]],
    ['exponential up to max_delay', { delay: '0.5', backoff: 'exponential', maxDelay: 0.8 }, [500, 800, 800]],
    ['the legacy multiplier', { delay: 1, multiplier: 3 }, [1000, 3000, 9000]],
  ])('%s', (_title, given, expected) => {
    expect(delays(given, expected.length)).toEqual(expected);
  });

  it('defaults to three attempts and takes numeric text', () => {
    expect(retryPlan(NOT_GIVEN).attempts).toBe(3);
    expect(retryPlan({ ...NOT_GIVEN, attempts: '4' }).attempts).toBe(4);
    expect(retryPlan({ ...NOT_GIVEN, attempts: 0 }).attempts).toBe(1);
  });

  it('refuses what is no number and no backoff', () => {
    expect(() => retryPlan({ ...NOT_GIVEN, delay: 'soon' })).toThrow("'delay' must be a number");
    expect(() => retryPlan({ ...NOT_GIVEN, backoff: 'wild' })).toThrow("'backoff' must be");
  });
});

function rule(change: Partial<Rule>): Rule {
  return {
    index: 0,
    when: null,
    action: 'continue',
    set: [],
    to: null,
    attempts: null,
    delay: null,
    backoff: null,
    maxDelay: null,
    multiplier: null,
    ...change,
  };
}

describe('the rule that answers', () => {
  const matches = async (when: string | boolean) => {
    if (when === 'raises') throw new Error('division by zero');
    return when === true || when === 'yes';
  };
  const judged = async (rules: Rule[], ok: boolean, onUnmatched: 'fail' | 'continue' | null = null) =>
    ruleOn({ name: 'call', rules, onUnmatched }, ok, matches);

  it('is the first whose condition holds', async () => {
    const rules = [rule({ when: 'no', action: 'fail' }), rule({ when: 'yes', action: 'break' }), rule({})];
    expect(await judged(rules, true)).toMatchObject({ action: 'break', rule: { when: 'yes' } });
  });

  it('may be the else rule', async () => {
    expect(await judged([rule({ when: false }), rule({ action: 'jump' })], true)).toMatchObject({ action: 'jump' });
  });

  it('is none whose condition raises, and that is noted', async () => {
    const ruling = await judged([rule({ when: 'raises', action: 'fail' })], true);
    expect(ruling).toMatchObject({ action: 'continue', rule: null });
    expect(ruling.warnings).toEqual(["task 'call' rule 1: division by zero"]);
  });

  it.each([
    [true, null, 'continue'],
    [false, null, 'fail'],
    [true, 'fail', 'fail'],
    [false, 'continue', 'continue'],
    [false, 'fail', 'fail'],
  ] as const)('unmatched: ok %s with on_unmatched %s is %s', async (ok, onUnmatched, action) => {
    expect(await judged([rule({ when: 'no', action: 'break' })], ok, onUnmatched)).toMatchObject({
      action,
      rule: null,
    });
  });
});
