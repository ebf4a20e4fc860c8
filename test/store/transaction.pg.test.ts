import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createPipeline, type Pipeline } from '../../src/store/pipeline.ts';
import { parameterOf, type Statement } from '../../src/store/transaction.ts';
import { databaseConfig, openTestDatabase, type TestDatabase } from '../support/database.ts';
import { queryRows, quiet } from '../support/postgres.ts';

let db: TestDatabase;
let pipeline: Pipeline;
const ignore = (): void => {};

beforeAll(async () => {
  db = await openTestDatabase();
  await queryRows(db.url, 'create table public.kept (id int primary key, note text)');
  pipeline = createPipeline(databaseConfig(db.url).url, 'commit', quiet);
});
afterAll(async () => {
  await pipeline.close();
  await db.close();
});

const keep = (id: number, note: unknown = null): Statement => ({
  name: 'keep',
  text: 'insert into public.kept (id, note) values ($1, $2)',
  values: [id, note],
});
const broken: Statement = { name: 'broken', text: 'select 1 / $1::int', values: [0] };
const kept = async () =>
  (await queryRows<{ id: number }>(db.url, 'select id from public.kept order by id')).map((row) => row.id);

describe('a transaction in one write', () => {
  test('is there as a whole when it resolves, and is told statement by statement', async () => {
    const answers: number[] = [];
    await pipeline.transact([keep(1, 'ä "quoted" \\'), keep(2)], (index) => answers.push(index));
    expect(answers).toEqual([0, 1]);
    expect(await queryRows(db.url, 'select * from public.kept where id < 10 order by id')).toEqual([
      { id: 1, note: 'ä "quoted" \\' },
      { id: 2, note: null },
    ]);
  });

  test('leaves nothing when one statement fails, says which, and the connection goes on', async () => {
    const answers: number[] = [];
    const attempt = pipeline.transact([keep(10), broken, keep(11)], (index) => answers.push(index));
    await expect(attempt).rejects.toMatchObject({ code: '22012' });
    expect(answers).toEqual([0]);
    // `broken` may or may not be prepared now; both it and what follows can be sent again.
    await expect(pipeline.transact([keep(10), broken], ignore)).rejects.toMatchObject({ code: '22012' });
    const never: Statement = { name: 'never', text: 'select no_such_function()', values: [] };
    await expect(pipeline.transact([never, keep(12)], ignore)).rejects.toMatchObject({ code: '42883' });
    await expect(pipeline.transact([never, keep(12)], ignore)).rejects.toMatchObject({ code: '42883' });
    await pipeline.transact([keep(13)], ignore);
    expect((await kept()).filter((id) => id >= 10)).toEqual([13]);
  });

  test('does not touch its neighbours on the way', async () => {
    const settled = await Promise.allSettled([
      pipeline.transact([keep(20)], ignore),
      pipeline.transact([keep(21), keep(20)], ignore),
      pipeline.send([{ name: 'one', text: 'select 1 as one', values: [] }]),
      pipeline.transact([keep(22)], ignore, { timed: true }),
    ]);
    expect(settled.map((one) => one.status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
    expect((await kept()).filter((id) => id >= 20)).toEqual([20, 22]);
  });

  test('whose end is refused is not taken for one that was kept', async () => {
    await queryRows(db.url, 'alter table public.kept add constraint late unique (note) deferrable initially deferred');
    const attempt = pipeline.transact([keep(30, 'same'), keep(31, 'same')], ignore);
    await expect(attempt).rejects.toMatchObject({ code: '23505' });
    expect((await kept()).filter((id) => id >= 30)).toEqual([]);
  });

  test('finds a value that cannot be sent before anything has left', async () => {
    await expect(pipeline.transact([keep(40), keep(41, { no: 'object' })], ignore)).rejects.toThrow(TypeError);
    await pipeline.transact([keep(42)], ignore);
    expect((await kept()).filter((id) => id >= 40)).toEqual([42]);
  });
});

test('lists keep their quotes, backslashes, empty texts and the word NULL', async () => {
  const list = ['a,b', '"', '\\', '', 'NULL', null, '{x}', 'ü'];
  const [row] = await queryRows<{ list: unknown }>(db.url, 'select $1::text[] as list', [parameterOf(list)]);
  expect(row?.list).toEqual(list);
});
