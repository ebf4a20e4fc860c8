/** `callboard register`: stores playbook files in a server's catalog. */
import { type Command, SERVER_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { type PlaybookFile, problemLine, problemsOf, readPlaybookFile } from '../playbook-file.ts';
import { withRemote } from '../remote.ts';

export const command: Command = {
  usage: 'FILE… [options]',
  description:
    'Checks the files, then stores each as a new version under its path; a file whose text is already the newest\nversion is left alone. Nothing is stored when one of them has errors. Exit code 0, 2 with errors, 4 without a server.',
  options: {
    ...SERVER_OPTION,
    path: { type: 'string', help: 'catalog path instead of the one in the file (one file only)' },
  },
  words: [1, 1000],
  run: async (call) => {
    const path = call.texts['path'];
    if (path !== undefined && call.words.length > 1) throw new UsageError('--path fits one file only');
    const files: PlaybookFile[] = [];
    for (const word of call.words) files.push(await readPlaybookFile(word));
    for (const each of files) {
      for (const problem of problemsOf(each)) call.terminal.err(problemLine(each.file, problem, call.terminal));
    }
    if (files.some((each) => !each.parsed.ok)) return EXIT.usage;
    await withRemote(call, async (remote) => {
      for (const each of files) {
        const stored = await remote.register(each.text, path === undefined ? {} : { path });
        call.terminal.out(`${stored.path} version ${stored.version}${stored.unchanged ? ' (unchanged)' : ''}\n`);
      }
    });
    return EXIT.ok;
  },
};
