/**
 * Reads one tool call into a task (language 4.2, 4.3, 11): canonical field names, merged inputs, policy and output
 * options. Fields with templates are not judged by type: what they yield is only known when they are rendered.
 */
import type { Json, JsonMap } from '../json.ts';
import { known } from '../known.ts';
import type { Rule, Task } from './document.ts';
import { containsTemplate, fitsType, literalNumber, TYPE_PHRASES } from './literal.ts';
import { hasTemplate, shown } from './names.ts';
import {
  firstMember,
  given,
  isMapPlace,
  type MapPlace,
  mapJson,
  member,
  members,
  type Place,
  textOf,
} from './place.ts';
import { readOutput } from './read-output.ts';
import { type Policy, readLegacyRetry, readPolicy } from './read-rules.ts';
import { readSets, SET_KEYS } from './read-set.ts';
import type { Report, Subject } from './report.ts';
import { checkTemplates } from './template-checks.ts';
import { canonicalField, judgeKind, KNOWN_KINDS, type ToolSpec } from './tool-fields.ts';
import { mapNode } from './yaml-node.ts';

export interface ToolSource {
  readonly place: MapPlace;
  readonly subject: Subject;
  readonly label: string;
  /** Labels of the pipeline, for jumps. */
  readonly labels: ReadonlySet<string>;
  /** Step `input`, laid over the tool's own. */
  readonly stepInput: JsonMap;
  /** False for a workbook action, whose missing fields may come from the task that refers to it. */
  readonly complete: boolean;
}

/** Keys every kind has; `name` is the label and, for some kinds, a field of their own. */
const COMMON_KEYS: ReadonlySet<string> = new Set([
  ...SET_KEYS,
  'kind',
  'name',
  'input',
  'args',
  'with',
  'spec',
  'timeout',
  'timeout_seconds',
  'output',
  'output_select',
  'retry',
  'eval',
]);
const INPUT_KEYS = ['with', 'args', 'input'] as const;
const SECRET_FIELDS = new Set(['password', 'token', 'key', 'api_key', 'access_token', 'client_secret', 'secret']);

/** The task, or null when its kind is unknown or not available. A `workbook` reference is replaced before this. */
export function readTool(report: Report, source: ToolSource): Task | null {
  const { subject } = source;
  const kindPlace = member(source.place, 'kind');
  const kind = textOf(kindPlace);
  if (kindPlace === null || kind === null) {
    report.error(
      'tool_shape',
      subject,
      kindPlace ?? source.place,
      "tool must be a map with 'kind' or a non-empty list of tasks",
    );
    return null;
  }
  const verdict = judgeKind(kind);
  if (verdict.is === 'later') {
    report.error('tool_kind_unsupported', subject, kindPlace, `tool kind '${kind}' is not available in this build`);
    return null;
  }
  if (verdict.is !== 'tool') {
    const known = KNOWN_KINDS.join(', ');
    report.error('tool_kind_unknown', subject, kindPlace, `unknown tool kind '${shown(kind)}'; known kinds: ${known}`);
    return null;
  }
  const place = withSpecFields(report, source, verdict.spec);
  const policy = readTaskPolicy(report, source);
  return {
    name: source.label,
    kind: verdict.kind,
    fields: readFields(report, source, place, verdict.kind, verdict.spec),
    input: readInput(report, source, place, verdict.kind),
    ...(Object.keys(source.stepInput).length === 0 ? {} : { stepInput: Object.keys(source.stepInput) }),
    set: readSets(report, subject, place, 'task'),
    rules: policy.rules,
    onUnmatched: policy.onUnmatched,
    timeout: readTimeout(report, source, place),
    output: readOutput(report, subject, place),
  };
}

/** The tool with the fields its `spec` holds, unless it has them itself (language 3.3). */
function withSpecFields(report: Report, source: ToolSource, spec: ToolSpec): MapPlace {
  const { place, subject } = source;
  const inner = member(place, 'spec');
  if (!isMapPlace(inner)) {
    if (inner && inner.node.json !== null) report.error('tool_field', subject, inner, "'spec' must be a map");
    return place;
  }
  const own = new Set(place.node.entries.map(({ key }) => canonicalField(spec, key) ?? key));
  const moved = inner.node.entries.filter(({ key }) => key !== 'policy' && key !== 'timeout');
  for (const { key, place: field } of members(inner)) {
    if (key === 'policy' || key === 'timeout') continue;
    report.warn(
      'tool_field_in_spec',
      subject,
      field,
      `'${shown(key)}' inside spec is read as a field of the tool`,
      'key',
    );
  }
  const added = moved.filter(({ key }) => !own.has(canonicalField(spec, key) ?? key));
  if (added.length === 0) return place;
  return { ...place, node: mapNode(place.node.at, [...place.node.entries, ...added]) };
}

