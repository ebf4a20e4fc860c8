/** Rendering on request and variables beside the log (api 2.10). */
import * as v from 'valibot';
import type { Variable, VariableDraft, VariableType } from '../../actors/services.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { described } from './described.ts';
import { flag, integer, json, list, map, maybe, text, word } from './fields.ts';
import { id, idOut } from './ids.ts';
import { jsonSchemaOf } from './json-schema.ts';

const VARIABLES_AT_ONCE = 1_000;
const EXPIRES_MAX_SECONDS = 315_360_000;

export const renderBody = v.object({
  execution_id: id,
  template: json,
  extra_context: maybe(map),
  strict: maybe(flag),
});

export const renderAnswer = v.object({
  status: v.literal('ok'),
  rendered: json,
  context_keys: v.array(v.string()),
});

const variableName = v.pipe(
  text(255, 1),
  v.check((name) => name !== '__proto__', 'must be another name'),
);
const variableType = word('user_defined', 'step_result', 'computed', 'iterator_state');
const shared = {
  var_type: maybe(variableType),
  source_step: maybe(text(256)),
};

const namedValues = described(
  v.custom<JsonMap>(
    (value) =>
      isMap(value) &&
      Object.keys(value).length <= VARIABLES_AT_ONCE &&
      Object.keys(value).every((name) => name.length >= 1 && name.length <= 255),
    `must be an object of at most ${VARIABLES_AT_ONCE} values, with names of 1 to 255 characters`,
  ),
  { type: 'object', maxProperties: VARIABLES_AT_ONCE },
);
const envelope = { ...shared, expires_in_seconds: maybe(integer(1, EXPIRES_MAX_SECONDS)) };
const ofMap = v.object({ variables: namedValues, ...envelope });
const ofList = v.object({
  variables: list(
    v.object({ var_name: variableName, var_value: json, ...shared }, 'must be {var_name, var_value}'),
    VARIABLES_AT_ONCE,
  ),
  ...envelope,
});

/** A map or list under `variables`, or else the body itself is the map. */
export const variablesBody = described(
  v.lazy((body): v.GenericSchema<unknown, VariablesBody> => {
    const variables = isMap(body) ? body['variables'] : undefined;
    if (Array.isArray(variables)) return v.pipe(ofList, v.transform(toDraftsOfList));
    return isMap(variables)
      ? v.pipe(ofMap, v.transform(toDraftsOfMap))
      : v.pipe(namedValues, v.transform(toDraftsOfBare));
  }),
  { anyOf: [jsonSchemaOf(ofMap, 'input'), jsonSchemaOf(ofList, 'input'), jsonSchemaOf(namedValues, 'input')] },
);

export interface VariablesBody {
  readonly drafts: readonly VariableDraft[];
  readonly expiresInSeconds: number | null;
}

interface Shared {
  readonly var_type?: VariableType | null | undefined;
  readonly source_step?: string | null | undefined;
  readonly expires_in_seconds?: number | null | undefined;
}

function toDraftsOfMap({ variables, ...shared }: v.InferOutput<typeof ofMap>): VariablesBody {
  return {
    drafts: Object.entries(variables).map(([name, value]) => draftOf(name, value, {}, shared)),
    expiresInSeconds: shared.expires_in_seconds ?? null,
  };
}

function toDraftsOfList({ variables, ...shared }: v.InferOutput<typeof ofList>): VariablesBody {
  return {
    drafts: variables.map(({ var_name, var_value, ...own }) => draftOf(var_name, var_value, own, shared)),
    expiresInSeconds: shared.expires_in_seconds ?? null,
  };
}

function toDraftsOfBare(variables: JsonMap): VariablesBody {
  return toDraftsOfMap({ variables });
}

function draftOf(name: string, value: Json, own: Shared, shared: Shared): VariableDraft {
  return {
    name,
    value,
    type: own.var_type ?? shared.var_type ?? 'user_defined',
    sourceStep: own.source_step ?? shared.source_step ?? null,
  };
}

const variable = v.object({
  value: json,
  type: v.string(),
  source_step: v.nullable(v.string()),
  created_at: v.string(),
  accessed_at: v.nullable(v.string()),
  access_count: v.number(),
});

export const namedVariable = v.object({ name: v.string(), ...variable.entries });
export const variableMap = v.object({
  execution_id: idOut,
  variables: v.record(v.string(), variable),
  count: v.number(),
});
export const variablesSet = v.object({
  execution_id: idOut,
  variables_set: v.number(),
  var_names: v.array(v.string()),
});

export function variableToWire(row: Variable): v.InferOutput<typeof variable> {
  return {
    value: row.value,
    type: row.type,
    source_step: row.sourceStep,
    created_at: row.createdAt,
    accessed_at: row.accessedAt,
    access_count: row.accessCount,
  };
}
