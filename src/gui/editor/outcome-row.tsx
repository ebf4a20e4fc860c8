/** One scripted outcome of a simulation: which step, and what its tool answers. */
import { Icon } from '../parts/icons.tsx';
import { type Answer, type Draft, ERROR_KINDS } from './outcomes.ts';

const ANSWERS: readonly (readonly [Answer, string])[] = [
  ['result', 'succeeds with'],
  ['error', 'fails with'],
  ['lost', 'loses its worker'],
];

export function OutcomeRow({
  draft,
  steps,
  onDraft,
  onRemove,
}: {
  draft: Draft;
  steps: readonly string[];
  onDraft: (draft: Draft) => void;
  onRemove: () => void;
}) {
  const { answer, step } = draft;
  const answerWith = (next: Answer): void =>
    onDraft({ ...draft, answer: next, text: next === 'result' ? '{}' : next === 'error' ? 'nobody answers' : '' });
  return (
    <div class="outcome">
      <div class="row">
        <select
          aria-label="Step"
          value={step}
          onChange={(event) => onDraft({ ...draft, step: event.currentTarget.value })}
        >
          {steps.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        <select
          aria-label={`What ${step} does`}
          value={answer}
          // The options are exactly these.
          onChange={(event) => answerWith(event.currentTarget.value as Answer)}
        >
          {ANSWERS.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        {answer === 'error' && (
          <select
            aria-label={`Kind of the error of ${step}`}
            value={draft.kind}
            onChange={(event) => onDraft({ ...draft, kind: event.currentTarget.value })}
          >
            {ERROR_KINDS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        )}
        <input
          class="short"
          inputMode="numeric"
          placeholder="0 ms"
          aria-label={`Milliseconds that ${step} takes`}
          value={draft.duration}
          onInput={(event) => onDraft({ ...draft, duration: event.currentTarget.value })}
        />
        <input
          class="short"
          inputMode="numeric"
          placeholder="always"
          aria-label={`How often ${step} answers so`}
          title="How often it answers so; the next outcome of the list takes over then"
          value={draft.times}
          onInput={(event) => onDraft({ ...draft, times: event.currentTarget.value })}
        />
        <button type="button" class="button quiet tiny" aria-label={`Remove the outcome of ${step}`} onClick={onRemove}>
          <Icon name="trash" size={14} />
        </button>
      </div>
      {answer === 'result' && (
        <textarea
          rows={Math.min(6, draft.text.split('\n').length + 1)}
          aria-label={`Result of ${step} as JSON`}
          spellcheck={false}
          value={draft.text}
          onInput={(event) => onDraft({ ...draft, text: event.currentTarget.value })}
        />
      )}
      {answer === 'error' && (
        <input
          aria-label={`Message of the error of ${step}`}
          value={draft.text}
          onInput={(event) => onDraft({ ...draft, text: event.currentTarget.value })}
        />
      )}
    </div>
  );
}
