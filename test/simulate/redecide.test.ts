import { describe, expect, test } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { parsePlaybook } from '../../machines/playbook/parse.ts';
import { recordedLog } from '../../src/simulate/recorded-log.ts';
import { logEventOf, PayloadMissing, redecide } from '../../src/simulate/redecide.ts';
import { arc, step } from '../support/playbooks.ts';
import { LIMITS } from '../support/story.ts';
import { documentOf, simulated } from './simulations.ts';

const tool = { kind: 'http', url: 'https://api.example.test' };

function playbookIn(content: string) {
  const parsed = parsePlaybook(content);
  if (!parsed.ok) throw new Error(parsed.errors.map(({ message }) => message).join());
  return parsed.playbook;
}

async function recorded(steps: readonly JsonMap[], options: JsonMap = {}, parentExecutionId: number | null = null) {
  const content = documentOf(steps);
  const log = recordedLog(await simulated(content, options), content);
  const identity = { executionId: log.execution_id, catalogId: log.catalog_id, path: log.path, version: log.version };
  // What was written down is read again.
  const rows = (JSON.parse(JSON.stringify(log.events)) as typeof log.events)
    .map(logEventOf)
    .map((row) => ({ ...row, parentExecutionId }));
  const again = (decidedBy = content, payloads = new Map()) =>
    redecide(rows, playbookIn(decidedBy), identity, LIMITS, payloads);
  return { rows, again };
}

const guarded = (when: string): JsonMap[] => [
  step('a', { tool, set: { 'ctx.n': '{{ output.data.n }}' }, next: { arcs: [arc('b', when), arc('c')] } }),
  step('b'),
  step('c'),
];

describe('deciding a log again', () => {
  test('finds nothing where nothing has changed', async () => {
    const loops = step('l', { tool, loop: { in: [1, 2, 3], iterator: 'i', spec: { mode: 'parallel' } } });
    const { rows, again } = await recorded(
      [...guarded('{{ a.n > 1 }}').slice(0, 2), step('c', { next: { arcs: [arc('l')] } }), loops],
      {
        outcomes: [
          { step: 'a', result: { n: 1 } },
          { step: 'l', iteration: 1, error: { message: 'no' } },
          { step: 'l', result: 1 },
        ],
      },
    );
    expect(again()).toEqual({
      turns: rows.filter((row) => row.causeId === row.eventId).length,
      folded: 0,
      difference: null,
    });
  });

  test('finds nothing in the log of a child either', async () => {
    const outcomes = [{ step: 'a', result: { n: 2 } }];
    const { again } = await recorded(guarded('{{ a.n > 1 }}'), { outcomes }, 7);
    expect(again().difference).toBeNull();
  });

  test('names the first row that another text decides differently', async () => {
    const { again } = await recorded(guarded('{{ a.n > 1 }}'), { outcomes: [{ step: 'a', result: { n: 2 } }] });
    const { difference } = again(documentOf(guarded('{{ a.n > 5 }}')));
    expect(difference?.cause.type).toBe('command.completed');
    expect(difference?.sentences).toEqual(['step.enter b was recorded; today step.enter c is decided']);
  });

  test('names the place of a value that came out differently', async () => {
    const { again } = await recorded(guarded('{{ a.n > 1 }}'), { outcomes: [{ step: 'a', result: { n: 2 } }] });
    const other = documentOf(guarded('{{ a.n > 1 }}')).replace('output.data.n }}', 'output.data.n + 1 }}');
    expect(again(other).difference?.sentences).toEqual(['ctx.updated.context.values.n: expected 2, got 3']);
  });

  test('asks for values that are stored apart', async () => {
    const rows = Array.from({ length: 5_000 }, (_, id) => ({ id, text: 'a row of some length' }));
    const steps = [step('a', { tool, next: { arcs: [arc('b', '{{ a.rows[4999].id == 4999 }}')] } }), step('b')];
    const { again } = await recorded(steps, { outcomes: [{ step: 'a', result: { rows } }] });
    const missing = (() => {
      try {
        return again();
      } catch (error) {
        return error;
      }
    })();
    expect(missing).toBeInstanceOf(PayloadMissing);
    const [ref = ''] = missing instanceof PayloadMissing ? missing.refs : [];
    expect(again(undefined, new Map([[ref, { rows }]])).difference).toBeNull();
  });
});
