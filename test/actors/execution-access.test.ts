import { expect, test } from 'vitest';
import type { Caller } from '../../actors/audit.ts';
import { createExecutionAccess, createRuleNews, RULES_CHANGED } from '../../actors/execution-access.ts';
import type { BusTopic } from '../../actors/ports.ts';
import type { ExecutionListRequest, ReadService } from '../../actors/services.ts';
import type { AccessRules } from '../../machines/access.ts';
import type { JsonMap } from '../../machines/json.ts';
import { executionRow, fakeServices } from '../api/fake-services.ts';

/** Version 2003 may be seen by ann alone; 2004 has no rules. */
const RULES: Readonly<Record<number, AccessRules>> = { 2003: { view: ['ann'], execute: ['ann'] } };

function world(role: string, actor = 'bob') {
  let now = 0;
  let asked = 0;
  let rules = RULES;
  const wanted: unknown[] = [];
  const heard: ((topic: BusTopic, hints: readonly JsonMap[]) => void)[] = [];
  const said: unknown[] = [];
  const news = createRuleNews({
    publish: (topic, hints) => said.push([topic, hints]),
    subscribe: (listener) => {
      heard.push(listener);
      return () => {};
    },
  });
  const caller: Caller = { actor, role, requestId: 'r-1', ip: null };
  const reads: ReadService = {
    ...fakeServices().reads,
    execution: async (id) => (id === 9 ? null : executionRow({ executionId: id, catalogId: id === 1 ? 2003 : 2004 })),
    executions: async (request: ExecutionListRequest) => {
      wanted.push(request.exceptCatalogIds);
      return { rows: [], total: 0, totalIsExact: true, hasMore: false };
    },
    commands: async (filter) => {
      wanted.push(filter.exceptCatalogIds);
      return [];
    },
  };
  const access = createExecutionAccess({
    reads,
    rulesOf: async (which) => {
      asked += 1;
      return which === 'demo/greet' ? (rules[2003] ?? {}) : (rules[Number(which)] ?? {});
    },
    ruled: async () => Object.entries(rules).map(([id, each]) => ({ catalogId: Number(id), rules: each })),
    caller: () => caller,
    clock: { now: () => now },
    news,
  });
  return {
    access,
    reads: access.guarded(reads),
    wanted,
    asked: () => asked,
    later: () => (now += 1_000),
    /** The rules are these from now on; nobody is told. */
    rule: (changed: typeof RULES) => {
      rules = changed;
    },
    news,
    said,
    hear: (topic: BusTopic, hint: JsonMap) => {
      for (const listener of heard) listener(topic, [hint]);
    },
  };
}

const LIST = { page: 1, pageSize: 10 } as ExecutionListRequest;

test('who is held by the rules neither meets an execution nor its playbook', async () => {
  const { access } = world('operator');
  await expect(access.check(1, 'view')).rejects.toMatchObject({ code: 'forbidden' });
  await expect(access.checkPlaybook(2003, 'view')).rejects.toMatchObject({ code: 'forbidden' });
  await expect(access.checkPlaybook('demo/greet', 'execute')).rejects.toMatchObject({ code: 'forbidden' });
  expect([await access.allows(1, 'execute'), await access.allows(2, 'execute')]).toEqual([false, true]);
  // Whoever looks for it says that it is not there.
  await access.check(9, 'view');
});

test.each([
  ['admin', 'bob'],
  ['worker', 'bob'],
  ['operator', 'ann'],
])('a caller of the role %s named %s is let through', async (role, actor) => {
  const { access } = world(role, actor);
  await access.check(1, 'execute');
  expect(await access.allowsPlaybook('demo/greet', 'execute')).toBe(true);
});

test('lists are asked without the versions that the caller may not see', async () => {
  const held = world('viewer');
  await held.reads.executions(LIST);
  await held.reads.commands({ limit: 10 });
  expect(held.wanted).toEqual([[2003], [2003]]);
  const free = world('admin');
  await free.reads.executions(LIST);
  expect(free.wanted).toEqual([[]]);
});

test('rules are asked once a second', async () => {
  const { access, asked, later } = world('operator');
  await Promise.all([access.allows(1, 'view'), access.allows(1, 'view')]);
  expect(asked()).toBe(1);
  later();
  await access.allows(1, 'view');
  expect(asked()).toBe(2);
});

test('rules that were changed here hold at once, for what is asked and for lists', async () => {
  const { access, reads, wanted, rule, news, said } = world('viewer');
  expect([await access.allows(1, 'view'), await access.allows(2, 'view')]).toEqual([false, true]);
  await reads.executions(LIST);
  rule({ 2004: { view: ['ann'] } });
  news.tell();
  expect([await access.allows(1, 'view'), await access.allows(2, 'view')]).toEqual([true, false]);
  await reads.executions(LIST);
  expect(wanted).toEqual([[2003], [2004]]);
  expect(said).toEqual([['control', [{ action: RULES_CHANGED }]]]);
});

test('rules that another server changed hold when it is heard of', async () => {
  const { access, rule, hear } = world('viewer');
  expect(await access.allows(2, 'view')).toBe(true);
  rule({ 2004: { view: ['ann'] } });
  hear('control', { action: 'sweep' });
  hear('workers', { action: RULES_CHANGED });
  expect(await access.allows(2, 'view')).toBe(true);
  hear('control', { action: RULES_CHANGED });
  expect(await access.allows(2, 'view')).toBe(false);
});
