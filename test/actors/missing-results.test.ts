import { describe, expect, test } from 'vitest';
import type { GrantedCommand } from '../../actors/services.ts';
import type { JsonMap } from '../../machines/json.ts';
import { checkStore } from '../support/invariants.ts';
import { arc, every, step } from '../support/playbooks.ts';
import { World } from '../support/world.ts';

const REF = 'callboard://execution/1/result/start/99';
/** What a worker reports of a value that it stored apart; the store has lost it, or never had it. */
const GONE = {
  reference: { ref: REF, store: 'db', bytes: 99_999, sha256: 'x' },
  summary: { _ref: REF, total: 3 },
} as const;

async function reportGone(steps: readonly JsonMap[], settings = {}) {
  const world = new World({ one: steps }, settings);
  const { executionId } = await world.start('one');
  const [command] = await world.claim();
  // The only step of the playbook that is open.
  await world.report(command as GrantedCommand, GONE);
  return { world, row: world.row(executionId), log: world.store.log(executionId) };
}

describe('a stored result that is gone', () => {
  test.each([
    ['a guard', [step('start', every(arc('next', '{{ start.rows | length > 0 }}'))), step('next')]],
    ['the set of a step', [step('start', { set: { first: '{{ start.rows[0] }}' }, ...every('next') }), step('next')]],
    ['the set of an arc', [step('start', every(arc('next', { set: { all: '{{ start }}' } }))), step('next')]],
    [
      'a collection',
      [step('start', every('next')), step('next', { loop: { in: '{{ start.rows }}', iterator: 'row' } })],
    ],
  ])('fails what needs it in %s, by name', async (_where, steps) => {
    const { world, row } = await reportGone(steps);
    expect(row.status).toBe('failed');
    expect(row.error).toContain(`Result not found: ${REF}`);
    expect(row.errorDetail?.['errors']).toMatchObject([{ kind: 'missing_reference' }]);
    checkStore(world.store);
  });

  test('fails no one who reads what the summary holds', async () => {
    const { row } = await reportGone([step('start', every(arc('next', '{{ start.total == 4 }}'))), step('next')]);
    expect(row.status).toBe('completed');
  });
});

test('a turn that needs more than the memory of the server fails its execution instead of asking for ever', async () => {
  const world = new World(
    { one: [step('start', every(arc('next', '{{ start.rows | length > 0 }}'))), step('next')] },
    { payloadBytesMax: 1_000 },
  );
  const { executionId } = await world.start('one');
  const [command] = await world.claim();
  const rows = Array.from({ length: 30_000 }, (_, id) => ({ id }));
  // The only step of the playbook that is open.
  await world.report(command as GrantedCommand, { data: { rows } });
  // What is stored with a turn is at hand in it.
  await world.report((await world.claim())[0] as GrantedCommand);
  expect(world.row(executionId)).toMatchObject({ status: 'completed' });
  world.crash();
  const again = await world.start('one');
  const [second] = await world.claim();
  await world.report(second as GrantedCommand, { ...GONE, reference: { ...GONE.reference, ref: refOf(world) } });
  // It is ended by a flush of its own.
  await world.server.recovery.drain(again.executionId);
  expect(world.row(again.executionId).error).toContain('more stored results at once than fit into memory');
  checkStore(world.store);
});

/** The one payload that was stored. */
function refOf(world: World): string {
  const result = world.store
    .executions()
    .flatMap(({ executionId }) => world.store.log(executionId))
    .find((event) => event.type === 'call.done' && event.result?.reference !== undefined)?.result;
  const ref = result?.reference?.ref;
  if (ref === undefined) throw new Error('nothing was stored apart');
  return ref;
}
