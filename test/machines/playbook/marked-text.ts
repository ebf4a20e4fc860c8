/** Test texts carry a `«` where a diagnostic is expected; this takes it out and says its line and column. */
export function marked(text: string): { readonly text: string; readonly line: number; readonly column: number } {
  const at = text.indexOf('«');
  if (at < 0) throw new Error('the text has no mark');
  const before = text.slice(0, at).split('\n');
  return {
    text: before.join('\n') + text.slice(at + 1),
    line: before.length,
    column: (before.at(-1) ?? '').length + 1,
  };
}

/** A document around these lines of `workflow` (indented by two) and, before it, further root lines. */
export function workflow(steps: string, root = ''): string {
  return `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: demo, path: demo/x }\n${root}workflow:\n${steps}`;
}
