/** Reads `next` in all its shapes (language 5.1) and admission rules (5.3). */
import type { AdmitRule, Arc, Assignment, Step } from './document.ts';
import { shown } from './names.ts';
import {
  given,
  isListPlace,
  isMapPlace,
  items,
  type ListPlace,
  type MapPlace,
  member,
  type Place,
  textOf,
} from './place.ts';
import { readArcArgs, readSets, SET_KEYS } from './read-set.ts';
import type { Report, Subject } from './report.ts';
import { checkCondition } from './template-checks.ts';
import { warnUnknownKeys } from './unknown-keys.ts';

export type Routing = Pick<Step, 'mode' | 'arcs'>;

const NEXT_KEYS = new Set(['spec', 'arcs']);
const NEXT_SPEC_KEYS = new Set(['mode', 'on_no_match']);
const ARC_KEYS = new Set([...SET_KEYS, 'step', 'when', 'cond', 'args']);
const ADMIT_KEYS = new Set(['when', 'then', 'else']);
const TERMINAL: Routing = { mode: 'exclusive', arcs: [] };

/** The arcs of a step. `targets` are the names of all steps; `end` needs no definition. */
export function readNext(report: Report, subject: Subject, step: MapPlace, targets: ReadonlySet<string>): Routing {
  const place = given(step, 'next');
  const legacyMode = legacyModeOf(report, subject, step);
  if (place === null) return TERMINAL;
  if (isMapPlace(place)) return readCanonical(report, subject, place, targets, legacyMode);
  if (isListPlace(place)) return readLegacyList(report, subject, place, targets, legacyMode);
  const name = textOf(place);
  if (name === null) {
    report.error('next_shape', subject, place, 'next must be a map with arcs, a step name or a list');
    return TERMINAL;
  }
  report.warn('legacy_next', subject, place, "'next' as a name is read as one arc");
  return { mode: 'exclusive', arcs: arcTo(report, subject, place, name, 0, targets) };
}

function legacyModeOf(report: Report, subject: Subject, step: MapPlace): Step['mode'] | null {
  const spec = member(step, 'spec');
  const place = isMapPlace(spec) ? given(spec, 'next_mode') : null;
  if (place === null) return null;
  report.warn('legacy_next', subject, place, "'spec.next_mode' is read as 'next.spec.mode'", 'key');
  return readMode(report, subject, place);
}

function readMode(report: Report, subject: Subject, place: Place): Step['mode'] | null {
  const mode = textOf(place);
  if (mode === 'exclusive' || mode === 'inclusive') return mode;
  report.error('next_shape', subject, place, 'mode must be exclusive or inclusive');
  return null;
}

function readCanonical(
  report: Report,
  subject: Subject,
  place: MapPlace,
  targets: ReadonlySet<string>,
  legacyMode: Step['mode'] | null,
): Routing {
  warnUnknownKeys(report, subject, place, NEXT_KEYS, 'next');
  const spec = given(place, 'spec');
  let mode = legacyMode ?? 'exclusive';
  if (isMapPlace(spec)) {
    warnUnknownKeys(report, subject, spec, NEXT_SPEC_KEYS, 'next.spec');
    const written = given(spec, 'mode');
    mode = (written && readMode(report, subject, written)) ?? mode;
    const quiet = given(spec, 'on_no_match');
    if (quiet && quiet.node.json !== 'complete' && quiet.node.json !== 'quiet') {
      report.error('next_shape', subject, quiet, 'on_no_match must be complete or quiet');
    }
  } else if (spec) {
    report.error('next_shape', subject, spec, 'next.spec must be a map');
  }
  const arcs = member(place, 'arcs');
  if (!isListPlace(arcs)) {
    report.error('next_shape', subject, arcs ?? place, "next needs 'arcs', a list of {step, when?, set?}");
    return { mode, arcs: [] };
  }
  return { mode, arcs: items(arcs).flatMap((item, index) => readArc(report, subject, item, index, targets)) };
}

function readLegacyList(
  report: Report,
  subject: Subject,
  place: ListPlace,
  targets: ReadonlySet<string>,
  legacyMode: Step['mode'] | null,
): Routing {
  report.warn('legacy_next', subject, place, "'next' as a list is read as arcs");
  const arcs = items(place).flatMap((item, index) => {
    const name = textOf(item);
    if (name === null) return readArc(report, subject, item, index, targets);
    return arcTo(report, subject, item, name, index, targets);
  });
  const names = place.node.items.some((item) => typeof item.json === 'string');
  return { mode: legacyMode ?? (names ? 'inclusive' : 'exclusive'), arcs };
}

