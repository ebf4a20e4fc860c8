/** `callboard validate`: every problem of every file, without a server. */
import { type Command, JSON_OPTION } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { type PlaybookFile, problemLine, problemsOf, readPlaybookFile } from '../playbook-file.ts';

export const command: Command = {
  usage: 'FILE… [options]',
  description:
    'Checks playbook files and prints every error and warning with its place.\nExit code 0 without errors, 2 with.',
  options: JSON_OPTION,
  words: [1, 1000],
  run: async ({ words, flags, terminal }) => {
    const files: PlaybookFile[] = [];
    for (const word of words) files.push(await readPlaybookFile(word));
    if (flags['json']) {
      const told = files.map((each) => ({ file: each.file, valid: each.parsed.ok, diagnostics: problemsOf(each) }));
      terminal.out(`${JSON.stringify(told, null, 2)}\n`);
    } else {
      for (const each of files) {
        for (const problem of problemsOf(each)) terminal.out(problemLine(each.file, problem, terminal));
        if (each.parsed.ok) terminal.err(`${each.file} is valid (${each.parsed.playbook.steps.length} steps)\n`);
      }
    }
    return files.every((each) => each.parsed.ok) ? EXIT.ok : EXIT.usage;
  },
};
