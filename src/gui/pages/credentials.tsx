/** Credentials: what there is, without what it holds. Revealing is an act of its own, recorded, and undone by itself. */
import { useEffect, useState } from 'preact/hooks';
import { get, remove } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import { query, setQuery } from '../core/router.ts';
import type { Credential } from '../core/wire.ts';
import { Confirm, Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { When } from '../parts/instant.tsx';
import { JsonView } from '../parts/json.tsx';
import { More, ROWS_SHOWN } from '../parts/more.tsx';
import { PageHead } from '../parts/page.tsx';
import { Empty, Failed, Loading } from '../parts/states.tsx';
import { say } from '../parts/toasts.tsx';
import { CredentialDialog } from './credential-dialog.tsx';

const SHOWN_SECONDS = 30;

type Open =
  | { readonly kind: 'new' }
  | { readonly kind: 'replace' | 'reveal' | 'delete'; readonly credential: Credential };

export function Credentials() {
  const q = query.value.get('q') ?? '';
  const [open, setOpen] = useState<Open | null>(null);
  const list = useResource(`credentials ${q}`, (signal) =>
    get<{ readonly items: readonly Credential[] }>('/api/credentials', { q }, signal),
  );
  const close = (): void => setOpen(null);
  return (
    <>
      <PageHead
        title="Credentials"
        lead="Secrets that steps may use by name. They are stored encrypted; lists never carry them."
      >
        <button type="button" class="button primary" onClick={() => setOpen({ kind: 'new' })}>
          <Icon name="plus" size={14} /> New credential
        </button>
      </PageHead>
      <div class="stack">
        <search class="filters">
          <input
            type="search"
            aria-label="Name, description or tag"
            placeholder="Name, description or tag"
            defaultValue={q}
            onInput={(event) => setQuery({ q: event.currentTarget.value.trim() })}
          />
        </search>
        <section class="card" aria-label="Credentials">
          {list.error !== null && list.data === null ? (
            <Failed error={list.error} retry={list.reload} />
          ) : list.data === null ? (
            <Loading what="credentials" />
          ) : list.data.items.length === 0 ? (
            <Empty icon="key" title={q === '' ? 'No credentials yet' : 'No credential fits'}>
              <p>
                {q === ''
                  ? 'Store a token or a password once; steps name it and never contain it.'
                  : 'Look for something else.'}
              </p>
            </Empty>
          ) : (
            <CredentialTable items={list.data.items} onOpen={setOpen} />
          )}
        </section>
      </div>
      {open?.kind === 'new' && <CredentialDialog credential={null} onClose={close} onSaved={list.reload} />}
      {open?.kind === 'replace' && (
        <CredentialDialog credential={open.credential} onClose={close} onSaved={list.reload} />
      )}
      {open?.kind === 'reveal' && <Reveal credential={open.credential} onClose={close} />}
      {open?.kind === 'delete' && (
        <Confirm
          title={`Delete ${open.credential.name}?`}
          act="Delete it"
          word={open.credential.name}
          onClose={close}
          onAct={async () => {
            await remove(`/api/credentials/${encodeURIComponent(open.credential.name)}`);
            say(`Deleted ${open.credential.name}`);
            list.reload();
          }}
        >
          <p>Its content is gone for good. Steps that name it fail from now on.</p>
        </Confirm>
      )}
    </>
  );
}

function CredentialTable({ items, onOpen }: { items: readonly Credential[]; onOpen: (open: Open) => void }) {
  return (
    <div class="scroll-x">
      <table class="list">
        <thead>
          <tr>
            <th>Name</th>
            <th>Type</th>
            <th>Tags</th>
            <th>Changed</th>
            <th>
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {items.slice(0, ROWS_SHOWN).map((each) => (
            <tr key={each.id}>
              <td class="grow break">
                {each.name}
                {each.description !== null && <span class="sub">{each.description}</span>}
              </td>
              <td>{each.type}</td>
              <td>
                {each.tags.map((tag) => (
                  <span key={tag} class="badge plain">
                    {tag}
                  </span>
                ))}
              </td>
              <td>
                <When at={each.updated_at} />
              </td>
              <td class="number">
                <button
                  type="button"
                  class="button quiet tiny"
                  aria-label={`Reveal ${each.name}`}
                  onClick={() => onOpen({ kind: 'reveal', credential: each })}
                >
                  <Icon name="eye" size={14} /> Reveal
                </button>
                <button
                  type="button"
                  class="button quiet tiny"
                  aria-label={`Replace ${each.name}`}
                  onClick={() => onOpen({ kind: 'replace', credential: each })}
                >
                  Replace
                </button>
                <button
                  type="button"
                  class="button quiet tiny"
                  aria-label={`Delete ${each.name}`}
                  onClick={() => onOpen({ kind: 'delete', credential: each })}
                >
                  <Icon name="trash" size={14} />
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <More total={items.length} hint="Search for the others." />
    </div>
  );
}

/** Asks before it fetches, and forgets what it fetched after half a minute, or when the reader looks away. */
function Reveal({ credential, onClose }: { credential: Credential; onClose: () => void }) {
  const [asked, setAsked] = useState(false);
  const [left, setLeft] = useState(SHOWN_SECONDS);
  const secret = useResource(asked ? `reveal ${credential.id}` : null, (signal) =>
    get<Credential>(`/api/credentials/${encodeURIComponent(credential.name)}`, { include_data: true }, signal),
  );
  const shown = secret.data !== null;
  useEffect(() => {
    if (!shown) return;
    const timer = setInterval(() => setLeft((before) => before - 1), 1000);
    const hide = (): void => {
      if (document.visibilityState === 'hidden') setAsked(false);
    };
    document.addEventListener('visibilitychange', hide);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', hide);
    };
  }, [shown]);
  useEffect(() => {
    if (left > 0) return;
    setAsked(false);
    setLeft(SHOWN_SECONDS);
  }, [left]);
  return (
    <Dialog title={`Reveal ${credential.name}`} onClose={onClose}>
      {secret.error !== null && <Failed error={secret.error} />}
      {!shown ? (
        <p>Its content will be on this screen for {SHOWN_SECONDS} seconds. That it was read is recorded.</p>
      ) : (
        <>
          <JsonView value={secret.data?.data ?? null} label="content of the credential" />
          <p class="soft" role="timer">
            Hidden again in {left} s
          </p>
        </>
      )}
      <div class="actions">
        <button type="button" class="button" onClick={onClose}>
          Close
        </button>
        {!shown && (
          <button type="button" class="button primary" disabled={secret.loading} onClick={() => setAsked(true)}>
            <Icon name="eye" size={14} /> Reveal it
          </button>
        )}
      </div>
    </Dialog>
  );
}
