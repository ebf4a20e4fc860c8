/** The rhythm of a schedule: in words for lists, and between the fields of a form and the API. Pure. */
import type { Schedule } from '../core/wire.ts';

export type RhythmKind = 'cron' | 'interval' | 'once';

export interface RhythmDraft {
  readonly kind: RhythmKind;
  readonly cron: string;
  readonly timezone: string;
  readonly every: string;
  readonly unit: Unit;
  /** As an input of type datetime-local gives it, in UTC. */
  readonly at: string;
}

export type Unit = keyof typeof SECONDS;

const SECONDS = { seconds: 1, minutes: 60, hours: 3_600, days: 86_400 } as const;
// The keys of the table, from the largest.
export const UNITS = (Object.keys(SECONDS) as Unit[]).toReversed();

export function rhythmText({ cron, timezone, interval_seconds, at }: Schedule): string {
  if (cron !== null) return timezone === 'UTC' ? cron : `${cron} in ${timezone}`;
  if (interval_seconds !== null) {
    const { every, unit } = inUnits(interval_seconds);
    return every === 1 ? `every ${unit.slice(0, -1)}` : `every ${every} ${unit}`;
  }
  return at === null ? '–' : `once, ${at.slice(0, 16).replace('T', ' ')} UTC`;
}

export function draftOf(schedule: Schedule | null): RhythmDraft {
  const { every, unit } = inUnits(schedule?.interval_seconds ?? 300);
  return {
    kind: schedule?.interval_seconds != null ? 'interval' : schedule?.at != null ? 'once' : 'cron',
    cron: schedule?.cron ?? '0 3 * * *',
    timezone: schedule?.timezone ?? 'UTC',
    every: String(every),
    unit,
    at: schedule?.at?.slice(0, 16) ?? '',
  };
}

/** The fields of the API. Throws Error with a sentence for the reader. */
export function rhythmOf(draft: RhythmDraft): Readonly<Record<string, string | number>> {
  switch (draft.kind) {
    case 'cron':
      return { cron: draft.cron.trim(), timezone: draft.timezone.trim() || 'UTC' };
    case 'interval': {
      const every = Number(draft.every);
      if (!(every > 0)) throw new Error('The time between two runs must be a number above 0');
      return { interval_seconds: every * SECONDS[draft.unit] };
    }
    case 'once':
      if (draft.at === '') throw new Error('The moment is missing');
      return { at: new Date(`${draft.at}Z`).toISOString() };
  }
}

/** The largest unit that counts it in whole numbers. */
function inUnits(seconds: number): { readonly every: number; readonly unit: Unit } {
  const unit = UNITS.find((each) => seconds % SECONDS[each] === 0) ?? 'seconds';
  return { every: seconds / SECONDS[unit], unit };
}
