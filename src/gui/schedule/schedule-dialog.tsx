/** A new schedule, or another rhythm for one: what to start, when, with which input, and what to do when it is late. */
import { useId, useState } from 'preact/hooks';
import { get, post, pretty, put } from '../core/api.ts';
import { useResource } from '../core/resource.ts';
import type { CatalogEntry, Schedule } from '../core/wire.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/states.tsx';
import { say } from '../parts/toasts.tsx';
import { parseJson } from '../playbook/workload-fields.ts';
import { draftOf, type RhythmDraft, type RhythmKind, rhythmOf, UNITS, type Unit } from './rhythm.ts';

const KINDS: readonly (readonly [RhythmKind, string])[] = [
  ['cron', 'at times of a calendar (cron)'],
  ['interval', 'again and again'],
  ['once', 'once'],
];
const OVERLAPS: readonly (readonly [string, string])[] = [
  ['allow', 'start beside it'],
  ['skip', 'leave this one out'],
  ['cancel_previous', 'cancel it first'],
];
const CATCH_UPS: readonly (readonly [string, string])[] = [
  ['none', 'nothing'],
  ['last', 'the last one'],
  ['all', 'each of them'],
];

interface ScheduleDialogProps {
  /** Null makes a new one. */
  readonly schedule: Schedule | null;
  readonly onClose: () => void;
  readonly onSaved: () => void;
}

