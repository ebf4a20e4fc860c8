import { describe, expect, it } from 'vitest';
import { pipelineValue } from '../../../machines/playbook/pipeline-value.ts';

const done = (label: string, data: Parameters<typeof pipelineValue>[0][number]['data']) => ({ label, ok: true, data });

describe('the value of a pipeline', () => {
  it('promotes members of maps, later tasks win', () => {
    expect(pipelineValue([done('one', { a: 1, b: 1 }), done('two', { b: 2 })])).toMatchObject({ a: 1, b: 2 });
  });

  it('lets labels win over promoted names', () => {
    expect(pipelineValue([done('call', { status: 200, call: 'promoted' })])).toMatchObject({
      status: 200,
      call: { status: 200, call: 'promoted' },
    });
    expect(pipelineValue([done('init', { data: 1 }), done('data', { n: 2 })])['data']).toEqual({ n: 2 });
  });

  it('answers data with the promoted members unless a task produced data', () => {
    expect(pipelineValue([done('one', { a: 1 })])['data']).toEqual({ a: 1 });
    expect(pipelineValue([done('one', { data: { executed: true } })])['data']).toEqual({ executed: true });
  });

  it('answers data and value with the last datum when that is no map', () => {
    const value = pipelineValue([done('one', { data: 1, a: 1 }), done('two', [1, 2])]);
    expect(value).toMatchObject({ a: 1, data: [1, 2], value: [1, 2], two: [1, 2] });
    expect(pipelineValue([done('one', null)])).toMatchObject({ one: null, data: null, value: null });
  });

  it('does not promote what a failed task left behind, but keeps it under its label', () => {
    const value = pipelineValue([
      { label: 'missing', ok: false, data: { status_code: 404 } },
      done('report', { n: 1 }),
    ]);
    expect(value).toMatchObject({ missing: { status_code: 404 }, n: 1 });
    expect(value).not.toHaveProperty('status_code');
  });

  it('has results by label unless a task produced results', () => {
    expect(pipelineValue([done('one', { a: 1 }), done('two', 2)])['results']).toEqual({ one: { a: 1 }, two: 2 });
    expect(pipelineValue([done('one', { results: [1] })])['results']).toEqual([1]);
  });

  it('is what the loop body of the conformance playbooks shows', () => {
    const value = pipelineValue([done('init', { status: 'ok' }), done('add', { n: 3 }), done('closing', { final: 3 })]);
    expect(value).toMatchObject({ final: 3, closing: { final: 3 }, n: 3 });
  });

  it('keeps odd keys as data', () => {
    const value = pipelineValue([done('one', JSON.parse('{"__proto__": {"x": 1}}'))]);
    expect(Object.hasOwn(value, '__proto__')).toBe(true);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  });
});
