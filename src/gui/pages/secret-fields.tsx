/** Inputs for the content of a credential or token, each with the problems the server has with it. */
import { useId, useState } from 'preact/hooks';
import { Icon } from '../parts/icons.tsx';
import type { SecretField } from './credential-fields.ts';

export function SecretFields({
  fields,
  texts,
  problems,
  onText,
  onAdd,
}: {
  fields: readonly SecretField[];
  texts: Readonly<Record<string, string>>;
  problems: ReadonlyMap<string | null, readonly string[]>;
  onText: (name: string, text: string) => void;
  onAdd: (name: string) => void;
}) {
  const [name, setName] = useState('');
  const add = (): void => {
    if (name.trim() === '') return;
    onAdd(name.trim());
    setName('');
  };
  return (
    <>
      {fields.map((field) => (
        <OneField
          key={field.name}
          field={field}
          text={texts[field.name] ?? ''}
          problems={problems.get(field.name) ?? []}
          onText={(text) => onText(field.name, text)}
        />
      ))}
      <div class="row">
        <input
          aria-label="Name of another field"
          placeholder="Another field"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return;
            event.preventDefault();
            add();
          }}
        />
        <button type="button" class="button tiny" disabled={name.trim() === ''} onClick={add}>
          <Icon name="plus" size={12} /> Add
        </button>
      </div>
    </>
  );
}

function OneField({
  field,
  text,
  problems,
  onText,
}: {
  field: SecretField;
  text: string;
  problems: readonly string[];
  onText: (text: string) => void;
}) {
  const id = useId();
  const [shown, setShown] = useState(false);
  const attributes = {
    id,
    'aria-invalid': problems.length > 0,
    'aria-describedby': problems.length > 0 ? `${id}-problem` : undefined,
  };
  return (
    <div class="field">
      <label for={id}>
        {field.name}
        {!field.required && <span class="soft small"> optional</span>}
      </label>
      {field.kind === 'json' ? (
        <textarea
          {...attributes}
          rows={3}
          spellcheck={false}
          value={text}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      ) : field.kind === 'boolean' ? (
        <select {...attributes} value={text} onChange={(event) => onText(event.currentTarget.value)}>
          <option value="" />
          <option>true</option>
          <option>false</option>
        </select>
      ) : (
        <span class="with-button">
          <input
            {...attributes}
            {...(field.secret && !shown ? { type: 'password' as const } : { type: 'text' as const })}
            inputMode={field.kind === 'number' ? 'decimal' : 'text'}
            autocomplete="off"
            spellcheck={false}
            value={text}
            onInput={(event) => onText(event.currentTarget.value)}
          />
          {field.secret && (
            <button
              type="button"
              class="button quiet tiny"
              aria-label={`Show what is typed for ${field.name}`}
              aria-pressed={shown}
              onClick={() => setShown(!shown)}
            >
              <Icon name="eye" size={14} />
            </button>
          )}
        </span>
      )}
      {problems.length > 0 && (
        <span class="field-problem" id={`${id}-problem`} role="alert">
          {problems.join(' ')}
        </span>
      )}
    </div>
  );
}
