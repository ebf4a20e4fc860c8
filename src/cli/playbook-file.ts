/**
 * A playbook as a file on disk: read, checked, and its problems told as `file:line:column`, which editors and terminals
 * turn into links.
 */
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

/** Throws UsageError when the file cannot be read. */
export async function readPlaybookFile(file: string): Promise<PlaybookFile> {
  const text = await textOfFile(file);
  return { file, text, parsed: parsePlaybook(text) };
}

export function problemsOf({ parsed }: PlaybookFile): readonly Diagnostic[] {
  return parsed.ok ? parsed.warnings : [...parsed.errors, ...parsed.warnings];
}

/** `greet.yaml:12:5  error  Step 'a': Missing 'tool' field (a tool is required)  tool_missing` */
export function problemLine(file: string, problem: Diagnostic, terminal: Terminal): string {
  const place = `${file}:${problem.line}:${problem.column}`;
  const word = terminal.style(problem.severity === 'error' ? 'red' : 'yellow', problem.severity);
  const message = printable(problem.message.replace(/ \(line \d+\)$/, ''));
  return `${place}  ${word}  ${message}  ${terminal.style('dim', problem.code)}\n`;
}
