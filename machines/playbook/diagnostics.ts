/** How diagnostics look to callers: the `errors` of a refusal, and the list an editor marks lines with. */
import type { JsonMap } from '../json.ts';
import type { Diagnostic } from './document.ts';

/** `{code, message, step, task, path, line, column}` of language 3.1. */
export function toWire({ code, message, step, task, path, line, column }: Diagnostic): JsonMap {
  return { code, message, step, task, path, line, column };
}

/** An entry of `diagnostics` in api 2.2.15: with severity and end. */
export function toEditorWire(diagnostic: Diagnostic): JsonMap {
  const { severity, endLine, endColumn } = diagnostic;
  return { severity, ...toWire(diagnostic), end_line: endLine, end_column: endColumn };
}
