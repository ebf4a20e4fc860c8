import { afterAll, beforeAll, expect, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import type { CatalogStore } from '../../actors/catalog-service.ts';
import { createCatalogStore } from '../../src/store/catalog.ts';
import { createDatabase, type Database } from '../../src/store/pool.ts';
import { quiet, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
let database: Database;
let store: CatalogStore;

beforeAll(async () => {
  postgres = await startTestPostgres();
  const pool = { poolMin: 0, poolMax: 2, acquireTimeoutSeconds: 5, waitingMax: 10 };
  database = createDatabase({ url: postgres.url, listenUrl: postgres.url, ...pool }, quiet);
  store = createCatalogStore(database.reads, database.hot.lookups);
  const marks = { marked: true, hidden: false, text: 'true', none: null };
  let auditId = 1;
  for (const [name, exposes_as_mcp] of Object.entries(marks)) {
    auditId += 1;
    const metadata = exposes_as_mcp === null ? { name } : { name, exposes_as_mcp };
    const payload = { kind: 'Playbook', metadata };
    const draft = { catalogId: auditId + 100, path: `p/${name}`, kind: 'playbook', content: name, payload, meta: {} };
    const audit = {
      ...OPEN_CALLER,
      auditId,
      action: 'catalog.register',
      target: name,
      outcome: 'ok',
      detail: {},
    } as const;
    await store.add({ ...draft, createdBy: null }, false, audit);
  }
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

test.each([
  ['marked', ['p/marked']],
  ['all', ['p/marked', 'p/none', 'p/text']],
  [undefined, ['p/hidden', 'p/marked', 'p/none', 'p/text']],
] as const)('exposure %s finds %j', async (exposure, paths) => {
  const found = await store.list({
    versions: 'latest',
    includeArchived: false,
    includeContent: false,
    limit: 10,
    ...(exposure === undefined ? {} : { exposure }),
  });
  expect(found.map((entry) => entry.path)).toEqual(paths);
});
