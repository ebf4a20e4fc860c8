/**
 * Reads a text that someone registers: which kind it is, under which path it belongs, and whether it may be stored.
 * Playbooks and agents get every check of language 3; other kinds are maps that are kept and never run.
 */
import type { JsonMap } from '../json.ts';
import type { StoredKind } from './catalog-kind.ts';
import { readCatalogPath } from './catalog-path.ts';
import type { Diagnostic, Playbook } from './document.ts';
import { parseDocument } from './parse.ts';
import { DOCUMENT, Report } from './report.ts';
import { LineIndex, type YamlNode } from './yaml-node.ts';
import { readYaml } from './yaml-source.ts';

export interface CatalogDocument {
  /** The YAML text, decoded where the request carried base64. */
  readonly content: string;
  readonly kind: StoredKind;
  readonly path: string;
  readonly payload: JsonMap;
  /** Null for kinds that do not run. */
  readonly playbook: Playbook | null;
  readonly warnings: readonly Diagnostic[];
}

export type CatalogReading =
  | { readonly ok: true; readonly document: CatalogDocument }
  | {
      readonly ok: false;
      readonly errors: readonly Diagnostic[];
      readonly warnings: readonly Diagnostic[];
      /** As far as they can be told. */
      readonly path: string | null;
      readonly kind: StoredKind | null;
    };

export interface ReadingOptions {
  /** Overrides what the document says. */
  readonly path: string | null;
  /** A hint in any spelling; the document's own kind wins, except that `agent` makes an agent of a playbook. */
  readonly resourceType: string | null;
}

/** Never throws; every problem of the text is a diagnostic. */
export function readCatalogDocument(text: string, options: ReadingOptions): CatalogReading {
  const content = decodeContent(text);
  const parsed = parseDocument(content, {
    path: options.path ?? undefined,
    resourceType: options.resourceType ?? undefined,
  });
  if (!parsed.ok) return parsed;
  const { kind, document: payload, playbook, warnings } = parsed;
  const path = readCatalogPath(parsed.path);
  if (path === null) return { ok: false, errors: pathErrors(content, parsed.path), warnings, path: null, kind };
  const own = playbook === null ? null : { ...playbook, path };
  return { ok: true, document: { content, kind, path, payload, playbook: own, warnings } };
}

/** The text behind strict base64 of a YAML map; any other text is itself. */
export function decodeContent(text: string): string {
  if (text.length === 0 || text.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return text;
  try {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const decoded = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const reading = readYaml(decoded);
    return reading.ok && reading.root.kind === 'map' ? decoded : text;
  } catch {
    // Not base64 after all, or not UTF-8: the text stands for itself.
    return text;
  }
}

/** The document was read before, so it is a map; the error stands at its `metadata`. */
function pathErrors(content: string, wanted: string): readonly Diagnostic[] {
  const reading = readYaml(content);
  const report = new Report(new LineIndex(reading.text));
  const { entries } = (reading as { readonly root: Extract<YamlNode, { kind: 'map' }> }).root;
  const at = entries.find((entry) => entry.key === 'metadata')?.value.at ?? { start: 0, end: 0 };
  const shown = wanted.length > 100 ? `${wanted.slice(0, 100)}…` : wanted;
  report.errorAt('metadata', DOCUMENT, 'metadata', at, `'${shown}' is not a catalog path`);
  return report.errors;
}
