/** Reads `keychain` entries (language 12.3) into their canonical form: `kind`, `scope` and no aliases. */
import type { Json, JsonMap } from '../json.ts';
import { present } from '../known.ts';
import { shown } from './names.ts';
import {
  firstMember,
  given,
  isListPlace,
  isMapPlace,
  items,
  type MapPlace,
  member,
  type Place,
  textOf,
} from './place.ts';
import { DOCUMENT, keychainSubject, type Report, type Subject } from './report.ts';
import { checkTemplates } from './template-checks.ts';

const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  secret_manager: ['provider', 'map'],
  oauth2: ['endpoint'],
  http: ['endpoint'],
  bearer: ['token'],
  static: ['map'],
  credential: [],
};
const ALIASES: ReadonlyMap<string, string> = new Map([
  ['secrets', 'secret_manager'],
  ['credential_ref', 'credential'],
]);
/** Accepted, but this build cannot resolve them: they fail when they are used. */
const LATER: ReadonlySet<string> = new Set(['google_oauth', 'google_service_account', 'google_id_token']);
const SCOPES: Readonly<Record<string, string>> = {
  global: 'global',
  local: 'local',
  shared: 'shared',
  catalog: 'global',
};

/** The entries in document order, each with `name`, canonical `kind` and `scope`, and its other fields unrendered. */
export function readKeychain(report: Report, root: MapPlace): JsonMap[] {
  const place = given(root, 'keychain');
  if (place === null) return [];
  if (!isListPlace(place)) {
    report.error('keychain_entry', DOCUMENT, place, 'keychain must be a list of entries');
    return [];
  }
  const names = new Set<string>();
  return items(place).flatMap((item) => {
    const entry = readEntry(report, item, names);
    return entry ? [entry] : [];
  });
}

function readEntry(report: Report, place: Place, names: Set<string>): JsonMap | null {
  const name = isMapPlace(place) ? textOf(member(place, 'name')) : null;
  if (!isMapPlace(place) || name === null || name === '') {
    report.error('keychain_entry', DOCUMENT, place, 'a keychain entry needs a name');
    return null;
  }
  const subject = keychainSubject(name);
  const namePlace = present(member(place, 'name'));
  if (name === '__proto__') report.error('keychain_entry', subject, namePlace, `entry name '${name}' is reserved`);
  if (names.has(name)) report.error('keychain_entry', subject, namePlace, 'duplicate entry name');
  names.add(name);
  checkTemplates(report, subject, place, 'worker');
  const kind = readKind(report, subject, place);
  const scope = readScope(report, subject, place);
  if (kind === 'credential' && given(place, 'credential') === null) {
    return entryOf(place, { kind, scope, credential: given(place, 'ref')?.node.json ?? name });
  }
  return entryOf(place, { kind, scope });
}

function entryOf(place: MapPlace, canonical: Readonly<Record<string, Json>>): JsonMap {
  const { type: _type, ref: _ref, ...fields } = place.node.json;
  return { ...fields, ...canonical };
}

function readKind(report: Report, subject: Subject, place: MapPlace): string {
  const found = firstMember(place, ['kind', 'type']);
  const written = textOf(found);
  if (found === null || written === null) {
    report.error('keychain_entry', subject, found ?? place, 'kind is missing');
    return '';
  }
  const kind = ALIASES.get(written) ?? written;
  if (LATER.has(kind)) {
    report.warn('keychain_entry', subject, found, `kind '${kind}' is not available in this build and fails on use`);
    return kind;
  }
  const required = Object.hasOwn(REQUIRED, kind) ? REQUIRED[kind] : undefined;
  if (required === undefined) {
    const known = Object.keys(REQUIRED).join(', ');
    report.error('keychain_entry', subject, found, `unknown kind '${shown(written)}'; known kinds: ${known}`);
    return kind;
  }
  for (const field of required) checkRequired(report, subject, place, kind, field);
  return kind;
}

function checkRequired(report: Report, subject: Subject, place: MapPlace, kind: string, field: string): void {
  const found = given(place, field);
  if (found === null || found.node.json === '') {
    report.error('keychain_entry', subject, place, `'${field}' is required for kind ${kind}`);
  } else if (field === 'map' && !isMapPlace(found)) {
    report.error('keychain_entry', subject, found, "'map' must be a map");
  } else if (field !== 'map' && textOf(found) === null) {
    report.error('keychain_entry', subject, found, `'${field}' must be a string`);
  }
}

function readScope(report: Report, subject: Subject, place: MapPlace): string {
  const found = given(place, 'scope');
  if (found === null) return 'global';
  const written = textOf(found) ?? '';
  const scope = Object.hasOwn(SCOPES, written) ? SCOPES[written] : undefined;
  if (scope !== undefined) return scope;
  report.error(
    'keychain_entry',
    subject,
    found,
    `unknown scope '${shown(String(found.node.json))}', use global, local or shared`,
  );
  return 'global';
}
