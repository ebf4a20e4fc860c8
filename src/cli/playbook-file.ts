/**
 * A playbook as a file on disk: read, checked, and its problems told as `file:line:column`, which editors and terminals
 * turn into links.
 */
import { type CatalogReading, readCatalogDocument } from '../../machines/playbook/catalog-document.ts';
import type { Diagnostic, ParsedPlaybook } from '../../machines/playbook/document.ts';
import { parsePlaybook } from '../../machines/playbook/parse.ts';
import { printable } from '../log.ts';
import type { Terminal } from './terminal.ts';
import { textOfFile } from './text-file.ts';

export interface PlaybookFile {
  readonly file: string;
  readonly text: string;
  readonly parsed: ParsedPlaybook;
}

/** A file as the catalog would take it: any kind of document. */
export interface DocumentFile {
  readonly file: string;
  readonly text: string;
  readonly reading: CatalogReading;
}

/** `path` overrides the one in the file. Throws UsageError when the file cannot be read. */
export async function readPlaybookFile(file: string, path?: string): Promise<PlaybookFile> {
  const text = await textOfFile(file);
  return { file, text, parsed: parsePlaybook(text, path === undefined ? {} : { path }) };
}

/** By the options of a registration. Throws UsageError when the file cannot be read. */
export async function readDocumentFile(
  file: string,
  { path, type }: { readonly path?: string | undefined; readonly type?: string | undefined },
): Promise<DocumentFile> {
  const text = await textOfFile(file);
  return { file, text, reading: readCatalogDocument(text, { path: path ?? null, resourceType: type ?? null }) };
}

export function problemsOf({ parsed }: PlaybookFile): readonly Diagnostic[] {
  return parsed.ok ? parsed.warnings : [...parsed.errors, ...parsed.warnings];
}

export function problemsOfDocument({ reading }: DocumentFile): readonly Diagnostic[] {
  return reading.ok ? reading.document.warnings : [...reading.errors, ...reading.warnings];
}

/** `greet.yaml:12:5  error  Step 'a': Missing 'tool' field (a tool is required)  tool_missing` */
export function problemLine(file: string, problem: Diagnostic, terminal: Terminal): string {
  const place = `${file}:${problem.line}:${problem.column}`;
  const word = terminal.style(problem.severity === 'error' ? 'red' : 'yellow', problem.severity);
  const message = printable(problem.message.replace(/ \(line \d+\)$/, ''));
  return `${place}  ${word}  ${message}  ${terminal.style('dim', problem.code)}\n`;
}
