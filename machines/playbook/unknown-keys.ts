/** Warns about keys the language does not know; they are ignored, never refused (language 3.3). */
import { shown } from './names.ts';
import { type MapPlace, members } from './place.ts';
import type { Report, Subject } from './report.ts';

export function warnUnknownKeys(
  report: Report,
  subject: Subject,
  place: MapPlace,
  known: ReadonlySet<string>,
  what: string,
): void {
  for (const { key, place: inner } of members(place)) {
    if (!known.has(key)) {
      report.warn('unknown_key', subject, inner, `unknown key '${shown(key)}' in ${what} is ignored`, 'key');
    }
  }
}
