/** `callboard register`: stores playbook files in a server's catalog. */
import { type Command, JSON_OPTION, SERVER_OPTION, TYPE_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { type DocumentFile, problemLine, problemsOfDocument, readDocumentFile } from '../playbook-file.ts';
import { type Registered, withRemote } from '../remote.ts';

export const command: Command = {
  usage: 'FILE… [options]',
  description:
    'Checks the files, playbooks or other documents of the catalog, then stores each as a new version under its path; a file\nwhose text is already the newest version is left alone. Nothing is stored when one of them has errors.\nExit code 0, 2 with errors, 4 without a server.',
  options: {
    ...SERVER_OPTION,
    path: { type: 'string', help: 'catalog path instead of the one in the file (one file only)' },
    ...TYPE_OPTION,
    ...JSON_OPTION,
  },
  words: [1, 1000],
  run: async (call) => {
    const { path, type } = call.texts;
    if (path !== undefined && call.words.length > 1) throw new UsageError('--path fits one file only');
    const files: DocumentFile[] = [];
    for (const word of call.words) files.push(await readDocumentFile(word, { path, type }));
    for (const each of files) {
      for (const problem of problemsOfDocument(each)) call.terminal.err(problemLine(each.file, problem, call.terminal));
    }
    if (files.some((each) => !each.reading.ok)) return EXIT.usage;
    const told: (Registered & { readonly file: string })[] = [];
    await withRemote(call, async (remote) => {
      for (const { file, text } of files) {
        const stored = await remote.register(text, { ...(path && { path }), ...(type && { resourceType: type }) });
        told.push({ file, ...stored });
        if (call.flags['json']) continue;
        call.terminal.out(`${stored.path} version ${stored.version}${stored.unchanged ? ' (unchanged)' : ''}\n`);
      }
    });
    if (call.flags['json']) call.terminal.out(`${JSON.stringify(told, null, 2)}\n`);
    return EXIT.ok;
  },
};
