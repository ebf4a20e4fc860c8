/** Where two JSON values differ, as sentences with the place of each difference; what is equal is not mentioned. */
import { isMap, type Json } from '../../machines/json.ts';

/** `place` is how the whole value is called. Order of keys does not matter, order of lists does. */
export function differences(expected: Json, actual: Json | undefined, place: string): readonly string[] {
  if (actual === undefined) return [`${place}: expected ${shown(expected)}, there is none`];
  if (Array.isArray(expected) && Array.isArray(actual)) return listDifferences(expected, actual, place);
  if (isMap(expected) && isMap(actual)) {
    return [
      ...Object.entries(expected).flatMap(([key, value]) =>
        differences(value, Object.hasOwn(actual, key) ? actual[key] : undefined, memberOf(place, key)),
      ),
      ...Object.keys(actual)
        .filter((key) => !Object.hasOwn(expected, key))
        .map((key) => `${memberOf(place, key)}: not expected, got ${shown(actual[key] ?? null)}`),
    ];
  }
  return expected === actual ? [] : [`${place}: expected ${shown(expected)}, got ${shown(actual)}`];
}

function listDifferences(expected: readonly Json[], actual: readonly Json[], place: string): readonly string[] {
  const lengths =
    expected.length === actual.length
      ? []
      : [`${place}: expected ${expected.length} elements, got ${actual.length}: ${shown([...actual])}`];
  const common = Math.min(expected.length, actual.length);
  return [
    ...lengths,
    ...expected.slice(0, common).flatMap((each, index) => differences(each, actual[index], `${place}[${index}]`)),
  ];
}

const SHOWN_MAX = 200;

function shown(value: Json): string {
  const text = JSON.stringify(value);
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}

function memberOf(place: string, key: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(key) ? `${place}.${key}` : `${place}[${JSON.stringify(key)}]`;
}
