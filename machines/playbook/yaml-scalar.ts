/** What a YAML scalar means: the core schema of YAML 1.2 with the values JSON has, and explicit core tags. */
import { boolCoreTag, floatCoreTag, intCoreTag, NOT_RESOLVED, nullCoreTag } from 'js-yaml';
import type { YamlScalar } from './yaml-node.ts';

export type ScalarReading =
  | { readonly ok: true; readonly value: YamlScalar['json'] }
  | { readonly ok: false; readonly reason: string };

const CORE_PREFIX = 'tag:yaml.org,2002:';
const TAGS = { null: nullCoreTag, bool: boolCoreTag, int: intCoreTag, float: floatCoreTag } as const;
const NAMES = ['null', 'bool', 'int', 'float'] as const;

/** The value of a plain scalar: the first core type it fits, else its text. */
export function readPlain(text: string): ScalarReading {
  for (const name of NAMES) {
    const value = TAGS[name].resolve(text, false, CORE_PREFIX + name);
    if (value !== NOT_RESOLVED) return finite(value, text);
  }
  return { ok: true, value: text };
}

/** The value of a scalar with an explicit tag such as `!!str`; `tag` is the text in the document. */
export function readTagged(tag: string, text: string): ScalarReading {
  if (tag === '!' || tag === '!!str') return { ok: true, value: text };
  const name = NAMES.find((known) => tag === `!!${known}`);
  if (name === undefined) return { ok: false, reason: `unknown tag ${tag}` };
  const value = TAGS[name].resolve(text, true, CORE_PREFIX + name);
  if (value === NOT_RESOLVED) return { ok: false, reason: `'${text.slice(0, 40)}' is not a value of tag ${tag}` };
  return finite(value, text);
}

function finite(value: null | boolean | number, text: string): ScalarReading {
  if (typeof value !== 'number' || Number.isFinite(value)) return { ok: true, value };
  return { ok: false, reason: `number '${text.slice(0, 40)}' is not finite, quote it if it is text` };
}
