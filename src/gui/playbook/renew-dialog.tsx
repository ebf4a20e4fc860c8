/**
 * A new token for a keychain entry: stored by hand, or, for one that renews itself, by forgetting the present one, so
 * that the next run that needs it fetches another. Its recipe for renewal is never shown, so it cannot be stored anew.
 */
import { useId, useState } from 'preact/hooks';
import { post, remove } from '../core/api.ts';
import type { KeychainItem } from '../core/wire.ts';
import { fieldNamed } from '../pages/credential-fields.ts';
import { SecretFields } from '../pages/secret-fields.tsx';
import { Confirm, Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/states.tsx';
import { say } from '../parts/toasts.tsx';
import { addressOf, scopeOf } from './keychain-address.ts';

interface RenewProps {
  readonly catalogId: number;
  readonly item: KeychainItem;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function RenewDialog(props: RenewProps) {
  return props.item.auto_renew ? <FetchAnew {...props} /> : <StoreAnew {...props} />;
}

function FetchAnew({ catalogId, item, onClose, onDone }: RenewProps) {
  return (
    <Confirm
      title={`Renew ${item.keychain_name}?`}
      act="Forget this token"
      onClose={onClose}
      onAct={async () => {
        await remove(addressOf(catalogId, item), scopeOf(item));
        say(`${item.keychain_name} is fetched anew by the next run that needs it`);
        onDone();
      }}
    >
      <p>
        This entry renews itself: a run that finds it expired fetches a new token. To have a new one before that, the
        present one is forgotten, and the next run of this playbook fetches another from its token endpoint.
      </p>
    </Confirm>
  );
}

function StoreAnew({ catalogId, item, onClose, onDone }: RenewProps) {
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [names, setNames] = useState<readonly string[]>(['access_token']);
  const [minutes, setMinutes] = useState('60');
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const id = useId();
  const store = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const given = names.flatMap((name) => (texts[name] ? [[name, texts[name]] as const] : []));
      if (given.length === 0) throw new Error('Give at least one field, such as access_token');
      await post(addressOf(catalogId, item), {
        token_data: Object.fromEntries(given),
        credential_type: item.credential_type,
        cache_type: item.cache_type,
        ...scopeOf(item),
        ttl_seconds: Math.round(Number(minutes) * 60),
        auto_renew: false,
      });
      say(`Stored a new token as ${item.keychain_name}`);
      onDone();
      onClose();
    } catch (caught) {
      setError(caught instanceof Error ? caught : new Error(String(caught)));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Renew ${item.keychain_name}`} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void store(event)}>
        <p class="soft">
          A new token takes the place of the present one, in the same scope. Steps read its fields as{' '}
          <code>{`keychain.${item.keychain_name}.access_token`}</code>.
        </p>
        <SecretFields
          fields={names.map((name) => fieldNamed(name, name === 'access_token'))}
          texts={texts}
          problems={new Map()}
          onText={(name, text) => setTexts({ ...texts, [name]: text })}
          onAdd={(name) => setNames([...new Set([...names, name])])}
        />
        <div class="field">
          <label for={id}>Lives for, in minutes</label>
          <input
            id={id}
            type="number"
            min={1}
            required
            value={minutes}
            onInput={(event) => setMinutes(event.currentTarget.value)}
          />
        </div>
        <Problem error={error} />
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={busy}>
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}
