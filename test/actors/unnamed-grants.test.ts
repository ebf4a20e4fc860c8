import { expect, test } from 'vitest';
import type { CommandHint } from '../../actors/ports.ts';
import { UnnamedGrants } from '../../actors/unnamed-grants.ts';
import { command, held as heldBy } from '../conformance/rows.ts';

const hint: CommandHint = {
  executionId: 1,
  commandId: 11,
  pool: 'shared',
  priority: 0,
  toolKind: 'noop',
  stepName: 'a',
  attempt: 0,
  republishCount: 0,
  trace: null,
};
const granted = (commandId: number) => command(1, 900, commandId, heldBy('anna'));

function grantsOf(held: readonly CommandHint[] = []) {
  let asked = 0;
  const grants = new UnnamedGrants(async () => {
    asked += 1;
    return held;
  });
  return { grants, asked: () => asked };
}

test('a claim id nobody was granted anything under costs no look at the rows', async () => {
  const { grants } = grantsOf();
  grants.granted(granted(11), 'first', 0);
  expect(await grants.mayKnow('anna', 'second', 0)).toBe(false);
  expect(await grants.mayKnow('anna', 'first', 0)).toBe(true);
});

test('every claim id may be a repeated one while there are grants of another process', async () => {
  const { grants, asked } = grantsOf([hint]);
  expect(await Promise.all([grants.mayKnow('anna', 'poll', 0), grants.mayKnow('anna', 'report', 0)])).toEqual([
    true,
    true,
  ]);
  grants.named('anna', [11]);
  expect(await grants.mayKnow('anna', 'report', 0)).toBe(false);
  expect(asked()).toBe(1);
});

test('a grant stays known under its claim id however many claims follow', async () => {
  const { grants } = grantsOf();
  for (let each = 0; each < 100; each += 1) grants.granted(granted(each), `claim-${each}`, 0);
  expect(await grants.mayKnow('anna', 'claim-0', 0)).toBe(true);
});

test('what the worker names is not offered again, what it is silent about is, each ten seconds', async () => {
  const { grants } = grantsOf([hint, { ...hint, commandId: 12 }]);
  grants.granted(granted(11), 'first', 0);
  grants.granted(granted(12), 'first', 0);
  grants.named('anna', [12]);
  expect(await grants.forgotten('anna', 9_999)).toEqual([]);
  expect((await grants.forgotten('anna', 10_000)).map((each) => each.commandId)).toEqual([11]);
  expect(await grants.forgotten('anna', 19_000)).toEqual([]);
  grants.named('anna', [12]);
  expect((await grants.forgotten('anna', 20_000)).map((each) => each.commandId)).toEqual([11]);
});

test('what it does not hold any more is not offered', async () => {
  const { grants } = grantsOf([]);
  grants.granted(granted(11), 'first', 0);
  expect(await grants.forgotten('anna', 10_000)).toEqual([]);
  expect(await grants.mayKnow('anna', 'first', 10_000)).toBe(false);
});

test('after a doubt the rows are looked at again, and from time to time without one', async () => {
  const { grants, asked } = grantsOf([hint]);
  await grants.mayKnow('anna', 'first', 0);
  await grants.mayKnow('anna', 'first', 9_999);
  expect(asked()).toBe(1);
  grants.doubt('anna');
  await grants.mayKnow('anna', 'first', 9_999);
  expect(asked()).toBe(2);
  await grants.mayKnow('anna', 'first', 20_000);
  expect(asked()).toBe(3);
});

test('a look that failed is taken again', async () => {
  let isAway = true;
  const grants = new UnnamedGrants(async () => {
    if (isAway) throw new Error('the database is away');
    return [hint];
  });
  await expect(grants.mayKnow('anna', 'first', 0)).rejects.toThrow('away');
  isAway = false;
  expect(await grants.mayKnow('anna', 'first', 0)).toBe(true);
});

test('workers that come under ever new names push out the oldest, who is learned anew', async () => {
  const { grants, asked } = grantsOf([hint]);
  await grants.mayKnow('anna', 'first', 0);
  await grants.mayKnow('anna', 'first', 0);
  expect(asked()).toBe(1);
  for (let each = 0; each < 10_000; each += 1) grants.doubt(`pod-${each}`);
  expect(await grants.mayKnow('anna', 'first', 0)).toBe(true);
  expect(asked()).toBe(2);
});
