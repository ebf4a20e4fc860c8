import { expect, test } from 'vitest';
import { audited } from '../../actors/audit.ts';
import { DomainError } from '../../actors/errors.ts';
import { UnavailableError } from '../../actors/ports.ts';

function world(required: boolean, failure: Error | null) {
  const said: string[] = [];
  const tries: boolean[] = [];
  const log = { debug() {}, info() {}, warn: (message: string) => said.push(message), error() {} };
  const shown = audited({ required, log }, 'pg_auth', async (withRow) => {
    tries.push(withRow);
    if (withRow && failure !== null) throw failure;
    return 'data';
  });
  return { shown, said, tries };
}

const BROKEN = new Error('permission denied for table audit');

test('a reveal is made once, with its row, where that can be written', async () => {
  const { shown, said, tries } = world(false, null);
  expect([await shown, said, tries]).toEqual(['data', [], [true]]);
});

test('a reveal without its row fails where the row is required', async () => {
  const { shown, tries } = world(true, BROKEN);
  await expect(shown).rejects.toBe(BROKEN);
  expect(tries).toEqual([true]);
});

test('elsewhere it is made without, and the log says so', async () => {
  const { shown, said, tries } = world(false, BROKEN);
  expect([await shown, tries]).toEqual(['data', [true, false]]);
  expect(said).toEqual(['A secret was shown without a row of the audit']);
});

test.each([new DomainError('not_found', 'Credential not found'), new UnavailableError('db_unavailable')])(
  '%s is an answer, and nothing is tried again',
  async (refusal) => {
    const { shown, tries } = world(false, refusal);
    await expect(shown).rejects.toBe(refusal);
    expect(tries).toEqual([true]);
  },
);
