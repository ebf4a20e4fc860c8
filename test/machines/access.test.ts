import { describe, expect, test } from 'vitest';
import {
  type AccessRules,
  accessRefusal,
  accessRuleProblems,
  accessRulesOf,
  admits,
  highestRole,
  includesRole,
  mayAccess,
  type Permission,
  type TokenRole,
} from '../../machines/access.ts';

describe('roles', () => {
  test('of people include those below them, and a worker stands apart', () => {
    const roles: readonly TokenRole[] = ['viewer', 'operator', 'admin', 'worker'];
    const table = roles.map((role) => roles.filter((needed) => includesRole(role, needed)));
    expect(table).toEqual([['viewer'], ['viewer', 'operator'], ['viewer', 'operator', 'admin'], ['worker']]);
  });

  test('are admitted by any mark of a row, and by no mark not at all', () => {
    expect(admits(['P'], 'worker')).toBe(true);
    expect(admits(['A', 'W'], 'worker')).toBe(true);
    expect(admits(['O'], 'viewer')).toBe(false);
    expect(admits([], 'admin')).toBe(false);
  });

  test('of which several are given count as the highest, and words that are none as nothing', () => {
    expect(highestRole(['viewer', 'admin', 'operator'])).toBe('admin');
    expect(highestRole(['worker', 'root'])).toBeNull();
  });
});

describe('rules of a playbook', () => {
  test('are read by permission, and what is not said is not narrowed', () => {
    expect(accessRulesOf({ access: { view: ['viewer'], execute: 'ann', modify: null } })).toEqual({
      view: ['viewer'],
      execute: ['ann'],
    });
    expect([accessRulesOf(undefined), accessRulesOf({}), accessRulesOf({ access: null })]).toEqual([{}, {}, {}]);
  });

  test('that cannot be read lock and do not open', () => {
    expect(accessRulesOf({ access: 'everybody' })).toEqual({ view: [], execute: [], modify: [] });
    expect(accessRulesOf({ access: { view: 7, execute: ['ann', 7] } })).toEqual({ view: [], execute: ['ann'] });
  });

  test('are refused with the place of what is wrong before they are stored', () => {
    expect(accessRuleProblems(undefined)).toEqual([]);
    expect(accessRuleProblems(null)).toEqual([]);
    expect(accessRuleProblems({ view: ['ann'], execute: null })).toEqual([]);
    expect(accessRuleProblems(['ann'])).toEqual(['meta.access: must be an object with view, execute and modify']);
    expect(accessRuleProblems({ read: [], view: 'ann', execute: [''], modify: [7] })).toEqual([
      'meta.access.read: must be view, execute or modify',
      'meta.access.view: must be a list of roles or subjects',
      'meta.access.execute: must be a list of roles or subjects',
      'meta.access.modify: must be a list of roles or subjects',
    ]);
  });

  const may = (rules: AccessRules, role: TokenRole, permission: Permission) =>
    mayAccess(rules, { role, subject: 'ann' }, permission);

  test('hold neither an admin nor a worker', () => {
    expect([may({ view: [] }, 'admin', 'view'), may({ execute: [] }, 'worker', 'execute')]).toEqual([true, true]);
  });

  test('are not needed to keep a worker from changing a playbook', () => {
    expect([may({}, 'worker', 'modify'), may({ modify: ['worker', 'ann'] }, 'worker', 'modify')]).toEqual([
      false,
      false,
    ]);
    expect(accessRefusal('worker', 'modify')).toBe('This needs the role operator');
  });

  test('narrow what a role allows and never widen it', () => {
    expect(may({ execute: ['ann'] }, 'viewer', 'execute')).toBe(false);
    expect(may({}, 'operator', 'execute')).toBe(true);
    expect(may({ execute: ['bob'] }, 'operator', 'execute')).toBe(false);
    expect(may({ execute: ['bob', 'ann'] }, 'operator', 'execute')).toBe(true);
    expect(may({ view: ['operator'] }, 'operator', 'view')).toBe(true);
    expect(may({ view: ['operator'] }, 'viewer', 'view')).toBe(false);
  });

  test('are named to whom they refuse, and the role to whom it is missing', () => {
    expect(accessRefusal('operator', 'modify')).toBe("The playbook's rules do not allow you to modify it");
    expect(accessRefusal('viewer', 'modify')).toBe('This needs the role operator');
  });
});
