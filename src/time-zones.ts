/** Time zones by their IANA names, from the tables of the runtime. */

const KEPT_MAX = 64;
const formats = new Map<string, Intl.DateTimeFormat>();

/** How many milliseconds the wall of a zone is ahead of UTC at an instant; null for a zone nobody knows. */
export function zoneOffset(zone: string): ((instant: number) => number) | null {
  const format = formatOf(zone);
  if (format === null) return null;
  return (instant) => {
    const parts: Record<string, number> = {};
    for (const { type, value } of format.formatToParts(instant)) parts[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(instant / 1000) * 1000;
  };
}

function formatOf(zone: string): Intl.DateTimeFormat | null {
  const known = formats.get(zone);
  if (known !== undefined) return known;
  try {
    const format = new Intl.DateTimeFormat('en-US-u-ca-iso8601-nu-latn', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    if (formats.size >= KEPT_MAX) formats.clear();
    formats.set(zone, format);
    return format;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
