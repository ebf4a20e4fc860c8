/** `callboard cleanup`: cancels executions that have run for too long, or tells which these are. */
import { type Command, JSON_OPTION, SERVER_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { withAdmin } from '../remote-admin.ts';

export const command: Command = {
  usage: '[options]',
  description:
    'Cancels running executions that started longer ago than the given minutes. Age counts from the start, not from the\nlast sign of life: look with --dry-run first, which changes nothing.',
  options: {
    ...SERVER_OPTION,
    ...JSON_OPTION,
    'older-than-minutes': { type: 'string', value: 'N', help: 'at least 1 (default 5)' },
    'dry-run': { type: 'boolean', help: 'only tell what would be cancelled' },
  },
  words: [0, 0],
  run: async (call) => {
    const minutes = call.texts['older-than-minutes'];
    if (minutes !== undefined && (!/^[0-9]{1,8}$/.test(minutes) || Number(minutes) < 1)) {
      throw new UsageError('--older-than-minutes must be a whole number of at least 1');
    }
    const answer = await withAdmin(call, (admin) =>
      admin.cleanup({
        dry_run: call.flags['dry-run'] ?? false,
        ...(minutes === undefined ? {} : { older_than_minutes: Number(minutes) }),
      }),
    );
    if (call.flags['json']) call.terminal.out(`${JSON.stringify(answer, null, 2)}\n`);
    else call.terminal.out(`${[answer.message, ...answer.execution_ids.map((id) => `  ${id}`)].join('\n')}\n`);
    return EXIT.ok;
  },
};
