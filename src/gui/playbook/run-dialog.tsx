/** Starting a playbook: a form made from its inputs, or JSON for those who prefer it. Also used to run something again. */
import { useId, useState } from 'preact/hooks';
import { catalogAddress, get, orNull, post, pretty } from '../core/api.ts';
import { start } from '../core/executions.ts';
import { useResource } from '../core/resource.ts';
import { navigate, to } from '../core/router.ts';
import type { CatalogEntry, JsonMap, StartAnswer } from '../core/wire.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { Failed, Loading, Problem } from '../parts/states.tsx';
import { changedFields, type Field, fieldsOf, parseJson, textOf, type UiSchema } from './workload-fields.ts';

interface RunDialogProps {
  readonly path: string;
  readonly version: number | null;
  /** Inputs to begin with; the defaults of the playbook otherwise. */
  readonly workload?: JsonMap;
  readonly rerunOf?: number;
  readonly onClose: () => void;
}

export function RunDialog(props: RunDialogProps) {
  const { path, version } = props;
  const form = useResource(`form ${path} ${version}`, async (signal) => {
    const [schema, entry] = await Promise.all([
      orNull(get<UiSchema>(catalogAddress(path, 'ui_schema'), { version: version ?? 'latest' }, signal)),
      post<CatalogEntry>('/api/catalog/resource', { path, version: version ?? 'latest' }, signal),
    ]);
    const workload = entry.payload?.['workload'];
    return fieldsOf(schema, isMap(workload) ? workload : {});
  });
  return (
    <Dialog title={props.rerunOf === undefined ? `Run ${path}` : `Run ${path} again`} onClose={props.onClose}>
      {form.error !== null && <Failed error={form.error} retry={form.reload} />}
      {form.loading && <Loading what="the form" />}
      {form.data !== null && <RunForm {...props} fields={form.data} />}
    </Dialog>
  );
}

function RunForm({ path, version, workload, rerunOf, onClose, fields }: RunDialogProps & { fields: readonly Field[] }) {
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>(() =>
    Object.fromEntries(fields.map((field) => [field.name, textOf(field, workload?.[field.name])])),
  );
  const [json, setJson] = useState<string | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const id = useId();
  const asJson = json !== null;

  const toggle = (): void => {
    try {
      if (json === null) {
        const all = Object.fromEntries(fields.map((field) => [field.name, textOf(field, workload?.[field.name])]));
        setJson(pretty({ ...workload, ...changedFields(fields, { ...all, ...texts }) }));
      } else {
        const value = parseJson('The input', json);
        if (isMap(value))
          setTexts(Object.fromEntries(fields.map((field) => [field.name, textOf(field, value[field.name])])));
        setJson(null);
      }
      setError(null);
    } catch (caught) {
      setError(asError(caught));
    }
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setError(null);
    setBusy(true);
    try {
      const wanted = json === null ? changedFields(fields, texts) : parseJson('The input', json);
      const started =
        rerunOf === undefined
          ? await start(path, wanted, version)
          : await rerun(rerunOf, path, version, { ...workload, ...(isMap(wanted) ? wanted : {}) });
      onClose();
      navigate(to.execution(started.execution_id));
    } catch (caught) {
      setError(asError(caught));
      setBusy(false);
    }
  };

  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      <div class="row between">
        <span class="soft">
          {fields.length === 0 ? 'This playbook has no inputs.' : 'Inputs, with their present values.'}
        </span>
        <button type="button" class="button quiet tiny" aria-pressed={asJson} onClick={toggle}>
          {asJson ? 'Edit as a form' : 'Edit as JSON'}
        </button>
      </div>
      {asJson ? (
        <textarea
          rows={12}
          aria-label="Input as JSON"
          spellcheck={false}
          value={json}
          onInput={(event) => setJson(event.currentTarget.value)}
        />
      ) : (
        fields.map((field) => (
          <FieldInput
            key={field.name}
            id={`${id}-${field.name}`}
            field={field}
            text={texts[field.name] ?? ''}
            onText={(text) => setTexts({ ...texts, [field.name]: text })}
          />
        ))
      )}
      <Problem error={error} />
      <div class="actions">
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" class="button primary" disabled={busy}>
          <Icon name="play" size={14} /> Run
        </button>
      </div>
    </form>
  );
}

function FieldInput({
  id,
  field,
  text,
  onText,
}: {
  id: string;
  field: Field;
  text: string;
  onText: (text: string) => void;
}) {
  const hint = field.description === null ? undefined : `${id}-hint`;
  const shared = { id, 'aria-describedby': hint };
  return (
    <div class="field">
      <label for={id}>{field.name}</label>
      {field.kind === 'boolean' || field.kind === 'enum' ? (
        <select {...shared} value={text} onChange={(event) => onText(event.currentTarget.value)}>
          {(field.kind === 'boolean' ? ['true', 'false'] : field.options).map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      ) : field.kind === 'json' ? (
        <textarea
          {...shared}
          rows={Math.min(10, text.split('\n').length + 1)}
          spellcheck={false}
          value={text}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      ) : field.secret ? (
        <input
          {...shared}
          type="password"
          autocomplete="off"
          value={text}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      ) : (
        <input
          {...shared}
          type="text"
          inputMode={field.kind === 'string' ? 'text' : 'decimal'}
          autocomplete="off"
          value={text}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      )}
      {field.description !== null && (
        <span class="hint" id={hint}>
          {field.description}
        </span>
      )}
    </div>
  );
}

/** A server that does not know reruns starts a new execution with the same inputs. */
export async function rerun(id: number, path: string, version: number | null, workload: JsonMap): Promise<StartAnswer> {
  return (
    (await orNull(post<StartAnswer>(`/api/executions/${id}/rerun`, { workload }))) ?? start(path, workload, version)
  );
}

function isMap(value: unknown): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function asError(caught: unknown): Error {
  return caught instanceof Error ? caught : new Error(String(caught));
}
