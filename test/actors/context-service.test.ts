import { describe, expect, test } from 'vitest';
import { createContextService, type RenderRequest } from '../../actors/context-service.ts';
import type { GrantedCommand } from '../../actors/services.ts';
import type { Json } from '../../machines/json.ts';
import { arc, every, step } from '../support/playbooks.ts';
import { World } from '../support/world.ts';

const LIMITS = { steps: 1_000_000, outputBytes: 4_096, timeoutMs: 1_000 };

/** An execution whose first step has ended with data and written a variable. */
async function rendering(clock?: { now(): number }) {
  const world = new World({ one: [step('fetch', every(arc('next', { set: { 'ctx.page': 3 } }))), step('next')] });
  const { executionId } = await world.start('one', { workload: { who: 'me', n: 2 } });
  const [command] = await world.claim();
  // The only command there is.
  await world.report(command as GrantedCommand, { data: { rows: [1, 2] } });
  const context = createContextService({
    supervisor: world.server.supervisor,
    reads: world.store,
    clock: clock ?? world.clock,
    limits: LIMITS,
  });
  const render = (template: Json, change: Partial<RenderRequest> = {}) =>
    context.render({ executionId, template, extra: {}, strict: false, ...change });
  return { world, executionId, context, render };
}

describe('a rendering on request', () => {
  test('is of what is true, at a server that remembers the execution from before', async () => {
    const { render, world } = await rendering();
    const other = world.another();
    const [command] = await world.claim('bob', {}, other);
    await world.exchangeWith('bob', [world.reportOf(command as GrantedCommand, { data: 5 })], null, other);
    expect((await render('{{ next }}')).rendered).toBe(5);
  });

  test('finds the names the server knows, with native values, anywhere in a value', async () => {
    const { render, executionId } = await rendering();
    const template = {
      'to {{ who }}': ['{{ fetch.rows }}', '{{ workload.n + 1 }}', 5, null],
      id: '{{ execution_id }}',
      page: '{{ ctx.page }} of {{ steps.fetch.data.rows | length }}',
      none: '{{ nope }}',
    };
    const { rendered, names } = await render(template);
    expect(rendered).toEqual({
      'to me': [[1, 2], 3, 5, null],
      id: String(executionId),
      page: '3 of 2',
      none: null,
    });
    expect(names).toEqual([
      ...['workload', 'ctx', 'steps', 'args', 'execution_id', 'catalog_id', 'job', 'iter', 'path', 'version'],
      ...['page', 'fetch', 'who', 'n'],
    ]);
  });

  test('takes further names, which hide inputs and no reserved root', async () => {
    const { render } = await rendering();
    const extra = { who: 'you', workload: 'none', more: 1 };
    const { rendered, names } = await render(['{{ who }}', '{{ workload.who }}', '{{ more }}'], { extra });
    expect(rendered).toEqual(['you', 'me', 1]);
    expect(names).toContain('more');
  });

  test.each([
    ['{{ nope }}', 'body.template: the value is undefined'],
    ['{{ workload.nope }}', 'the value is undefined'],
    ['a {{ nope.deeper }}', 'an undefined value is printed'],
    ['{{ nope | upper }}', "filter 'upper' gets an undefined value"],
    ['{% for x in nope %}{{ x }}{% endfor %}', 'an undefined value is iterated'],
  ])('minds an undefined value when it is strict: %s', async (template, sentence) => {
    const { render } = await rendering();
    await expect(render(template, { strict: true })).rejects.toMatchObject({
      code: 'validation_error',
      message: expect.stringContaining(sentence),
    });
    await expect(render(template)).resolves.toBeTruthy();
  });

  test('lets a strict template ask whether a name is there', async () => {
    const { render } = await rendering();
    const template = ["{{ nope | default('x') }}", '{{ nope is defined }}', "{{ 'y' if nope is undefined }}"];
    expect((await render(template, { strict: true })).rendered).toEqual(['x', false, 'y']);
  });

  test.each([
    [{ a: ['{{ keychain.billing.token }}'] }, 'keychain cannot be rendered here'],
    [{ a: ['ok', '{{ 1 + }}'] }, 'body.template.a.1: '],
    ['{{ 1 / 0 }}', 'body.template: '],
    ["{{ 'x' * 5000 }}", 'more than 4096 bytes'],
    [Array.from({ length: 10 }, () => "{{ 'x' * 500 }}"), 'more than '],
  ])('refuses %j with a sentence', async (template, sentence) => {
    const { render } = await rendering();
    await expect(render(template)).rejects.toMatchObject({
      code: 'validation_error',
      message: expect.stringContaining(sentence),
      data: { errors: [expect.stringContaining(sentence)] },
    });
  });

  test('ends many small templates together in time', async () => {
    let at = 0;
    const { render } = await rendering({ now: () => (at += 10) });
    const many = Array.from({ length: 200 }, () => '{{ who }}');
    await expect(render(many)).rejects.toMatchObject({ code: 'validation_error' });
    await expect(render(many.slice(0, 20))).resolves.toBeTruthy();
  });

  test('of an unknown execution is not found', async () => {
    const { context } = await rendering();
    await expect(context.render({ executionId: 9, template: '', extra: {}, strict: false })).rejects.toMatchObject({
      code: 'not_found',
      message: 'Execution 9 not found',
    });
  });
});
