/** The inputs of a run and the names they may come under (api 1.6). */
import { isDeepStrictEqual } from 'node:util';
import type { JsonMap } from '../../machines/json.ts';
import { map, maybe } from './fields.ts';

export const inputFields = {
  workload: maybe(map),
  payload: maybe(map),
  input: maybe(map),
  parameters: maybe(map),
};

/** A request that starts a run may also say `args`. */
export const startInputFields = { ...inputFields, args: maybe(map) };

type Inputs = { readonly [Name in keyof typeof startInputFields]?: JsonMap | null | undefined };

const NAMES = Object.keys(startInputFields) as (keyof Inputs)[];

export const INPUTS_DIFFER = `has different values in ${NAMES.join(', ')}, which mean the same`;

/** Several names may stand together as long as they say the same. */
export function inputsAgree(body: Inputs): boolean {
  const [first, ...others] = given(body);
  return others.every((each) => isDeepStrictEqual(each, first));
}

/** Null when the request has none. */
export function inputsOf(body: Inputs): JsonMap | null {
  return given(body)[0] ?? null;
}

function given(body: Inputs): readonly JsonMap[] {
  return NAMES.map((name) => body[name]).filter((each) => each != null);
}
