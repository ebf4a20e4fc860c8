/** Keychain entries of one playbook version: what they are and how long they live, never what they hold. */
import { useState } from 'preact/hooks';
import { get, orNull, remove } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import type { KeychainItem } from '../core/wire.ts';
import { Confirm } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { When } from '../parts/instant.tsx';
import { More, ROWS_SHOWN } from '../parts/more.tsx';
import { Empty, Failed, Loading, NotAvailable } from '../parts/states.tsx';
import { StatusBadge } from '../parts/status.tsx';
import { say } from '../parts/toasts.tsx';
import { addressOf, scopeOf } from './keychain-address.ts';
import { RenewDialog } from './renew-dialog.tsx';

export function KeychainEntries({ catalogId }: { catalogId: number }) {
  const [doomed, setDoomed] = useState<KeychainItem | null>(null);
  const [renewed, setRenewed] = useState<KeychainItem | null>(null);
  const list = useResource(
    `keychain ${catalogId}`,
    (signal) =>
      orNull(get<{ readonly entries: readonly KeychainItem[] }>(`/api/keychain/catalog/${catalogId}`, {}, signal)),
    () => 10_000,
  );
  if (list.error !== null && list.data === null) return <Failed error={list.error} retry={list.reload} />;
  if (list.loading) return <Loading what="the keychain" />;
  if (list.data === null) return <NotAvailable title="The keychain is not available" />;
  if (list.data.entries.length === 0) {
    return (
      <Empty icon="chain" title="No tokens are kept for it">
        <p>
          A playbook with a keychain section resolves its tokens when it starts; they appear here, without their
          content.
        </p>
      </Empty>
    );
  }
  return (
    <div class="scroll-x">
      <table class="list">
        <thead>
          <tr>
            <th>Name</th>
            <th>Scope</th>
            <th>Type</th>
            <th>Expires</th>
            <th class="number">Reads</th>
            <th>
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {list.data.entries.slice(0, ROWS_SHOWN).map((each) => (
            <tr key={each.cache_key}>
              <td class="break">{each.keychain_name}</td>
              <td>{each.scope_type}</td>
              <td>
                {each.credential_type}
                <span class="sub">{each.cache_type}</span>
              </td>
              <td>
                {each.expired ? <StatusBadge status="expired" /> : <When at={each.expires_at} />}
                {each.auto_renew && <span class="sub">renews itself</span>}
              </td>
              <td class="number">{each.access_count}</td>
              <td class="number nowrap">
                <button
                  type="button"
                  class="button quiet tiny"
                  aria-label={`Renew ${each.keychain_name}`}
                  onClick={() => setRenewed(each)}
                >
                  <Icon name="again" size={14} /> Renew
                </button>
                <button
                  type="button"
                  class="button quiet tiny"
                  aria-label={`Delete ${each.keychain_name}`}
                  onClick={() => setDoomed(each)}
                >
                  <Icon name="trash" size={14} />
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <More total={list.data.entries.length} hint="Entries of runs go when the runs end." />
      {renewed !== null && (
        <RenewDialog catalogId={catalogId} item={renewed} onClose={() => setRenewed(null)} onDone={list.reload} />
      )}
      {doomed !== null && (
        <Confirm
          title={`Delete ${doomed.keychain_name}?`}
          act="Delete it"
          onClose={() => setDoomed(null)}
          onAct={async () => {
            await remove(addressOf(catalogId, doomed), scopeOf(doomed));
            say(`Deleted ${doomed.keychain_name}`);
            list.reload();
          }}
        >
          <p>
            The stored token is forgotten.{' '}
            {doomed.auto_renew
              ? 'The next run that needs it fetches a new one.'
              : 'Runs that need it fail until somebody stores a new one.'}
          </p>
        </Confirm>
      )}
    </div>
  );
}
