import { describe, expect, test } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { explore } from '../../src/simulate/explore.ts';
import { arc, playbookOf, step } from '../support/playbooks.ts';
import { LIMITS } from '../support/story.ts';

const explored = (steps: readonly JsonMap[], pathsMax = 2_000) =>
  explore(playbookOf(steps), LIMITS, { pathsMax, activationsMax: 3 });
const found = (steps: readonly JsonMap[]) => explored(steps).findings.map(({ code, step: name }) => `${code} ${name}`);
const next = (...arcs: readonly JsonMap[]): JsonMap => ({ next: { arcs: [...arcs] } });
const both = (...arcs: readonly JsonMap[]): JsonMap => ({ next: { spec: { mode: 'inclusive' }, arcs: [...arcs] } });

describe('exploring', () => {
  test('goes every way: ends, failures, guards and empty loops', () => {
    const { routes, complete, findings } = explored([
      step('a', next(arc('b', '{{ a.ready }}'), arc('c'))),
      step('b', { loop: { in: '{{ a.rows }}', iterator: 'row' } }),
      step('c'),
    ]);
    expect(complete).toBe(true);
    expect(findings).toEqual([]);
    expect(routes.map(({ steps, end }) => `${steps.join(' ')} ${end}`)).toEqual([
      'a b completed',
      'a b! failed',
      'a c completed',
      'a c! failed',
      'a! failed',
    ]);
  });

  test('finds guards that no event makes true, and what lies behind them', () => {
    const steps = [
      step(
        'a',
        next(arc('b', "{{ event.name == 'loop.done' and a.many }}"), arc('c', "{{ event.name == 'step.done' }}")),
      ),
      step('b'),
      step('c'),
    ];
    expect(found(steps)).toEqual(['guard_never_true a', 'step_never_runs b']);
    expect(explored(steps).findings.map(({ line }) => line)).toEqual([expect.any(Number), expect.any(Number)]);
  });

  test('leaves guards alone that data decides', () => {
    expect(found([step('a', next(arc('b', '{{ workload.x > 3 }}'))), step('b')])).toEqual([]);
  });

  test('finds arcs behind one that is always taken', () => {
    const steps = [step('a', next(arc('b'), arc('c', '{{ a.x }}'))), step('b'), step('c')];
    expect(found(steps)).toEqual(['guard_never_asked a', 'step_never_runs c']);
  });

  test('an error arc behind an unguarded one is asked after a failure', () => {
    const steps = [step('a', next(arc('b'), arc('c', "{{ event.name == 'call.error' }}"))), step('b'), step('c')];
    expect(found(steps)).toEqual([]);
  });

  test('finds joins whose branches exclude each other, and not those that meet', () => {
    const branches = [step('b', next(arc('j'))), step('c', next(arc('j'))), step('j')];
    expect(found([step('a', next(arc('b', '{{ a.x }}'), arc('c'))), ...branches])).toEqual(['join_never_meets j']);
    expect(found([step('a', both(arc('b'), arc('c'))), ...branches])).toEqual([]);
  });

  test('finds loops that nothing leaves, and not those with a way out', () => {
    const turn = (when: string): JsonMap => next(arc('again', when), arc('a', `{{ not a.done }}`));
    expect(found([step('a', turn('{{ a.done }}')), step('again', next(arc('a')))])).toEqual(['loop_without_exit a']);
    expect(found([step('a', next(arc('a', '{{ a.more }}')))])).toEqual([]);
  });

  test('says when there are more ways than it may look at', () => {
    const many = Array.from({ length: 12 }, (_, index) =>
      step(`s${index}`, next(arc(`s${index + 1}`, `{{ x${index} }}`), arc(`s${index + 1}`, `{{ y${index} }}`))),
    );
    const { complete, paths } = explored([...many, step('s12')], 50);
    expect({ complete, paths }).toEqual({ complete: false, paths: 50 });
  });
});