function arcTo(
  report: Report,
  subject: Subject,
  place: Place,
  to: string,
  index: number,
  targets: ReadonlySet<string>,
): Arc[] {
  if (to === '') {
    report.error('next_shape', subject, place, "an arc needs 'step'");
    return [];
  }
  if (to !== 'end' && !targets.has(to)) {
    report.error('next_target', subject, place, `unknown target step '${shown(to)}'`);
    return [];
  }
  return [{ index, to, when: null, set: [] }];
}

function readArc(report: Report, subject: Subject, place: Place, index: number, targets: ReadonlySet<string>): Arc[] {
  if (!isMapPlace(place)) {
    report.error('next_shape', subject, place, "an arc must be a map with 'step'");
    return [];
  }
  warnUnknownKeys(report, subject, place, ARC_KEYS, 'an arc');
  const when = readGuard(report, subject, place);
  const set = readArcSet(report, subject, place);
  const target = member(place, 'step');
  const to = textOf(target);
  if (target === null || to === null) {
    report.error('next_shape', subject, target ?? place, "an arc needs 'step'");
    return [];
  }
  return arcTo(report, subject, target, to, index, targets).map((arc) => ({ ...arc, when, set }));
}

function readArcSet(report: Report, subject: Subject, arc: MapPlace): Assignment[] {
  const args = member(arc, 'args');
  const legacy = args ? readArcArgs(report, subject, args) : [];
  return [...legacy, ...readSets(report, subject, arc, 'arc')];
}

function readGuard(report: Report, subject: Subject, arc: MapPlace): Arc['when'] {
  const cond = member(arc, 'cond');
  if (cond) report.warn('arc_cond', subject, cond, "'cond' is read as 'when'", 'key');
  const place = member(arc, 'when') ?? cond;
  if (place === null) return null;
  const when = readCondition(report, subject, place);
  if (when === null) report.error('next_shape', subject, place, "'when' must be a string or a boolean");
  return when;
}

function readCondition(report: Report, subject: Subject, place: Place): string | boolean | null {
  const { json } = place.node;
  if (typeof json === 'boolean') return json;
  if (typeof json !== 'string') return null;
  checkCondition(report, subject, place, json, 'server');
  return json;
}

/** Admission from `spec.policy.admit` or, in old documents, from `when` on the step. Null admits. */
export function readAdmission(report: Report, subject: Subject, step: MapPlace): readonly AdmitRule[] | null {
  const legacy = legacyAdmission(report, subject, step);
  const spec = member(step, 'spec');
  const policy = isMapPlace(spec) ? member(spec, 'policy') : null;
  const admit = isMapPlace(policy) ? given(policy, 'admit') : null;
  if (admit === null) return legacy;
  const rules = isMapPlace(admit) ? member(admit, 'rules') : null;
  if (isMapPlace(admit)) warnUnknownKeys(report, subject, admit, new Set(['rules']), 'admit');
  if (!isListPlace(rules)) {
    report.error('admit_shape', subject, rules ?? admit, 'admit needs rules, a list of {when, then: {allow}}');
    return legacy;
  }
  return items(rules).flatMap((item, index) => readAdmitRule(report, subject, item, index) ?? []);
}

function legacyAdmission(report: Report, subject: Subject, step: MapPlace): readonly AdmitRule[] | null {
  const place = member(step, 'when');
  if (place === null) return null;
  report.warn('legacy_when', subject, place, "'when' on a step is read as an admission rule", 'key');
  const when = readCondition(report, subject, place);
  if (when === null) {
    report.error('admit_shape', subject, place, "'when' must be a string or a boolean");
    return null;
  }
  return [
    { when, allow: true },
    { when: null, allow: false },
  ];
}

function readAdmitRule(report: Report, subject: Subject, place: Place, index: number): AdmitRule | null {
  const bad = (where: Place): null => {
    report.error('admit_shape', subject, where, `admission rule ${index} needs then.allow`);
    return null;
  };
  if (!isMapPlace(place)) return bad(place);
  warnUnknownKeys(report, subject, place, ADMIT_KEYS, 'an admission rule');
  const condition = member(place, 'when');
  const otherwise = member(place, 'else');
  const when = condition ? readCondition(report, subject, condition) : null;
  if (condition && when === null) {
    report.error('admit_shape', subject, condition, `admission rule ${index}: 'when' must be a string or a boolean`);
    return null;
  }
  if (condition && otherwise) return bad(otherwise);
  const then = member(place, 'then') ?? (isMapPlace(otherwise) ? (member(otherwise, 'then') ?? otherwise) : null);
  const allow = isMapPlace(then) ? member(then, 'allow') : null;
  if (typeof allow?.node.json !== 'boolean') return bad(allow ?? then ?? place);
  return { when, allow: allow.node.json };
}
