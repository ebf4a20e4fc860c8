/** `callboard list`: executions of a server, newest first. */
import { printable } from '../../log.ts';
import { type Command, JSON_OPTION, SERVER_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { type SeenExecution, withRemote } from '../remote.ts';

export const command: Command = {
  usage: '[options]',
  description: 'Lists executions, newest first.',
  options: {
    ...SERVER_OPTION,
    ...JSON_OPTION,
    status: { type: 'string', help: 'running, completed, failed or cancelled; a comma list' },
    path: { type: 'string', help: 'of this playbook; a trailing * matches all below' },
    limit: { type: 'string', value: 'N', help: 'at most so many, 1 to 200 (default 20)' },
  },
  words: [0, 0],
  run: async (call) => {
    const { status, path, limit = '20' } = call.texts;
    if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > 200)
      throw new UsageError('--limit must be 1 to 200');
    const query = {
      limit: Number(limit),
      ...(status === undefined ? {} : { status }),
      ...(path === undefined ? {} : { path }),
    };
    const found = await withRemote(call, (remote) => remote.executions(query));
    if (call.flags['json']) call.terminal.out(`${JSON.stringify(found, null, 2)}\n`);
    else for (const each of found) call.terminal.out(`${row(each)}\n`);
    return EXIT.ok;
  },
};

function row(each: SeenExecution): string {
  const left = `${each.execution_id}  ${each.status.padEnd(9)} ${String(each.progress).padStart(3)} %`;
  return `${left}  ${each.start_time.slice(0, 19).replace('T', ' ')}  ${(each.duration_human ?? '').padStart(7)}  ${printable(each.path)}`;
}
