/** Storing a credential, or replacing one: a form by its type or schema, or JSON. What it held before is not shown. */
import { useId, useState } from 'preact/hooks';
import { ApiError, post, pretty } from '../core/api.ts';
import type { Credential, Json, JsonMap } from '../core/wire.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/states.tsx';
import { say } from '../parts/toasts.tsx';
import { parseJson } from '../playbook/workload-fields.ts';
import { CREDENTIAL_TYPES, dataOf, fieldNamed, fieldsFor, problemsByField } from './credential-fields.ts';
import { SecretFields } from './secret-fields.tsx';

export function CredentialDialog({
  credential,
  onClose,
  onSaved,
}: {
  credential: Credential | null;
  onClose: () => void;
  onSaved: () => void;
}) {
  const [type, setType] = useState(credential?.type ?? 'bearer');
  const [schema, setSchema] = useState(credential?.schema == null ? '' : pretty(credential.schema));
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [added, setAdded] = useState<readonly string[]>([]);
  const [json, setJson] = useState<string | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const id = useId();
  const types = CREDENTIAL_TYPES.includes(type) ? CREDENTIAL_TYPES : [...CREDENTIAL_TYPES, type];
  const known = fieldsFor(type, mapOrNull(schema));
  const fields = [...known, ...added.map((name) => fieldNamed(name, false))];
  const problems = problemsByField(
    error instanceof ApiError ? error.errors : [],
    json === null ? fields.map((each) => each.name) : [],
  );
  const rest = problems.get(null) ?? [];

  const toggle = (): void => {
    try {
      if (json === null) setJson(pretty(dataOf(fields, texts)));
      else {
        const data = mapOf('The content', json);
        setTexts(Object.fromEntries(Object.entries(data).map(([name, value]) => [name, textOf(value)])));
        setAdded(Object.keys(data).filter((name) => !known.some((field) => field.name === name)));
        setJson(null);
      }
      setError(null);
    } catch (caught) {
      setError(asError(caught));
    }
  };
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const form = new FormData(event.currentTarget);
    const textAt = (name: string) => String(form.get(name) ?? '').trim();
    const name = credential?.name ?? textAt('name');
    setBusy(true);
    setError(null);
    try {
      await post('/api/credentials', {
        name,
        type,
        data: json === null ? dataOf(fields, texts) : parseJson('The content', json),
        description: textAt('description') || null,
        tags: textAt('tags'),
        // What is left out is reset, so what this form does not show is given back.
        meta: withHosts(credential?.meta ?? {}, textAt('hosts')),
        schema: schema.trim() === '' ? null : parseJson('The rules', schema),
      });
      say(`Stored ${name}`);
      onSaved();
      onClose();
    } catch (caught) {
      setError(asError(caught));
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
          <select id={`${id}-type`} value={type} onChange={(event) => setType(event.currentTarget.value)}>
            {types.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </div>
        <fieldset class="plain stack">
          <legend class="label">Content</legend>
          <div class="row between">
            <span class="soft small">Stored encrypted; lists and logs never show it.</span>
            <button type="button" class="button quiet tiny" aria-pressed={json !== null} onClick={toggle}>
              {json === null ? 'Edit as JSON' : 'Edit as a form'}
            </button>
          </div>
          {json === null ? (
            <SecretFields
              fields={fields}
              texts={texts}
              problems={problems}
              onText={(name, text) => setTexts({ ...texts, [name]: text })}
              onAdd={(name) => {
                if (!fields.some((each) => each.name === name)) setAdded([...added, name]);
              }}
            />
          ) : (
            <textarea
              rows={8}
              aria-label="Content as JSON"
              spellcheck={false}
              autocomplete="off"
              value={json}
              onInput={(event) => setJson(event.currentTarget.value)}
            />
          )}
        </fieldset>
        <div class="field">
          <label for={`${id}-description`}>Description</label>
          <input id={`${id}-description`} name="description" defaultValue={credential?.description ?? ''} />
        </div>
        <details>
          <summary>Tags, hosts and rules</summary>
          <div class="stack">
            <div class="field">
              <label for={`${id}-tags`}>Tags, with commas</label>
              <input id={`${id}-tags`} name="tags" defaultValue={credential?.tags.join(', ') ?? ''} />
            </div>
            <div class="field">
              <label for={`${id}-hosts`}>Only for these hosts, with commas</label>
              <input
                id={`${id}-hosts`}
                name="hosts"
                defaultValue={hostsOf(credential?.meta ?? {})}
                aria-describedby={`${id}-hosts-hint`}
              />
              <span class="hint" id={`${id}-hosts-hint`}>
                It is sent nowhere else. Empty: wherever a step sends it.
              </span>
            </div>
            <div class="field">
              <label for={`${id}-schema`}>Rules for the content, as JSON</label>
              <textarea
                id={`${id}-schema`}
                rows={4}
                spellcheck={false}
                placeholder={'{ "required": ["token"], "types": { "port": "integer" } }'}
                value={schema}
                onInput={(event) => setSchema(event.currentTarget.value)}
              />
            </div>
          </div>
        </details>
        {error !== null && (rest.length > 0 || problems.size === 0) && <Problem error={error} />}
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

function hostsOf(meta: JsonMap): string {
  const hosts = meta['hosts'];
  return Array.isArray(hosts) ? hosts.join(', ') : '';
}

function withHosts(meta: JsonMap, text: string): JsonMap {
  const { hosts: _, ...others } = meta;
  const hosts = text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
  return hosts.length === 0 ? others : { ...others, hosts };
}

/** Null while it is half written. */
function mapOrNull(text: string): JsonMap | null {
  try {
    return text.trim() === '' ? null : mapOf('The rules', text);
  } catch {
    return null;
  }
}

function mapOf(name: string, text: string): JsonMap {
  const value = parseJson(name, text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error(`${name} must be a JSON object`);
  // Neither null nor a list: a map.
  return value as JsonMap;
}

function textOf(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function asError(caught: unknown): Error {
  return caught instanceof Error ? caught : new Error(String(caught));
}
