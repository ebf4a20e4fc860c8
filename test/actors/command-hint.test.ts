import { describe, expect, test, vi } from 'vitest';
import { hintIn, hintOf, messageOf } from '../../actors/command-hint.ts';
import { command } from '../conformance/rows.ts';
import { step } from '../support/playbooks.ts';
import { World } from '../support/world.ts';

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const row = {
  ...command(41007, 1, 41012, { pool: 'shared' }),
  stepName: 'fetch',
  toolKind: 'http',
  priority: 3,
  attempt: 1,
  republishCount: 2,
  meta: { trace: TRACE },
};

describe('the announcement of a command', () => {
  test('names it, its step, its pool and its claim handle, and nothing of its inputs', () => {
    expect(messageOf(hintOf({ ...row, context: { render_context: { password: 'p4ss' } } }))).toEqual({
      execution_id: 41007,
      command_id: 41012,
      event_id: 41012,
      step: 'fetch',
      pool: 'shared',
      attempt: 1,
      republish_count: 2,
      priority: 3,
      tool_kind: 'http',
      trace: TRACE,
    });
  });

  test('comes back as it was', () => {
    for (const hint of [hintOf(row), { ...hintOf(row), trace: null, retry: true }]) {
      expect(hintIn('shared', messageOf(hint))).toEqual({ retry: false, ...hint });
    }
  });

  test.each([
    null,
    [],
    'x',
    {},
    { execution_id: 1, command_id: 2 },
    { execution_id: '1', command_id: 2, tool_kind: 'http' },
    { execution_id: 1.5, command_id: 2, tool_kind: 'http' },
    { execution_id: 1, command_id: -2, tool_kind: 'http' },
    { execution_id: 1, command_id: 2 ** 60, tool_kind: 'http' },
    { execution_id: 1, command_id: 2, tool_kind: {} },
  ])('is not read from %j', (message) => {
    expect(hintIn('shared', message)).toBeNull();
  });

  test('counts a priority that nobody can give as none', () => {
    for (const priority of [0.5, 101, -101, '5', null, 1e308]) {
      const message = { execution_id: 1, command_id: 2, tool_kind: 'http', priority };
      expect(hintIn('shared', message)).toMatchObject({ priority: 0 });
    }
  });

  test('names the trace its execution was started with', async () => {
    const world = new World({ one: [step('a')] });
    const said: unknown[] = [];
    world.exchange.connect().subscribe((topic, hints) => {
      if (topic === 'commands.shared') said.push(...hints.map((hint) => hint['trace']));
    });
    await world.start('one', { trace: `${TRACE} vendor=1` });
    await world.start('one');
    await vi.waitFor(() => expect(said).toHaveLength(2));
    expect(said).toEqual([TRACE, null]);
  });
});
