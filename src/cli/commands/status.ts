/** `callboard status`: one execution as the server sees it. */
import { type Command, idWord, JSON_OPTION, SERVER_OPTION } from '../command.ts';
import { outcomeCode, outcomeLines } from '../outcome.ts';
import { withRemote } from '../remote.ts';

export const command: Command = {
  usage: 'ID [options]',
  description:
    'Prints status, progress, and result or error of an execution.\nExit code 0 running or completed, 1 failed, 3 cancelled, 4 when the server cannot be asked.',
  options: { ...SERVER_OPTION, ...JSON_OPTION },
  words: [1, 1],
  run: async (call) => {
    const id = idWord(call.words[0]);
    const execution = await withRemote(call, (remote) => remote.execution(id));
    call.terminal.out(call.flags['json'] ? `${JSON.stringify(execution, null, 2)}\n` : outcomeLines(execution));
    return outcomeCode(execution.status);
  },
};
