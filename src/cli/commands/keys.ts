/** `callboard keys`: which keys stored secrets are sealed with, moving them to the active one, and retiring old ones. */
import { setTimeout as pause } from 'node:timers/promises';
import { type Command, JSON_OPTION, SERVER_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { withAdmin } from '../remote-admin.ts';

const AGAIN_MS = 500;

export const command: Command = {
  usage: 'list | rotate | retire KID [options]',
  description:
    'list shows key ids and how many values are sealed with each. rotate seals everything with the active key, the first of\nSVC_ENCRYPTION_KEYS; it may be stopped and started again at any time. retire forgets a key nothing is sealed with.',
  options: { ...SERVER_OPTION, ...JSON_OPTION },
  words: [1, 2],
  run: async (call) => {
    const [what, kid] = call.words;
    const print = (answer: object, lines: readonly string[]): void =>
      call.terminal.out(call.flags['json'] ? `${JSON.stringify(answer, null, 2)}\n` : `${lines.join('\n')}\n`);
    if ((what === 'retire') !== (kid !== undefined)) throw new UsageError('it needs list, rotate, or retire KID');
    await withAdmin(call, async (admin) => {
      if (what === 'list') {
        const { active, keys } = await admin.keys();
        const rows = keys.map((key) => `${key.kid.padEnd(32)} ${key.rows}${key.kid === active ? '  active' : ''}`);
        print({ active, keys }, rows);
      } else if (what === 'rotate') {
        let answer = await admin.rotateKeys();
        while (answer.status === 'running') {
          await pause(AGAIN_MS);
          answer = await admin.rotateKeys();
        }
        print(answer, [`Everything is sealed with ${answer.active}.`]);
      } else if (what === 'retire' && kid !== undefined) {
        await admin.retireKey(kid);
        print({ status: 'retired', kid }, [`The key ${kid} is retired; it may be taken out of SVC_ENCRYPTION_KEYS.`]);
      } else throw new UsageError(`it does not know '${what}'`);
    });
    return EXIT.ok;
  },
};
