/** Rows of `core.encryption_key`: which keys this database knows, each with a canary that proves it. */
import type { Canary, CanaryStore } from '../crypto/vault.ts';
import { onlyRow } from './only-row.ts';
import type { Sql } from './pool.ts';

export function createCanaryStore(database: Sql): CanaryStore {
  return {
    list: () => database.rows<Canary>(`${SELECT} order by created_at, kid`),
    async add(kid, canary) {
      await database.run('insert into core.encryption_key (kid, canary) values ($1, $2) on conflict (kid) do nothing', [
        kid,
        canary,
      ]);
      // Another server may have planted its own meanwhile: the stored one counts.
      return onlyRow(await database.rows<Canary>(`${SELECT} where kid = $1`, [kid]));
    },
  };
}

/** The keys a database knows before it is brought up to date; none where there is no table of them yet. */
export async function canariesIn(database: Pick<Sql, 'rows'>): Promise<readonly Canary[]> {
  const { found } = onlyRow(
    await database.rows<{ found: boolean }>(`select to_regclass('core.encryption_key') is not null as found`),
  );
  return found ? database.rows<Canary>(`${SELECT} order by created_at, kid`) : [];
}

const SELECT = 'select kid, canary, retired_at is not null as retired from core.encryption_key';
