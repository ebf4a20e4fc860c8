/** Checks every template of a document when it is registered: syntax, roots, conditions. Nothing is rendered here. */

import { present } from '../known.ts';
import { hasTemplate, shown } from './names.ts';
import { items, members, type Place } from './place.ts';
import type { Report, Subject } from './report.ts';
import { compileCondition, compileTemplate } from './template/compiled.ts';
import { syntaxErrorIn } from './template/errors.ts';

/** `server` templates are evaluated by the engine, which never sees keychain values (language 8.2). */
export type Side = 'server' | 'worker';

/** Checks all templates in a value: its strings and the keys of its maps that contain `{{`. */
export function checkTemplates(report: Report, subject: Subject, place: Place, side: Side): void {
  const { node } = place;
  // Aliases and workbook references share nodes: what was checked once is not checked a thousand times.
  if (!report.firstVisit(node, side)) return;
  if (node.kind === 'scalar') {
    if (typeof node.json === 'string' && hasTemplate(node.json)) checkText(report, subject, place, node.json, side);
    return;
  }
  if (node.kind === 'list') {
    for (const item of items({ ...place, node })) checkTemplates(report, subject, item, side);
    return;
  }
  for (const { key, place: inner } of members({ ...place, node })) {
    if (key.includes('{{')) checkText(report, subject, atKey(inner), key, side);
    checkTemplates(report, subject, inner, side);
  }
}

/** Checks a condition (language 8.8): a template, or a bare expression. */
export function checkCondition(report: Report, subject: Subject, place: Place, text: string, side: Side): void {
  compiled(report, subject, place, side, () => compileCondition(text));
  if (isMixed(text)) {
    report.warn(
      'mixed_condition',
      subject,
      place,
      "text outside the braces is not compared, only rendered: put the whole condition inside '{{ }}'",
    );
  }
}

function checkText(report: Report, subject: Subject, place: Place, text: string, side: Side): void {
  compiled(report, subject, place, side, () => compileTemplate(text));
}

function compiled(
  report: Report,
  subject: Subject,
  place: Place,
  side: Side,
  compile: () => { readonly roots: readonly string[] },
): void {
  try {
    const { roots } = compile();
    if (side === 'server' && roots.includes('keychain')) {
      report.error('template_root', subject, place, "'keychain' is not available here");
    }
  } catch (error) {
    const { reason, excerpt } = syntaxErrorIn(error);
    report.error('template_syntax', subject, place, `template: ${reason} in "${shown(excerpt)}"`);
  }
}

/** Text around `{{ }}` that is not white space, and no statement that could use it. */
function isMixed(text: string): boolean {
  if (!text.includes('{{') || text.includes('{%')) return false;
  let from = 0;
  for (let open = text.indexOf('{{'); open >= 0; open = text.indexOf('{{', from)) {
    if (text.slice(from, open).trim() !== '') return true;
    const close = text.indexOf('}}', open);
    if (close < 0) return false;
    from = close + 2;
  }
  return text.slice(from).trim() !== '';
}

function atKey(place: Place): Place {
  return { ...place, node: { kind: 'scalar', at: present(place.keyAt), json: null } };
}
