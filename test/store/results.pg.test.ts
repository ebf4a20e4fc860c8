import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createResultService } from '../../actors/result-service.ts';
import type { ResultService } from '../../actors/services.ts';
import type { Json } from '../../machines/json.ts';
import { partOfJson } from '../../src/host/json-part.ts';
import { writeJson } from '../../src/host/json-slices.ts';
import { createDatabase, type Database } from '../../src/store/pool.ts';
import { createResultStore } from '../../src/store/results.ts';
import { queryRows, quiet, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
let database: Database;
let results: ResultService;
let lastId = 3000;

beforeAll(async () => {
  postgres = await startTestPostgres();
  const pool = { poolMin: 0, poolMax: 8, acquireTimeoutSeconds: 5, waitingMax: 100 };
  database = createDatabase({ url: postgres.url, listenUrl: postgres.url, ...pool }, quiet);
  results = createResultService({
    store: createResultStore(database.reads),
    ids: { next: () => ++lastId, reserve: async () => {} },
    clock: { now: () => Date.now() },
    write: writeJson,
    part: partOfJson,
  });
  await queryRows(
    postgres.url,
    `insert into core.catalog (catalog_id, path, version, kind, content, payload, sha256)
     values (1, 'a', 1, 'playbook', '', '{}', '')`,
  );
  await execution(41007, 'running');
  await execution(41008, 'completed');
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

const ROWS: Json = { status: 'ok', rows: Array.from({ length: 5000 }, (_, id) => ({ id, name: `n${id}` })) };

async function text(ref: string, path?: string): Promise<string | undefined> {
  const found = await results.resolve(ref, path);
  return found === null ? undefined : new TextDecoder().decode(found.data);
}

describe('a stored result', () => {
  test('comes back byte for byte, compressed where that pays', async () => {
    const stored = await put(41007, 'export', ROWS);
    expect(stored).toMatchObject({
      ref: `callboard://execution/41007/result/export/${lastId}`,
      store: 'db',
      bytes: Buffer.byteLength(JSON.stringify(ROWS)),
      summary: { status: 'ok', rows_count: 5000, _ref: stored.ref, _store: 'db', _size_bytes: stored.bytes },
    });
    expect(await text(stored.ref)).toBe(JSON.stringify(ROWS));
    expect((await results.resolve(stored.ref))?.sha256).toBe(stored.sha256);
    const [row] = await queryRows<{ encoding: string; size: number }>(
      postgres.url,
      'select encoding, length(data) as size from core.result where ref = $1',
      [stored.ref],
    );
    expect(row?.encoding).toBe('gzip');
    expect(row?.size).toBeLessThan(stored.bytes / 2);
  });

  test('is one row for the same bytes under the same name, also at once', async () => {
    const same = await Promise.all(Array.from({ length: 8 }, () => put(41007, 'same', { a: [1] })));
    expect(new Set(same.map((each) => each.ref)).size).toBe(1);
    expect((await put(41007, 'same', { a: [2] })).ref).not.toBe(same[0]?.ref);
    expect((await put(41007, 'other', { a: [1] })).ref).not.toBe(same[0]?.ref);
  });

  test.each([null, false, 0, '', 'text ☃', [], {}, [null, { ü: 'x' }]])('may be %j', async (value) => {
    const { ref } = await put(41007, 'any', value);
    expect(JSON.parse((await text(ref)) ?? '')).toEqual(value);
  });

  test('is found in part by a path', async () => {
    const { ref } = await put(41007, 'export', ROWS);
    expect(await text(ref, 'rows[17].name')).toBe('"n17"');
    expect(await text(ref, 'rows[-1].id')).toBe('4999');
    expect(await results.resolve(ref, 'rows[9999]')).toBeNull();
    expect(await results.resolve(ref, 'rows[0].constructor')).toBeNull();
  });

  test('keeps any name apart from the slashes of its reference', async () => {
    const { ref } = await put(41007, 'a/b c%2F☃', 1);
    expect(await text(ref)).toBe('1');
    expect((await results.newest(41007, 'a/b c%2F☃'))?.ref).toBe(ref);
  });

  test('is not found when it has expired, or by a text that is no reference', async () => {
    const { ref, expiresAt } = await put(41007, 'brief', 1, { ttlSeconds: -5 });
    expect(expiresAt).not.toBeNull();
    expect(await results.resolve(ref)).toBeNull();
    for (const text of ['', 'x', ref.replace('41007', '41008'), `${ref}/`, ref.replace('callboard:', 'http:')]) {
      expect(await results.resolve(text)).toBeNull();
    }
    expect((await put(41007, 'brief', 1)).expiresAt).toBeNull();
    expect(await results.resolve(ref)).not.toBeNull();
  });

  test('needs an execution, a name and a known scope', async () => {
    await expect(put(99, 'x', 1)).rejects.toMatchObject({ code: 'not_found', message: 'Execution 99 not found' });
    await expect(put(41007, '', 1)).rejects.toMatchObject({ code: 'validation_error' });
    await expect(put(41007, 'x', 1, { scope: 'world' })).rejects.toMatchObject({ code: 'validation_error' });
  });
});

describe('results of an execution', () => {
  test('are listed newest first, and deleted by scope once it has ended', async () => {
    const one = await put(41008, 'one', 1, { scope: 'step' });
    const two = await put(41008, 'one', 2);
    expect((await results.list(41008)).map((each) => each.ref)).toEqual([two.ref, one.ref]);
    expect((await results.newest(41008, 'one'))?.ref).toBe(two.ref);
    await expect(results.remove(41007, null)).rejects.toMatchObject({ code: 'validation_error' });
    expect(await results.remove(41008, 'step')).toBe(1);
    expect(await results.remove(41008, null)).toBe(1);
    expect(await results.list(41008)).toEqual([]);
    await expect(results.list(99)).rejects.toMatchObject({ code: 'not_found' });
  });
});

function put(executionId: number, name: string, data: Json, more: Partial<Parameters<ResultService['put']>[1]> = {}) {
  const plain = {
    scope: 'execution',
    sourceStep: null,
    ttlSeconds: null,
    mediaType: 'application/json',
    commandId: null,
  };
  return results.put(executionId, { ...plain, select: [], ...more, name, data });
}

async function execution(id: number, status: 'running' | 'completed'): Promise<void> {
  await queryRows(
    postgres.url,
    `insert into core.execution (execution_id, root_execution_id, catalog_id, path, version, kind, pool, status, workload,
       progress, last_event_id, handled_through, engine_version, machine_version, start_time, end_time)
     values ($1, $1, 1, 'a', 1, 'playbook', 'shared', $2, '{}', 100, 1, 1, 1, 1, now(), case $2 when 'running' then null else now() end)`,
    [id, status],
  );
}
