/** A Database on a test database, and the catalog row that executions must refer to. */
import { createDatabase, type Database, type DatabaseConfig } from '../../src/store/pool.ts';
import { quiet, startTestPostgres } from './postgres.ts';

export interface TestDatabase {
  readonly url: string;
  readonly database: Database;
  readonly catalogId: number;
  close(): Promise<void>;
}

export function databaseConfig(url: string, more: Partial<DatabaseConfig> = {}): DatabaseConfig {
  return { url, listenUrl: url, poolMin: 0, poolMax: 6, acquireTimeoutSeconds: 5, waitingMax: 50, ...more };
}

export async function openTestDatabase(more: Partial<DatabaseConfig> = {}): Promise<TestDatabase> {
  const postgres = await startTestPostgres();
  const database = createDatabase(databaseConfig(postgres.url, more), quiet);
  const catalogId = 900;
  await addCatalogEntry(database, catalogId);
  return {
    url: postgres.url,
    database,
    catalogId,
    async close() {
      await database.close();
      await postgres.stop();
    },
  };
}

export async function addCatalogEntry(database: Database, catalogId: number, path = 'suite/flow'): Promise<void> {
  await database.reads.run(
    `insert into core.catalog (catalog_id, path, version, kind, content, payload, sha256)
     values ($1, $2, 1, 'playbook', 'x', '{}', '\\x00')`,
    [catalogId, path],
  );
}
