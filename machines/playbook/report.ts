/** Collects what registration has to say about a document: every error and warning, once each, in document order. */
import type { Diagnostic } from './document.ts';
import { shown } from './names.ts';
import type { Place } from './place.ts';
import type { LineIndex, Span, YamlNode } from './yaml-node.ts';

export type ErrorCode =
  | 'yaml_syntax'
  | 'api_version'
  | 'kind'
  | 'metadata'
  | 'root_key'
  | 'workload_type'
  | 'workflow_empty'
  | 'step_name'
  | 'step_duplicate'
  | 'step_key'
  | 'tool_missing'
  | 'tool_shape'
  | 'tool_kind_unknown'
  | 'tool_kind_unsupported'
  | 'tool_field'
  | 'task_label'
  | 'next_shape'
  | 'next_target'
  | 'rule_shape'
  | 'rule_action'
  | 'rule_retry'
  | 'admit_shape'
  | 'loop_shape'
  | 'set_key'
  | 'template_syntax'
  | 'template_root'
  | 'workbook_ref'
  | 'keychain_entry'
  | 'entry_step';

export type WarningCode =
  | 'api_version'
  | 'legacy_when'
  | 'legacy_next'
  | 'legacy_args'
  | 'legacy_set'
  | 'legacy_retry'
  | 'arc_cond'
  | 'tool_field_in_spec'
  | 'step_vars'
  | 'unknown_key'
  | 'agent_kind'
  | 'unreachable_step'
  | 'unreachable_rule'
  | 'fanout_no_reducer'
  | 'reducer_orphan'
  | 'template_in_code'
  | 'inline_secret'
  | 'shadowed_name'
  | 'mixed_condition'
  | 'keychain_entry'
  | 'rule_retry';

/** Whose fault it is: the subject of the message and the `step` and `task` of the diagnostic. */
export interface Subject {
  readonly text: string;
  readonly step: string | null;
  readonly task: string | null;
}

export const DOCUMENT: Subject = { text: 'Document', step: null, task: null };

export function stepSubject(step: string): Subject {
  return { text: `Step '${shown(step)}'`, step, task: null };
}
export function taskSubject(step: string, task: string): Subject {
  return { text: `Step '${shown(step)}', task '${shown(task)}'`, step, task };
}
export function keychainSubject(entry: string): Subject {
  return { text: `Keychain entry '${shown(entry)}'`, step: null, task: null };
}
export function workbookSubject(action: string): Subject {
  return { text: `Workbook action '${shown(action)}'`, step: null, task: null };
}

/** Which end of a member is meant: its value (what is wrong with it), or its key (that it is there at all). */
export type Side = 'value' | 'key';

export class Report {
  readonly #lines: LineIndex;
  readonly #found: Diagnostic[] = [];
  readonly #seen = new Set<string>();
  readonly #visited = new Map<string, WeakSet<YamlNode>>();

  constructor(lines: LineIndex) {
    this.#lines = lines;
  }

  error(code: ErrorCode, subject: Subject, place: Place, text: string, side: Side = 'value'): void {
    this.#add('error', code, subject, place.path, spanOf(place, side), text);
  }

  warn(code: WarningCode, subject: Subject, place: Place, text: string, side: Side = 'value'): void {
    this.#add('warning', code, subject, place.path, spanOf(place, side), text);
  }

  /** An error at a span that belongs to no node. */
  errorAt(code: ErrorCode, subject: Subject, path: string, at: Span, text: string): void {
    this.#add('error', code, subject, path, at, text);
  }

  /** True the first time a node is looked at for this purpose. */
  firstVisit(node: YamlNode, purpose: string): boolean {
    const visited = this.#visited.get(purpose) ?? new WeakSet();
    this.#visited.set(purpose, visited);
    if (visited.has(node)) return false;
    visited.add(node);
    return true;
  }

  lineOf(place: Place): number {
    return this.#lines.position(place.node.at.start).line;
  }

  get errors(): readonly Diagnostic[] {
    return inOrder(this.#found, 'error');
  }

  get warnings(): readonly Diagnostic[] {
    return inOrder(this.#found, 'warning');
  }

  #add(severity: Diagnostic['severity'], code: string, subject: Subject, path: string, at: Span, text: string): void {
    // A workbook action is read once for itself and once per reference; what is wrong in it is said once.
    const key = `${severity} ${code} ${at.start} ${text}`;
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    const from = this.#lines.position(at.start);
    const to = this.#lines.position(at.end);
    this.#found.push({
      severity,
      code,
      message: `${subject.text}: ${text} (line ${from.line})`,
      step: subject.step,
      task: subject.task,
      path,
      line: from.line,
      column: from.column,
      endLine: to.line,
      endColumn: to.column,
    });
  }
}

function spanOf(place: Place, side: Side): Span {
  return side === 'key' && place.keyAt ? place.keyAt : place.node.at;
}

function inOrder(found: readonly Diagnostic[], severity: Diagnostic['severity']): Diagnostic[] {
  const chosen = found.filter((diagnostic) => diagnostic.severity === severity);
  return chosen.sort((a, b) => a.line - b.line || a.column - b.column);
}
