/**
 * Registration checks (language 3): a text becomes a playbook, or a list of everything that is wrong with it. Nothing
 * here throws for a bad text; the only way to get a `Playbook` is through `parsePlaybook` or `parseDocument`.
 */
import type { JsonMap } from '../json.ts';
import { isExecutable, type StoredKind, storedKindOf } from './catalog-kind.ts';
import type { Diagnostic, ParsedPlaybook, Playbook } from './document.ts';
import { isMapPlace, type MapPlace, member, type Place, textOf } from './place.ts';
import { type ParseOptions, readDocument, readIdentity } from './read-document.ts';
import { DOCUMENT, Report } from './report.ts';
import { LineIndex } from './yaml-node.ts';
import { readYaml } from './yaml-source.ts';

export type { ParseOptions } from './read-document.ts';

/** Parses and checks an executable document. All errors are reported at once, in document order. */
export function parsePlaybook(text: string, options: ParseOptions = {}): ParsedPlaybook {
  const opened = open(text);
  if (!opened.ok) return { ok: false, errors: opened.errors, warnings: [] };
  return readPlaybook(opened.report, opened.root, options);
}

export type ParsedDocument =
  | {
      readonly ok: true;
      readonly kind: StoredKind;
      readonly path: string;
      readonly name: string;
      readonly document: JsonMap;
      /** Null for kinds that cannot be executed. */
      readonly playbook: Playbook | null;
      readonly warnings: readonly Diagnostic[];
    }
  | {
      readonly ok: false;
      /** What could be told of the document although it is refused. */
      readonly kind: StoredKind | null;
      readonly path: string | null;
      readonly errors: readonly Diagnostic[];
      readonly warnings: readonly Diagnostic[];
    };

/** Parses a document of any catalog kind (language 2.6); only executable ones are checked beyond their metadata. */
export function parseDocument(text: string, options: ParseOptions = {}): ParsedDocument {
  const opened = open(text);
  if (!opened.ok) return { ok: false, kind: null, path: options.path ?? null, errors: opened.errors, warnings: [] };
  const { report, root } = opened;
  const written = member(root, 'kind');
  const kind = storedKindOf(written === null ? null : (textOf(written) ?? ''), options.resourceType ?? 'playbook');
  if (kind === null || isExecutable(kind)) {
    const parsed = readPlaybook(report, root, options);
    if (!parsed.ok) return { ...parsed, kind, path: pathOf(root, options) };
    const { playbook } = parsed;
    return { ...parsed, kind: playbook.kind, path: playbook.path, name: playbook.name };
  }
  if (kind === 'mcp' && !isMapPlace(member(root, 'metadata'))) {
    report.error('metadata', DOCUMENT, member(root, 'metadata') ?? root, 'metadata.name is required');
  }
  const { path, name } = readIdentity(report, root, options);
  const { errors, warnings } = report;
  if (errors.length > 0) return { ok: false, kind, path: path || null, errors, warnings };
  return { ok: true, kind, path, name, document: root.node.json, playbook: null, warnings };
}

function readPlaybook(report: Report, root: MapPlace, options: ParseOptions): ParsedPlaybook {
  const playbook = readDocument(report, root, options);
  const { errors, warnings } = report;
  if (errors.length > 0) return { ok: false, errors, warnings };
  return { ok: true, playbook, document: root.node.json, warnings };
}

/** Where a refused document would have been stored, if it says so. */
function pathOf(root: MapPlace, options: ParseOptions): string | null {
  if (options.path) return options.path;
  const metadata = member(root, 'metadata');
  if (!isMapPlace(metadata)) return null;
  return textOf(member(metadata, 'path')) ?? textOf(member(metadata, 'name'));
}

type Opened =
  | { readonly ok: true; readonly report: Report; readonly root: MapPlace }
  | { readonly ok: false; readonly errors: readonly Diagnostic[] };

function open(source: string): Opened {
  const reading = readYaml(source);
  const report = new Report(new LineIndex(reading.text));
  if (!reading.ok) {
    for (const { message, at } of reading.problems) report.errorAt('yaml_syntax', DOCUMENT, '', at, message);
    return { ok: false, errors: report.errors };
  }
  const root: Place = { node: reading.root, path: '', keyAt: null };
  if (isMapPlace(root)) return { ok: true, report, root };
  report.error('yaml_syntax', DOCUMENT, root, 'the document must be a map');
  return { ok: false, errors: report.errors };
}
