/**
 * A playbook as a file on disk: read, checked, and its problems told as `file:line:column`, which editors and terminals
 * turn into links.
 */
import { readFile } from 'node:fs/promises';
import type { Diagnostic, ParsedPlaybook } from '../../machines/playbook/document.ts';
import { parsePlaybook } from '../../machines/playbook/parse.ts';
import { printable } from '../log.ts';
import { UsageError } from './command.ts';
import type { Terminal } from './terminal.ts';

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

/** Throws UsageError when the file cannot be read or is not UTF-8. */
export async function textOfFile(file: string): Promise<string> {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(await readFile(file));
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(`${file} is not UTF-8 text`);
    const code = error instanceof Error && 'code' in error ? error.code : null;
    throw new UsageError(code === 'ENOENT' ? `there is no file ${file}` : `${file} cannot be read (${String(code)})`);
  }
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
