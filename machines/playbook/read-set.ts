/** Reads `set` maps (language 6.1) and their legacy spellings into assignments in document order. */

import { known } from '../known.ts';
import type { Assignment } from './document.ts';
import { isIdentifier, RESERVED_ROOTS, shown } from './names.ts';
import { isMapPlace, type MapPlace, members, type Place } from './place.ts';
import type { Report, Subject } from './report.ts';
import { checkTemplates } from './template-checks.ts';

/** Where a `set` stands: it decides what a bare key means and whether `iter.` may be written (language 6.2). */
export type SetPlace = 'task' | 'rule' | 'step' | 'arc';

const LEGACY = { set_ctx: 'ctx', set_vars: 'ctx', set_iter: 'iter' } as const;

export const SET_KEYS: ReadonlySet<string> = new Set(['set', ...Object.keys(LEGACY)]);

/** All assignments of a step, arc, task or rule, from whichever `set` keys it has. */
export function readSets(report: Report, subject: Subject, owner: MapPlace, where: SetPlace): Assignment[] {
  return members(owner).flatMap(({ key, place }) => {
    if (key === 'set') return readSet(report, subject, place, where, (name) => name);
    if (key !== 'set_ctx' && key !== 'set_vars' && key !== 'set_iter') return [];
    const scope = LEGACY[key];
    report.warn('legacy_set', subject, place, `'${key}' is read as 'set' with '${scope}.'`, 'key');
    return readSet(report, subject, place, where, (name) => (name.startsWith(`${scope}.`) ? name : `${scope}.${name}`));
  });
}

/** Legacy `args` of an arc: every key is the name of a variable as it stands (language 3.3). */
export function readArcArgs(report: Report, subject: Subject, place: Place): Assignment[] {
  report.warn('legacy_args', subject, place, "'args' on an arc is read as 'set'", 'key');
  return assignmentsOf(report, subject, place, 'arc', (key) => {
    if (key === '' || key === '__proto__' || RESERVED_ROOTS.has(key)) return null;
    return { scope: 'ctx', path: [key] };
  });
}

function readSet(
  report: Report,
  subject: Subject,
  place: Place,
  where: SetPlace,
  spell: (key: string) => string,
): Assignment[] {
  return assignmentsOf(report, subject, place, where, (key) => targetOf(spell(key), where));
}

export type Target = Pick<Assignment, 'scope' | 'path'>;

function assignmentsOf(
  report: Report,
  subject: Subject,
  place: Place,
  where: SetPlace,
  read: (key: string) => Target | null,
): Assignment[] {
  if (place.node.json === null) return [];
  if (!isMapPlace(place)) {
    report.error('set_key', subject, place, 'set must be a map');
    return [];
  }
  const found = new Map<string, Assignment>();
  for (const { key, place: value } of members(place)) {
    checkTemplates(report, subject, value, where === 'step' || where === 'arc' ? 'server' : 'worker');
    const target = read(key);
    if (target === null) {
      report.error('set_key', subject, value, `cannot assign to '${shown(key)}'`, 'key');
      continue;
    }
    // Two spellings of one target: the later one wins and keeps its place in the order.
    const canonical = canonicalKey(target);
    found.delete(canonical);
    found.set(canonical, { key: canonical, ...target, value: value.node.json });
  }
  return [...found.values()];
}

/** `ctx.a.b`, `iter.a`, or bare for a name local to the command. */
function canonicalKey({ scope, path }: Target): string {
  return scope === 'local' ? path.join('.') : [scope, ...path].join('.');
}

/** What a `set` key writes to (language 6.1), or null when nothing may be written there. */
export function targetOf(key: string, where: SetPlace): Target | null {
  const parts = key.split('.');
  const [scope] = parts;
  const scoped = parts.length > 1 && (scope === 'ctx' || scope === 'iter' || scope === 'step');
  const path = scoped ? parts.slice(1) : parts;
  if (!path.every((part) => isIdentifier(part) && part !== '__proto__')) return null;
  if (RESERVED_ROOTS.has(known(path[0]))) return null;
  if (!scoped) return { scope: where === 'task' ? 'local' : 'ctx', path };
  if (scope !== 'iter') return { scope: 'ctx', path };
  return where === 'step' || where === 'arc' ? null : { scope: 'iter', path };
}
