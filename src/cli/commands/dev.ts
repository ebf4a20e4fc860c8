/**
 * `callboard dev` (and `npm start`): everything in one process for one machine, with the examples registered and a few
 * lines that say what to try. The log goes to stderr, so that these lines can be read.
 */
import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Config, readConfig } from '../../config.ts';
import type { Log } from '../../log.ts';
import { type Call, type Command, Unavailable } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { freePort } from '../free-port.ts';
import { readPlaybookFile } from '../playbook-file.ts';
import { processLog } from '../process-log.ts';
import { openRemote } from '../remote.ts';
import { type Stack, startStack } from '../stack.ts';
import { PortTaken } from '../start-trouble.ts';
import { aborted, stopSignal, unlessAborted } from '../stop-signal.ts';

const FURTHER_PORTS = 20;
const START_TRIES = 3;

export const command: Command = {
  usage: '[options]',
  description:
    'Starts server, worker and, unless SVC_DATABASE_URL is set, an embedded PostgreSQL in SVC_DATA_DIR, and registers the\nexamples. SIGINT or SIGTERM lets running work end; a second one ends it at once. Exit code 78 for bad settings, 4\nwhen it cannot start.',
  options: { 'no-examples': { type: 'boolean', help: 'do not register the examples' } },
  words: [0, 0],
  run: async (call) => {
    const settings = readConfig(call.env);
    const log = processLog(settings, 'dev', process.stderr);
    const stop = stopSignal(() =>
      call.terminal.err('Stopping; running work may end. Press again to end it at once.\n'),
    );
    const { signal } = stop;
    const started = await unlessAborted(signal, startSomewhere(settings, log, call, signal));
    if (started === null) {
      call.terminal.err('Stopped.\n');
      return EXIT.ok;
    }
    const { stack, config } = started;
    try {
      const examples = call.flags['no-examples'] ? [] : await registerExamples(stack, log);
      stack.declareReady();
      call.terminal.out(welcome(stack.url, config, examples));
      await aborted(signal);
    } finally {
      await stack.stop();
    }
    call.terminal.err('Stopped.\n');
    return EXIT.ok;
  },
};

/** Between finding a free port and listening on it another process may take it, for instance a second `npm start`. */
async function startSomewhere(
  settings: Config,
  log: Log,
  call: Call,
  signal: AbortSignal,
): Promise<{ readonly stack: Stack; readonly config: Config }> {
  for (let tries = 1; ; tries += 1) {
    const config = await withFreePort(settings, call);
    try {
      return { stack: await startStack(config, log, { worker: true, holdReadiness: true, signal }), config };
    } catch (error) {
      if (portAsked(call) || tries === START_TRIES || !(error instanceof PortTaken)) throw error;
    }
  }
}

function portAsked(call: Call): boolean {
  return (call.env['SVC_PORT'] ?? '') !== '';
}

/** Someone who asked for a port gets that port or an error; everyone else gets the next free one. */
async function withFreePort(config: Config, call: Call): Promise<Config> {
  if (portAsked(call) || config.port === 0) return config;
  const port = await freePort(config.host, config.port, FURTHER_PORTS);
  if (port === null) {
    throw new Unavailable(
      `ports ${config.port} to ${config.port + FURTHER_PORTS} are taken; set SVC_PORT to a free one`,
    );
  }
  if (port !== config.port) call.terminal.err(`Port ${config.port} is taken, so this one listens on ${port}.\n`);
  return { ...config, port };
}

/** Paths of what was registered. An example that is refused is told and left out: it must not keep the server from starting. */
async function registerExamples({ url, token }: Stack, log: Log): Promise<readonly string[]> {
  const folder = fileURLToPath(new URL('../../../examples/', import.meta.url));
  const remote = openRemote(url, token);
  const paths: string[] = [];
  for (const name of (await readdir(folder)).filter((each) => each.endsWith('.yaml')).sort()) {
    try {
      const { text } = await readPlaybookFile(`${folder}${name}`);
      paths.push((await remote.register(text, {})).path);
    } catch (error) {
      log.error('An example was refused', { file: name, error });
    }
  }
  await remote.close();
  return paths;
}

export function welcome(url: string, config: Config, examples: readonly string[]): string {
  const isEnforced = config.authMode === 'enforce';
  const database =
    config.databaseUrl === null ? `embedded PostgreSQL in ${config.dataDir}` : 'PostgreSQL of SVC_DATABASE_URL';
  const tries =
    examples.length === 0
      ? ''
      : `
Examples: ${examples.join(', ')}

Try, in another terminal:

  curl -s ${url}/api/execute -H 'content-type: application/json' \\${isEnforced ? '\n    -H "authorization: Bearer $SVC_TOKEN" \\' : ''}
    -d '{"path": "${examples.find((each) => each.endsWith('hello')) ?? examples[0]}", "workload": {"who": "you"}, "wait_ms": 5000}'

  npx callboard run examples/fan-out.yaml --server ${url}
`;
  const callers = isEnforced
    ? '\nEvery caller needs a token, and commands send that of SVC_TOKEN:\nnpx callboard token create NAME --role operator (SVC_INTERNAL_TOKEN lets it in).\n'
    : '';
  const gui = config.uiEnabled ? `  GUI        ${url}/ui/\n` : '';
  const docs = config.docsEnabled ? `  docs       ${url}/docs\n` : '';
  return `\nCallboard is ready.\n\n  address    ${url}\n${gui}${docs}  database   ${database}\n${callers}${tries}\nCtrl-C stops it.\n`;
}
