/** An instant as the reader likes it; the exact one is in the title and in the markup. */
import { now } from '../core/clock.ts';
import { timeStyle } from '../core/preferences.ts';
import { durationText, localText, relativeText, utcText } from '../core/time.ts';

export function When({ at }: { at: string | null | undefined }) {
  if (at === null || at === undefined) return <span class="soft">–</span>;
  const text =
    timeStyle.value === 'utc' ? utcText(at) : timeStyle.value === 'local' ? localText(at) : relativeText(at, now.value);
  return (
    <time dateTime={at} title={`${utcText(at)} · local ${localText(at)}`} class="nowrap">
      {text}
    </time>
  );
}

/** From start to end, or to the present while there is no end. */
export function Lasting({ from, to }: { from: string; to: string | null }) {
  const end = to === null ? now.value : Date.parse(to);
  return <span class="nowrap">{durationText(Math.max(0, end - Date.parse(from)))}</span>;
}
