import { describe, expect, test } from 'vitest';
import {
  accessRuleProblems,
  accessRulesOf,
  admits,
  includesRole,
  mayAccess,
  TOKEN_ROLES,
} from '../../machines/access.ts';

const who = (role: (typeof TOKEN_ROLES)[number], subject = 'someone') => ({ role, subject });

describe('roles', () => {
  test('include those below, and workers stand apart', () => {
    const table = TOKEN_ROLES.map((role) => TOKEN_ROLES.filter((needed) => includesRole(role, needed)));
    expect(table).toEqual([['viewer'], ['viewer', 'operator'], ['viewer', 'operator', 'admin'], ['worker']]);
  });

  test('without a mark a row is open to nobody', () => {
    for (const role of TOKEN_ROLES) expect([admits([], role), admits(['P'], role)]).toEqual([false, true]);
  });
});

describe('rules of a playbook', () => {
  const rules = accessRulesOf({ access: { view: ['operator'], execute: ['ann'], modify: [] } });

  test.each([
    [who('viewer'), 'view', false],
    [who('operator'), 'view', true],
    [who('operator', 'ann'), 'execute', true],
    [who('operator', 'bob'), 'execute', false],
    [who('viewer', 'ann'), 'execute', false],
    [who('operator', 'ann'), 'modify', false],
    [who('admin', 'bob'), 'modify', true],
    [who('worker', 'w'), 'execute', true],
  ] as const)('%o may %s: %s', (caller, permission, expected) => {
    expect(mayAccess(rules, caller, permission)).toBe(expected);
  });

  test('without a rule the role decides', () => {
    for (const meta of [undefined, {}, { access: null }, { access: {} }]) {
      expect(mayAccess(accessRulesOf(meta), who('viewer'), 'view')).toBe(true);
      expect(mayAccess(accessRulesOf(meta), who('viewer'), 'execute')).toBe(false);
      expect(mayAccess(accessRulesOf(meta), who('operator'), 'modify')).toBe(true);
    }
  });

  test('a rule that cannot be read lets nobody in, and is refused when it is stored', () => {
    for (const access of ['all', ['viewer'], { view: 5 }, { view: [5] }]) {
      expect(mayAccess(accessRulesOf({ access }), who('operator'), 'view')).toBe(false);
      expect(accessRuleProblems(access).length).toBeGreaterThan(0);
    }
    expect(accessRuleProblems({ start: ['viewer'] })).toEqual(['meta.access.start: must be view, execute or modify']);
    expect(accessRuleProblems({ view: ['viewer', 'ann'], execute: null })).toEqual([]);
  });
});
