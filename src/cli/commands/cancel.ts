/** `callboard cancel`: cancels an execution and what it started. */
import { type Command, idWord, JSON_OPTION, SERVER_OPTION } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { withRemote } from '../remote.ts';

export const command: Command = {
  usage: 'ID [options]',
  description: 'Cancels an execution and its running children. An execution that has ended is left alone.',
  options: { ...SERVER_OPTION, ...JSON_OPTION, reason: { type: 'string', help: 'recorded with the cancellation' } },
  words: [1, 1],
  run: async (call) => {
    const id = idWord(call.words[0]);
    const reason = call.texts['reason'] ?? 'User requested cancellation';
    const answer = await withRemote(call, (remote) => remote.cancel(id, reason));
    call.terminal.out(`${call.flags['json'] ? JSON.stringify(answer, null, 2) : answer.message}\n`);
    return EXIT.ok;
  },
};
