/** `callboard doctor`: the recovery helper, once or as a process that answers over HTTP. */
import { readConfig } from '../../config.ts';
import type { Severity } from '../../doctor/doctor.ts';
import { type Command, JSON_OPTION, UsageError } from '../command.ts';
import { processLog } from '../process-log.ts';
import { aborted, stopSignal } from '../stop-signal.ts';

/** What a script can rely on (api 4.11). */
const CODES: Readonly<Record<Severity, number>> = { ok: 0, repaired: 0, anomaly: 2, error: 3 };

const ACTIONS: Readonly<Record<string, string>> = {
  detect: 'detect',
  reachability: 'reachability',
  repair: 'repair_trigger_reaper',
};

export const command: Command = {
  usage: 'detect | reachability | repair | serve [options]',
  description:
    'detect finds stuck executions, forgotten commands and violated laws. reachability tells whether server, database, bus and\nworkers are there. repair asks the server to announce forgotten commands. serve answers the same over HTTP on\nSVC_DOCTOR_PORT. Looks into SVC_DOCTOR_DATABASE_URL, else asks the server of SVC_DOCTOR_URL.\nExit code 0: fine or repaired; 2: something is wrong; 3: the helper could not run.',
  options: {
    server: { type: 'string', value: 'URL', help: 'the server (default SVC_DOCTOR_URL)' },
    ...JSON_OPTION,
  },
  words: [1, 1],
  run: async (call) => {
    const [what = ''] = call.words;
    const server = call.texts['server'];
    const settings = readConfig(server === undefined ? call.env : { ...call.env, SVC_DOCTOR_URL: server });
    const { cliToken, token } = settings.worker;
    // Like every command: the token of operators first, then that of the shell.
    const config = { ...settings, internalToken: settings.internalToken ?? cliToken ?? token };
    const { startDoctor } = await import('../../doctor/start.ts');
    if (what === 'serve') {
      const log = processLog(config, 'doctor');
      const stop = stopSignal(() => log.info('Stopping; a second signal ends it at once'));
      const { serveDoctor } = await import('../../doctor/serve.ts');
      const served = await serveDoctor(await startDoctor(config), { host: config.host, port: config.doctorPort });
      log.info('The recovery helper listens', { url: served.url });
      await aborted(stop.signal);
      await served.stop();
      return 0;
    }
    const name = Object.hasOwn(ACTIONS, what) ? ACTIONS[what] : undefined;
    if (name === undefined) throw new UsageError(`it does not know '${what}'`);
    const doctor = await startDoctor(config);
    try {
      const tool = doctor.tools.find((each) => each.name === name);
      if (tool === undefined) throw new Error('the helper lacks one of its tools');
      const outcome = await tool.run(doctor.thresholds);
      call.terminal.out(`${JSON.stringify(outcome, null, call.flags['json'] ? 0 : 2)}\n`);
      return CODES[outcome.severity];
    } finally {
      await doctor.close();
    }
  },
};