export function ScheduleDialog({ schedule, onClose, onSaved }: ScheduleDialogProps) {
  const [rhythm, setRhythm] = useState<RhythmDraft>(() => draftOf(schedule));
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const id = useId();
  const playbooks = useResource('playbooks to plan', (signal) =>
    get<readonly CatalogEntry[]>('/api/catalog/playbooks', {}, signal),
  );
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const form = new FormData(event.currentTarget);
    const textAt = (name: string) => String(form.get(name) ?? '').trim();
    setBusy(true);
    setError(null);
    try {
      const body = {
        name: textAt('name'),
        path: textAt('path'),
        workload: parseJson('The input', textAt('workload') || '{}'),
        overlap: textAt('overlap'),
        catch_up: textAt('catch_up'),
        ...rhythmOf(rhythm),
      };
      if (schedule === null) await post('/api/schedules', body);
      else await put(`/api/schedules/${schedule.schedule_id}`, body);
      say(schedule === null ? `${body.name} is planned` : `${body.name} is changed`);
      onSaved();
      onClose();
    } catch (caught) {
      setError(caught instanceof Error ? caught : new Error(String(caught)));
      setBusy(false);
    }
  };
  return (
    <Dialog title={schedule === null ? 'New schedule' : `Change ${schedule.name}`} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <div class="field">
          <label for={`${id}-name`}>Name</label>
          <input id={`${id}-name`} name="name" required autocomplete="off" defaultValue={schedule?.name ?? ''} />
        </div>
        <div class="field">
          <label for={`${id}-path`}>Playbook</label>
          <input
            id={`${id}-path`}
            name="path"
            required
            autocomplete="off"
            list={`${id}-paths`}
            defaultValue={schedule?.path ?? ''}
          />
          <datalist id={`${id}-paths`}>
            {(playbooks.data ?? []).map((each) => (
              <option key={each.path} value={each.path} />
            ))}
          </datalist>
        </div>
        <div class="field">
          <label for={`${id}-kind`}>When</label>
          <Choice
            id={`${id}-kind`}
            options={KINDS}
            value={rhythm.kind}
            // The options are exactly these.
            onValue={(kind) => setRhythm({ ...rhythm, kind: kind as RhythmKind })}
          />
        </div>
        <RhythmFields id={id} rhythm={rhythm} onRhythm={setRhythm} />
        <div class="field">
          <label for={`${id}-workload`}>Input, as JSON</label>
          <textarea
            id={`${id}-workload`}
            name="workload"
            rows={4}
            spellcheck={false}
            defaultValue={pretty(schedule?.workload ?? {})}
          />
        </div>
        <div class="field-pair">
          <div class="field">
            <label for={`${id}-overlap`}>When the one before still runs</label>
            <Choice id={`${id}-overlap`} name="overlap" options={OVERLAPS} value={schedule?.overlap ?? 'allow'} />
          </div>
          <div class="field">
            <label for={`${id}-late`}>Of what was missed, start</label>
            <Choice id={`${id}-late`} name="catch_up" options={CATCH_UPS} value={schedule?.catch_up ?? 'none'} />
          </div>
        </div>
        <Problem error={error} />
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={busy}>
            {schedule === null ? 'Create schedule' : 'Save'}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface RhythmFieldsProps {
  readonly id: string;
  readonly rhythm: RhythmDraft;
  readonly onRhythm: (rhythm: RhythmDraft) => void;
}

function RhythmFields({ id, rhythm, onRhythm }: RhythmFieldsProps) {
  switch (rhythm.kind) {
    case 'cron':
      return (
        <div class="field-pair">
          <div class="field">
            <label for={`${id}-cron`}>Cron expression</label>
            <input
              id={`${id}-cron`}
              class="mono"
              required
              autocomplete="off"
              aria-describedby={`${id}-cron-hint`}
              value={rhythm.cron}
              onInput={(event) => onRhythm({ ...rhythm, cron: event.currentTarget.value })}
            />
          </div>
          <div class="field">
            <label for={`${id}-zone`}>Time zone</label>
            <input
              id={`${id}-zone`}
              autocomplete="off"
              list={`${id}-zones`}
              value={rhythm.timezone}
              onInput={(event) => onRhythm({ ...rhythm, timezone: event.currentTarget.value })}
            />
            <datalist id={`${id}-zones`}>
              {['UTC', ...Intl.supportedValuesOf('timeZone')].map((each) => (
                <option key={each} value={each} />
              ))}
            </datalist>
          </div>
          <p class="hint" id={`${id}-cron-hint`}>
            Minute, hour, day of the month, month, day of the week; <code>0 3 * * *</code> is every night at three.
          </p>
        </div>
      );
    case 'interval':
      return (
        <div class="field-pair">
          <div class="field">
            <label for={`${id}-every`}>Every</label>
            <input
              id={`${id}-every`}
              required
              inputMode="decimal"
              autocomplete="off"
              value={rhythm.every}
              onInput={(event) => onRhythm({ ...rhythm, every: event.currentTarget.value })}
            />
          </div>
          <div class="field">
            <label for={`${id}-unit`}>Unit</label>
            <Choice
              id={`${id}-unit`}
              options={UNITS.map((each) => [each, each])}
              value={rhythm.unit}
              // The options are exactly these.
              onValue={(unit) => onRhythm({ ...rhythm, unit: unit as Unit })}
            />
          </div>
        </div>
      );
    case 'once':
      return (
        <div class="field">
          <label for={`${id}-at`}>Moment, in UTC</label>
          <input
            id={`${id}-at`}
            type="datetime-local"
            required
            value={rhythm.at}
            onInput={(event) => onRhythm({ ...rhythm, at: event.currentTarget.value })}
          />
        </div>
      );
  }
}

interface ChoiceProps {
  readonly id: string;
  readonly name?: string;
  readonly options: readonly (readonly [string, string])[];
  readonly value: string;
  readonly onValue?: (value: string) => void;
}

function Choice({ id, name, options, value, onValue }: ChoiceProps) {
  return (
    <select
      id={id}
      name={name}
      {...(onValue === undefined ? { defaultValue: value } : { value })}
      onChange={(event) => onValue?.(event.currentTarget.value)}
    >
      {options.map(([each, text]) => (
        <option key={each} value={each} selected={each === value}>
          {text}
        </option>
      ))}
    </select>
  );
}
