/** Tokens kept for playbooks, chosen by playbook. */
import { get } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { query, setQuery } from '../core/router.ts';
import type { CatalogEntry } from '../core/wire.ts';
import { Card, PageHead } from '../parts/page.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { KeychainEntries } from '../playbook/keychain-entries.tsx';

export function Keychain() {
  const playbooks = useResource('playbooks', (signal) =>
    get<readonly CatalogEntry[]>('/api/catalog/playbooks', {}, signal),
  );
  const wanted = Number(query.value.get('catalog_id') ?? 0);
  const chosen = playbooks.data?.find((each) => each.catalog_id === wanted) ?? playbooks.data?.[0] ?? null;
  return (
    <>
      <PageHead
        title="Keychain"
        lead="Tokens that playbooks fetched and may use again. What they hold is never shown here."
      />
      {playbooks.error !== null && playbooks.data === null ? (
        <Failed error={playbooks.error} retry={playbooks.reload} />
      ) : playbooks.data === null ? (
        <Loading what="playbooks" />
      ) : chosen === null ? (
        <section class="card">
          <Empty icon="chain" title="There are no playbooks yet" />
        </section>
      ) : (
        <div class="stack">
          <div class="filters">
            <label class="row">
              <span class="soft">Playbook</span>
              <select
                value={chosen.catalog_id}
                onChange={(event) => setQuery({ catalog_id: event.currentTarget.value })}
              >
                {playbooks.data.map((each) => (
                  <option key={each.catalog_id} value={each.catalog_id}>
                    {each.path} (version {each.version})
                  </option>
                ))}
              </select>
            </label>
          </div>
          <Card title={`${chosen.path}, version ${chosen.version}`} flush>
            <KeychainEntries key={chosen.catalog_id} catalogId={chosen.catalog_id} />
          </Card>
        </div>
      )}
    </>
  );
}
