/** Reads the root of an executable document (language 2.1 to 2.4) and what hangs together across its parts. */
import { isMap, type JsonMap } from '../json.ts';
import { known } from '../known.ts';
import { isExecutable, storedKindOf } from './catalog-kind.ts';
import type { Playbook } from './document.ts';
import { warnRouting } from './lint-graph.ts';
import { RESERVED_ROOTS, shown } from './names.ts';
import {
  given,
  isListPlace,
  isMapPlace,
  items,
  type MapPlace,
  mapJson,
  member,
  members,
  type Place,
  textOf,
} from './place.ts';
import { readKeychain } from './read-keychain.ts';
import { readSteps } from './read-steps.ts';
import { readWorkbook } from './read-workbook.ts';
import { DOCUMENT, type Report, stepSubject } from './report.ts';
import { warnUnknownKeys } from './unknown-keys.ts';

export interface ParseOptions {
  /** Catalog path of the registration request; wins over the document's. */
  readonly path?: string | null | undefined;
  /** The request's `resource_type`; only `agent` changes how an executable document is stored. */
  readonly resourceType?: string | null | undefined;
}

const ROOT_KEYS = new Set([
  'apiVersion',
  'kind',
  'metadata',
  'executor',
  'workload',
  'keychain',
  'workbook',
  'workflow',
  'vars',
]);

/** The playbook as far as it could be read; it is one only if the report has no errors. */
export function readDocument(report: Report, root: MapPlace, options: ParseOptions): Playbook {
  warnUnknownKeys(report, DOCUMENT, root, ROOT_KEYS, 'the document');
  const vars = member(root, 'vars');
  if (vars) report.error('root_key', DOCUMENT, vars, "'vars' is not supported, use workload and set", 'key');
  const apiVersion = readApiVersion(report, root);
  const kind = readKind(report, root, options);
  const identity = readIdentity(report, root, options);
  const workload = readWorkload(report, root);
  const keychain = readKeychain(report, root);
  const steps = readSteps(report, root, readWorkbook(report, root));
  const names = stepNames(root);
  const executor = readExecutor(report, root, names);
  const entryStep = executor.entryStep ?? (names.includes('start') ? 'start' : (names[0] ?? ''));
  const { finalStep } = executor;
  const playbook = { apiVersion, kind, ...identity, workload, keychain, steps, entryStep, finalStep };
  // With a step or an arc missing, what it led to would look unreachable.
  if (report.errors.length === 0) warnRouting(report, stepPlaces(root), playbook);
  return playbook;
}

function readApiVersion(report: Report, root: MapPlace): string | null {
  const place = member(root, 'apiVersion');
  if (place === null) {
    report.warn('api_version', DOCUMENT, root, "no apiVersion, read as 'v2'");
    return null;
  }
  const version = textOf(place);
  if (version === null || version === '') {
    report.error('api_version', DOCUMENT, place, 'apiVersion must be a string');
    return null;
  }
  if (!/(^|[^A-Za-z0-9])v(1|2|10)$/.test(version)) {
    report.warn('api_version', DOCUMENT, place, `unknown apiVersion '${shown(version)}', read as 'v2'`);
  }
  return version;
}

function readKind(report: Report, root: MapPlace, options: ParseOptions): Playbook['kind'] {
  const place = member(root, 'kind');
  const written = textOf(place);
  const kind = written === null ? null : storedKindOf(written, options.resourceType ?? null);
  if (kind === null || !isExecutable(kind)) {
    report.error('kind', DOCUMENT, place ?? root, 'kind must be Playbook or Agent');
    return 'playbook';
  }
  const metadata = member(root, 'metadata');
  const agent = isMapPlace(metadata) ? member(metadata, 'agent') : null;
  if (kind === 'playbook' && agent?.node.json === true) {
    report.warn('agent_kind', DOCUMENT, agent, "metadata.agent is true, but the document is stored as kind 'playbook'");
  }
  return kind;
}

/** `metadata`, with the path and the name that follow from it and the request (language 2.2). */
export function readIdentity(
  report: Report,
  root: MapPlace,
  options: ParseOptions,
): Pick<Playbook, 'metadata' | 'path' | 'name'> {
  const place = member(root, 'metadata');
  const metadata: JsonMap = mapJson(place);
  const nameOf = (key: string): string => (typeof metadata[key] === 'string' ? metadata[key] : '');
  const path = options.path || nameOf('path') || nameOf('name');
  if ((place !== null && place.node.json !== null && !isMap(place.node.json)) || path === '') {
    report.error('metadata', DOCUMENT, place ?? root, 'metadata.name is required');
  }
  return { metadata, path, name: nameOf('name') || known(path.split('/').at(-1)) };
}

function readWorkload(report: Report, root: MapPlace): JsonMap {
  const place = given(root, 'workload');
  if (place === null) return {};
  if (!isMapPlace(place)) {
    report.error('workload_type', DOCUMENT, place, 'workload must be a map');
    return {};
  }
  for (const { key, place: inner } of members(place)) {
    if (!RESERVED_ROOTS.has(key)) continue;
    report.warn('shadowed_name', DOCUMENT, inner, `'${key}' is a reserved name, read it as workload.${key}`, 'key');
  }
  return place.node.json;
}

interface Executor {
  readonly entryStep: string | null;
  readonly finalStep: string | null;
}

function readExecutor(report: Report, root: MapPlace, names: readonly string[]): Executor {
  const executor = given(root, 'executor');
  if (executor && !isMapPlace(executor)) {
    report.error('entry_step', DOCUMENT, executor, 'executor must be a map');
  }
  const spec = isMapPlace(executor) ? given(executor, 'spec') : null;
  if (!isMapPlace(spec)) return { entryStep: null, finalStep: null };
  const stepNamed = (key: string): string | null => {
    const place = given(spec, key);
    if (place === null) return null;
    const name = textOf(place);
    if (name !== null && names.includes(name)) return name;
    report.error('entry_step', DOCUMENT, place, `'${shown(String(place.node.json))}' is not a step`);
    return null;
  };
  const found = { entryStep: stepNamed('entry_step'), finalStep: stepNamed('final_step') };
  if (member(spec, 'no_next_is_error')?.node.json === true) checkNext(report, root, found.finalStep);
  return found;
}

/** With `no_next_is_error` every step but `end` and the final one has to say where to go (language 2.3). */
function checkNext(report: Report, root: MapPlace, finalStep: string | null): void {
  for (const [name, step] of stepPlaces(root)) {
    if (name === 'end' || name === finalStep || given(step, 'next')) continue;
    report.error('entry_step', stepSubject(name), step, "'next' is missing, which no_next_is_error forbids");
  }
}

function stepNames(root: MapPlace): readonly string[] {
  return [...stepPlaces(root).keys()];
}

/** The maps of all named steps, also of those that could not be read; the first of a name wins. */
function stepPlaces(root: MapPlace): ReadonlyMap<string, MapPlace> {
  const workflow: Place | null = member(root, 'workflow');
  const found = new Map<string, MapPlace>();
  if (!isListPlace(workflow)) return found;
  for (const item of items(workflow)) {
    const name = isMapPlace(item) ? textOf(member(item, 'step')) : null;
    if (isMapPlace(item) && name !== null && name !== '' && !found.has(name)) found.set(name, item);
  }
  return found;
}
