/** `callboard validate`: every problem of every file, without a server. */
import type { CatalogDocument } from '../../../machines/playbook/catalog-document.ts';
import { toEditorWire } from '../../../machines/playbook/diagnostics.ts';
import { type Command, JSON_OPTION, TYPE_OPTION } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { type DocumentFile, problemLine, problemsOfDocument, readDocumentFile } from '../playbook-file.ts';

export const command: Command = {
  usage: 'FILE… [options]',
  description:
    'Checks playbook files, and other documents of the catalog, and prints every error and warning with its place.\nExit code 0 without errors, 2 with.',
  options: { ...TYPE_OPTION, ...JSON_OPTION },
  words: [1, 1000],
  run: async ({ words, texts, flags, terminal }) => {
    const files: DocumentFile[] = [];
    for (const word of words) files.push(await readDocumentFile(word, { type: texts['type'] }));
    if (flags['json']) {
      const told = files.map((each) => ({
        file: each.file,
        valid: each.reading.ok,
        diagnostics: problemsOfDocument(each).map(toEditorWire),
      }));
      terminal.out(`${JSON.stringify(told, null, 2)}\n`);
    } else {
      for (const each of files) {
        for (const problem of problemsOfDocument(each)) terminal.out(problemLine(each.file, problem, terminal));
        if (each.reading.ok) terminal.err(`${each.file} is valid (${sizeOf(each.reading.document)})\n`);
      }
    }
    return files.every((each) => each.reading.ok) ? EXIT.ok : EXIT.usage;
  },
};

function sizeOf({ kind, playbook }: CatalogDocument): string {
  if (playbook === null) return kind;
  const steps = playbook.steps.length;
  return steps === 1 ? '1 step' : `${steps} steps`;
}
