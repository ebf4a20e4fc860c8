/** `callboard gateway`: the gate for browsers in front of a server. */
import { readConfig } from '../../config.ts';
import { startGateway } from '../../gateway/start.ts';
import type { Command } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { processLog } from '../process-log.ts';
import { aborted, stopSignal } from '../stop-signal.ts';

export const command: Command = {
  usage: '[options]',
  description:
    'Serves browsers on SVC_GATEWAY_PORT and passes what they may do to the server of SVC_GATEWAY_UPSTREAM. People log in at the\nprovider of SVC_OIDC_ISSUER; SVC_GATEWAY_AUTH=dev lets one local admin in instead, on loopback only. Exit code 78 for bad\nsettings, 4 when it cannot start.',
  options: {},
  words: [0, 0],
  run: async (call) => {
    const config = readConfig(call.env);
    const log = processLog(config, 'gateway');
    const stop = stopSignal(() => log.info('Stopping; a second signal ends it at once'));
    const gateway = await startGateway(config, log);
    log.info('The gateway listens', { url: gateway.url, upstream: config.gatewayUpstream, auth: config.gatewayAuth });
    await aborted(stop.signal);
    await gateway.stop();
    log.info('The gateway has stopped');
    return EXIT.ok;
  },
};
