/** `callboard worker`: takes commands from a server until it is told to stop. */
import { readConfig } from '../../config.ts';
import { type Command, SERVER_OPTION } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { processLog } from '../process-log.ts';
import { aborted, stopSignal } from '../stop-signal.ts';

export const command: Command = {
  usage: '[options]',
  description:
    'Runs tools for a server until SIGINT or SIGTERM; then it takes nothing new and lets running work end. Settings:\nSVC_WORKER_NAME, SVC_WORKER_POOLS, SVC_WORKER_CONCURRENCY and others in docs/configuration.md.',
  options: SERVER_OPTION,
  words: [0, 0],
  run: async ({ env, texts }) => {
    const config = readConfig(texts['server'] === undefined ? env : { ...env, SVC_SERVER_URL: texts['server'] });
    const log = processLog(config, 'worker');
    const stop = stopSignal(() => log.info('Stopping; a second signal ends it at once'));
    const { startWorkerProcess } = await import('../worker-process.ts');
    const worker = await startWorkerProcess(config, log);
    await aborted(stop.signal);
    await worker.stop();
    log.info('The worker has stopped');
    return EXIT.ok;
  },
};
