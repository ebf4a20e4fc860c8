import { expect, test } from 'vitest';
import { nameTools, TOOL_NAME_MAX, toolNameOf } from '../../../machines/playbook/tool-name.ts';

const named = (paths: readonly string[], taken: readonly string[] = []) => {
  const entries = paths.map((path, index) => ({ path, catalogId: index + 1 }));
  return Object.fromEntries([...nameTools(entries, new Set(taken))].map(([name, { path }]) => [name, path]));
};

test('a name is the path without what names cannot hold, cut to 64', () => {
  expect(toolNameOf('demo/greet.v2-b_c')).toBe('demo_greet_v2-b_c');
  expect(toolNameOf('a'.repeat(100))).toHaveLength(TOOL_NAME_MAX);
});

test('paths that come to one name bear their numbers, all of them', () => {
  expect(named(['a/b', 'a_b', 'c'])).toEqual({ a_b_1: 'a/b', a_b_2: 'a_b', c: 'c' });
});

test('a name that is taken is not given', () => {
  expect(named(['x/y'], ['x_y'])).toEqual({ x_y_1: 'x/y' });
});

test('a path that looks like a numbered name does not hide another', () => {
  expect(named(['a/b', 'a_b', 'a_b_2'])).toEqual({ a_b_1: 'a/b', a_b_2: 'a_b', a_b_2_3: 'a_b_2' });
});

test('numbers fit into long names', () => {
  const names = Object.keys(named([`${'a'.repeat(70)}/x`, `${'a'.repeat(70)}/y`]));
  expect(names).toHaveLength(2);
  for (const name of names) expect(name).toMatch(/^a{62}_[12]$/);
});
