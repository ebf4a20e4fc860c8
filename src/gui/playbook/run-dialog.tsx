/** Starting a playbook: a form made from its inputs, or JSON for those who prefer it. Also used to run something again. */
import { useId, useState } from 'preact/hooks';
import { catalogAddress, get, orNull, post, pretty } from '../core/api.ts';
import { start } from '../core/executions.ts';
import { useResource } from '../core/resource.ts';
import { navigate, to } from '../core/router.ts';
import type { CatalogEntry, Execution, JsonMap, StartAnswer } from '../core/wire.ts';
import { executionGraph } from '../graph/source.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { Failed, Loading, Problem } from '../parts/states.tsx';
import { changedValues, type Field, fieldsOf, parseInput, textOf, type UiSchema, valuesOf } from './workload-fields.ts';

type RerunSource = Pick<Execution, 'execution_id' | 'path' | 'version' | 'catalog_id'>;

interface RunDialogProps {
  readonly path: string;
  readonly version: number | null;
  /** Inputs to begin with; the defaults of the playbook otherwise. */
  readonly workload?: JsonMap;
  /** The execution to run again, and the step to begin at; null is the beginning. */
  readonly rerunOf?: { readonly execution: RerunSource; readonly fromStep: string | null };
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
  const [again, setAgain] = useState<Again>({ fromStep: rerunOf?.fromStep ?? '', newest: false });
  const id = useId();
  const asJson = json !== null;

  const toggle = (): void => {
    try {
      if (json === null) {
        setJson(pretty({ ...workload, ...valuesOf(fields, texts) }));
      } else {
        const value = parseInput(json);
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
      const input = json === null ? valuesOf(fields, texts) : parseInput(json);
      // Again: every value is said, because what is left out would be that of the first run, not the default.
      const started =
        rerunOf === undefined
          ? await start(path, changedValues(fields, input), version)
          : await rerun(rerunOf.execution.execution_id, { ...workload, ...input }, again);
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
      {rerunOf !== undefined && <AgainFields execution={rerunOf.execution} again={again} onAgain={setAgain} />}
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

interface Again {
  /** Empty for the beginning. */
  readonly fromStep: string;
  readonly newest: boolean;
}

/** Where a repeated run begins, and with which version. Only a step that was entered has something before it to keep. */
function AgainFields({
  execution,
  again,
  onAgain,
}: {
  execution: RerunSource;
  again: Again;
  onAgain: (again: Again) => void;
}) {
  const id = useId();
  const graph = useResource(`again ${execution.execution_id}`, (signal) => executionGraph(execution, signal));
  const steps = (graph.data?.nodes ?? []).filter((node) => (node.state?.activations ?? 0) > 0).map((node) => node.step);
  const known = again.fromStep === '' || steps.includes(again.fromStep) ? steps : [again.fromStep, ...steps];
  return (
    <div class="field-pair">
      <div class="field">
        <label for={`${id}-from`}>Begin at</label>
        <select
          id={`${id}-from`}
          value={again.fromStep}
          aria-describedby={`${id}-hint`}
          onChange={(event) => onAgain({ ...again, fromStep: event.currentTarget.value })}
        >
          <option value="">the beginning</option>
          {known.map((step) => (
            <option key={step} value={step}>
              step {step}
            </option>
          ))}
        </select>
      </div>
      <div class="field">
        <label for={`${id}-version`}>With</label>
        <select
          id={`${id}-version`}
          value={again.newest ? 'latest' : 'same'}
          onChange={(event) => onAgain({ ...again, newest: event.currentTarget.value === 'latest' })}
        >
          <option value="same">the same version ({execution.version})</option>
          <option value="latest">the newest version</option>
        </select>
      </div>
      <p class="hint" id={`${id}-hint`}>
        {again.fromStep === ''
          ? 'Every step runs again, in a new execution.'
          : `In a new execution: what was completed before ${again.fromStep} is kept with its values and does not run again.`}
      </p>
    </div>
  );
}

function rerun(id: number, workload: JsonMap, { fromStep, newest }: Again): Promise<StartAnswer> {
  return post<StartAnswer>(`/api/executions/${id}/rerun`, {
    workload,
    version: newest ? 'latest' : 'same',
    ...(fromStep === '' ? {} : { from_step: fromStep }),
  });
}

function isMap(value: unknown): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function asError(caught: unknown): Error {
  return caught instanceof Error ? caught : new Error(String(caught));
}
