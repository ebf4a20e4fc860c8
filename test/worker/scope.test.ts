import { describe, expect, it } from 'vitest';
import type { RenderContext } from '../../machines/execution/render-context.ts';
import { Facade } from '../../machines/playbook/template/facade.ts';
import { CommandScope } from '../../src/worker/scope.ts';
import { commandOf } from './commands.ts';

const none = () => undefined;
const step = (value: RenderContext['workload']) =>
  ({ status: 'completed', value, ref: null, error: null, activation: 1 }) as const;

function scopeOf(context: Partial<RenderContext> = {}, more: Partial<Parameters<typeof commandOf>[0]> = {}) {
  const command = commandOf({ tool: [{ name: 'call', kind: 'noop' }], context, ...more });
  return new CommandScope(command, { workerId: 'worker-7', serverUrl: 'http://callboard.test' }, none);
}

function seen(scope: CommandScope, name: string): unknown {
  const value = scope.lookup(name);
  return value instanceof Facade ? value.plain() : value;
}

describe('names in a worker, highest first', () => {
  it('reserved roots are hidden by nothing', () => {
    const scope = scopeOf({ workload: { ctx: 1, execution_id: 'x', iter: 1 }, args: { a: 1 } });
    scope.showInput({ workload: 'mine', args: 'mine', b: 2 });
    expect(seen(scope, 'workload')).toMatchObject({ ctx: 1 });
    expect(seen(scope, 'args')).toMatchObject({ a: 1, b: 2 });
    expect(seen(scope, 'execution_id')).toBe('41007');
    expect(seen(scope, 'job')).toEqual({ uuid: '41007', execution_id: '41007', id: '41007' });
    expect(seen(scope, 'iter')).toEqual({});
  });

  it('`event` belongs to the server: no input stands in for it', () => {
    const scope = scopeOf({ workload: { event: 'mine' } });
    scope.showInput({ event: 'mine' });
    expect(scope.lookup('event')).toBeUndefined();
    expect(seen(scope, 'workload')).toEqual({ event: 'mine' });
  });

  it('inputs, locals and labels hide variables, those steps, those inputs of the execution, those the rest', () => {
    const scope = scopeOf({ workload: { x: 'workload', path: 'given' }, ctx: {}, steps: { x: step({ n: 1 }) } });
    expect(seen(scope, 'x')).toEqual({ n: 1 });
    expect(seen(scope, 'path')).toBe('given');
    expect(seen(scope, 'version')).toBe(3);
    scope.assign([{ target: { key: 'x', scope: 'ctx', path: ['x'], value: null }, value: 'written' }]);
    expect(seen(scope, 'x')).toBe('written');
    scope.endTry('x', { label: true }, true);
    expect(seen(scope, 'x')).toEqual({ label: true });
    scope.assign([{ target: { key: 'x', scope: 'local', path: ['x'], value: null }, value: 'local' }]);
    expect(seen(scope, 'x')).toBe('local');
    scope.showInput({ x: 'input' });
    expect(seen(scope, 'x')).toBe('input');
    scope.showInput(null);
    expect(seen(scope, 'x')).toBe('local');
  });

  it('a variable written as null is not undefined', () => {
    const scope = scopeOf({ workload: { x: 'workload' }, ctx: { x: null } });
    expect(scope.lookup('x')).toBeNull();
    expect(seen(scope, 'ctx')).toEqual({ x: null });
    expect(scope.snapshot.ctx.member('x')).toBeNull();
  });

  it('an input that is null hides what the command says of itself', () => {
    expect(scopeOf({ workload: { path: null } }).lookup('path')).toBeNull();
  });

  it('the item of an iteration hides a variable of its name', () => {
    const iteration = { kind: 'item', iterator: 'user', item: 'ann', index: 0, total: 1 } as const;
    expect(seen(scopeOf({ ctx: { user: 'written' } }, { iteration }), 'user')).toBe('ann');
  });

  it('what nobody defines is undefined, inherited names too', () => {
    const scope = scopeOf();
    for (const name of ['nothing', 'constructor', 'toString', '__proto__', 'hasOwnProperty']) {
      expect(scope.lookup(name)).toBeUndefined();
    }
  });

  it('the command itself answers last', () => {
    const scope = scopeOf();
    expect(['step', 'command_id', 'worker_id', 'server_url', 'action'].map((name) => seen(scope, name))).toEqual([
      'fetch',
      41_012,
      'worker-7',
      'http://callboard.test',
      'noop',
    ]);
  });
});

describe('steps', () => {
  it('show status, data with accessors and the error of each', () => {
    const scope = scopeOf({ steps: { before: { ...step({ n: 1 }), failed_task: null } } });
    const before = scope.snapshot.steps.member('before');
    if (!(before instanceof Facade)) throw new Error('expected a facade');
    expect(before.member('status')).toBe('completed');
    const data = before.member('data');
    expect(data instanceof Facade && data.member('n')).toBe(1);
    expect(seen(scope, 'steps')).toMatchObject({ before: { status: 'completed', data: { n: 1 }, error: null } });
    expect(scope.snapshot.steps.member('after')).toBeUndefined();
    const passed = scopeOf({ steps: { before: { ...step({}), value: null, status: 'skipped', activation: 0 } } });
    expect(passed.lookup('before')).toBeUndefined();
    expect(seen(passed, 'steps')).toMatchObject({ before: { status: 'skipped', data: null, activation: 0 } });
    expect(passed.everything()).not.toHaveProperty('before');
    const error = { kind: 'server_error', code: 'HTTP_503', message: 'busy', status_code: 503 };
    const failed = scopeOf({ steps: { call: { ...step({}), status: 'failed', error } } });
    expect(seen(failed, 'steps')).toMatchObject({ call: { error: { ...error, status: 503 } } });
  });
});
