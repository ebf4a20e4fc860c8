/** `callboard server`: the server alone; workers are processes of their own. */
import { readConfig } from '../../config.ts';
import type { Command } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { processLog } from '../process-log.ts';
import { startStack } from '../stack.ts';
import { aborted, stopSignal, unlessAborted } from '../stop-signal.ts';

export const command: Command = {
  usage: '[options]',
  description:
    'Serves the API until SIGINT or SIGTERM. Uses the PostgreSQL of SVC_DATABASE_URL, or else an embedded one in\nSVC_DATA_DIR. Settings: docs/configuration.md. Exit code 78 for bad settings, 4 when it cannot start.',
  options: {},
  words: [0, 0],
  run: async ({ env }) => {
    const config = readConfig(env);
    const log = processLog(config, 'server');
    const stop = stopSignal(() => log.info('Stopping; a second signal ends it at once'));
    const { signal } = stop;
    const stack = await unlessAborted(signal, startStack(config, log, { worker: false, signal }));
    await aborted(signal);
    await stack?.stop();
    log.info('The server has stopped');
    return EXIT.ok;
  },
};
