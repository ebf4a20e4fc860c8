/** Storing a credential, or replacing one. What it held before is not shown; what is left out is reset. */
import { useId, useState } from 'preact/hooks';
import { post } from '../core/api.ts';
import type { Credential } from '../core/wire.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/states.tsx';
import { say } from '../parts/toasts.tsx';
import { parseJson } from '../playbook/workload-fields.ts';

const TYPES: Readonly<Record<string, string>> = {
  generic: '{\n  "value": ""\n}',
  bearer: '{\n  "token": ""\n}',
  basic: '{\n  "username": "",\n  "password": ""\n}',
  api_key: '{\n  "api_key": ""\n}',
  postgres: '{\n  "host": "",\n  "port": 5432,\n  "database": "",\n  "user": "",\n  "password": ""\n}',
  oauth2: '{\n  "client_id": "",\n  "client_secret": "",\n  "token_url": ""\n}',
  custom: '{}',
};

export function CredentialDialog({
  credential,
  onClose,
  onSaved,
}: {
  credential: Credential | null;
  onClose: () => void;
  onSaved: () => void;
}) {
  const [type, setType] = useState(credential?.type ?? 'generic');
  const [data, setData] = useState(TYPES[type] ?? '{}');
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const id = useId();
  const types = Object.hasOwn(TYPES, type) ? Object.keys(TYPES) : [...Object.keys(TYPES), type];
  const choose = (next: string): void => {
    if (data === (TYPES[type] ?? '{}')) setData(TYPES[next] ?? '{}');
    setType(next);
  };
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const form = new FormData(event.currentTarget);
    const name = credential?.name ?? String(form.get('name') ?? '').trim();
    setBusy(true);
    setError(null);
    try {
      await post('/api/credentials', {
        name,
        type,
        data: parseJson('The content', data),
        description: String(form.get('description') ?? '').trim() || null,
        tags: String(form.get('tags') ?? ''),
      });
      say(`Stored ${name}`);
      onSaved();
      onClose();
    } catch (caught) {
      setError(caught instanceof Error ? caught : new Error(String(caught)));
      setBusy(false);
    }
  };
  return (
    <Dialog title={credential === null ? 'New credential' : `Replace ${credential.name}`} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        {credential === null && (
          <div class="field">
            <label for={`${id}-name`}>Name</label>
            <input id={`${id}-name`} name="name" required autocomplete="off" aria-describedby={`${id}-hint`} />
            <span class="hint" id={`${id}-hint`}>
              Letters, digits and _ . @ -; steps use it under this name.
            </span>
          </div>
        )}
        <div class="field">
          <label for={`${id}-type`}>Type</label>
          <select id={`${id}-type`} value={type} onChange={(event) => choose(event.currentTarget.value)}>
            {types.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </div>
        <div class="field">
          <label for={`${id}-data`}>Content, as JSON</label>
          <textarea
            id={`${id}-data`}
            rows={8}
            spellcheck={false}
            autocomplete="off"
            value={data}
            onInput={(event) => setData(event.currentTarget.value)}
          />
        </div>
        <div class="field">
          <label for={`${id}-description`}>Description</label>
          <input id={`${id}-description`} name="description" defaultValue={credential?.description ?? ''} />
        </div>
        <div class="field">
          <label for={`${id}-tags`}>Tags, with commas</label>
          <input id={`${id}-tags`} name="tags" defaultValue={credential?.tags.join(', ') ?? ''} />
        </div>
        <Problem error={error} />
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={busy}>
            Store it
          </button>
        </div>
      </form>
    </Dialog>
  );
}