function readFields(report: Report, source: ToolSource, place: MapPlace, kind: string, spec: ToolSpec): JsonMap {
  const { subject } = source;
  const found = new Map<string, Place>();
  for (const { key, place: field } of members(place)) {
    const name = ownsInput(kind, key) ? 'args' : canonicalField(spec, key);
    if (name === null) {
      if (!COMMON_KEYS.has(key)) {
        report.warn('unknown_key', subject, field, `unknown key '${shown(key)}' for kind ${kind} is ignored`, 'key');
      }
      continue;
    }
    checkTemplates(report, subject, field, 'worker');
    checkType(report, subject, field, name, spec);
    const earlier = found.get(name);
    if (earlier === undefined || isEmpty(earlier.node.json) || (key === name && !isEmpty(field.node.json))) {
      found.set(name, field);
    }
  }
  const evaluated = member(place, 'eval');
  if (evaluated) report.error('step_key', subject, evaluated, "'eval' is not supported, use spec.policy.rules", 'key');
  checkRequired(report, source, place, kind, spec, found);
  warnCode(report, subject, spec, found);
  warnInlineSecret(report, subject, found.get('auth'));
  return Object.fromEntries([...found].map(([name, field]) => [name, field.node.json]));
}

/** The inputs of a child playbook: `args`, else `input`, else `payload`, the first that is not empty (language 11.7). */
function ownsInput(kind: string, key: string): boolean {
  return kind === 'playbook' && (key === 'args' || key === 'input' || key === 'payload');
}

function isEmpty(value: Json): boolean {
  if (value === null || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

function checkType(report: Report, subject: Subject, place: Place, name: string, spec: ToolSpec): void {
  const type = known(spec.fields[name]).type;
  if (fitsType(place.node.json, type) || containsTemplate(place.node.json)) return;
  report.error('tool_field', subject, place, `'${name}' must be ${TYPE_PHRASES[type]}`);
}

function checkRequired(
  report: Report,
  source: ToolSource,
  place: MapPlace,
  kind: string,
  spec: ToolSpec,
  found: ReadonlyMap<string, Place>,
): void {
  if (!source.complete) return;
  for (const group of spec.required) {
    if (group.some((name) => isGiven(found, name))) continue;
    // A source that is a template or missing altogether says nothing about its type.
    const [name = '', inner] = known(group[0]).split('.');
    const outer = found.get(name);
    if (inner !== undefined && !isMapPlace(outer ?? null)) continue;
    report.error(
      'tool_field',
      source.subject,
      inner && outer ? outer : place,
      `'${group[0]}' is required for kind ${kind}`,
    );
  }
}

function isGiven(found: ReadonlyMap<string, Place>, path: string): boolean {
  const [name = '', inner] = path.split('.');
  const value = found.get(name)?.node.json ?? null;
  if (inner === undefined) return !isEmpty(value);
  return !isEmpty(mapJson(found.get(name) ?? null)[inner] ?? null);
}

function warnCode(report: Report, subject: Subject, spec: ToolSpec, found: ReadonlyMap<string, Place>): void {
  for (const name of spec.code) {
    const place = found.get(name);
    if (place && containsTemplate(place.node.json)) {
      report.warn('template_in_code', subject, place, `template inside '${name}', values should travel in input`);
    }
  }
}

function warnInlineSecret(report: Report, subject: Subject, auth: Place | undefined): void {
  if (auth === undefined || !isMapPlace(auth)) return;
  for (const { key, place } of members(auth)) {
    const text = textOf(place);
    if (!SECRET_FIELDS.has(key) || text === null || text === '' || hasTemplate(text)) continue;
    report.warn(
      'inline_secret',
      subject,
      place,
      `'${key}' is written in the document, use a credential or the keychain`,
    );
  }
}

function readInput(report: Report, source: ToolSource, place: MapPlace, kind: string): JsonMap {
  const merged: Record<string, Json> = {};
  for (const key of INPUT_KEYS) {
    if (key !== 'with' && (ownsInput(kind, key) || (kind === 'mcp' && key === 'args'))) continue;
    const input = given(place, key);
    if (input === null) continue;
    checkTemplates(report, source.subject, input, 'worker');
    if (!isMapPlace(input)) report.error('tool_field', source.subject, input, `'${key}' must be a map`);
    Object.assign(merged, mapJson(input));
  }
  return { ...merged, ...source.stepInput };
}

function readTaskPolicy(report: Report, source: ToolSource): Policy {
  const { subject, labels } = source;
  const spec = member(source.place, 'spec');
  const place = isMapPlace(spec) ? member(spec, 'policy') : null;
  const policy: Policy = place ? readPolicy(report, subject, place, labels) : { rules: [], onUnmatched: null };
  const retry = member(source.place, 'retry');
  if (retry === null) return policy;
  const legacy: Rule | null = readLegacyRetry(report, subject, retry, policy.rules.length);
  return legacy ? { ...policy, rules: [...policy.rules, legacy] } : policy;
}

function readTimeout(report: Report, source: ToolSource, place: MapPlace): Json {
  const spec = member(source.place, 'spec');
  const found =
    firstMember(place, ['timeout', 'timeout_seconds']) ?? (isMapPlace(spec) ? member(spec, 'timeout') : null);
  if (found === null || found.node.json === null) return null;
  checkTemplates(report, source.subject, found, 'worker');
  const seconds = literalNumber(found.node.json);
  if (!containsTemplate(found.node.json) && (seconds === null || seconds <= 0)) {
    report.error('tool_field', source.subject, found, "'timeout' must be a number");
  }
  return found.node.json;
}
