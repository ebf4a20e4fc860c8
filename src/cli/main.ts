/** Entry of the command line: picks the command, reads its words, and turns errors into one sentence and an exit code. */
import { ConfigError } from '../config.ts';
import { type Command, helpOf, readCall, Unavailable, UsageError } from './command.ts';
import { EXIT } from './exit-code.ts';
import { packageVersion } from './package-version.ts';
import { Refused } from './remote.ts';
import { processTerminal, type Terminal } from './terminal.ts';

const COMMANDS: Readonly<
  Record<string, { readonly summary: string; readonly load: () => Promise<{ readonly command: Command }> }>
> = {
  dev: {
    summary: 'server, worker and database in one process, with the examples',
    load: () => import('./commands/dev.ts'),
  },
  run: { summary: 'run a playbook file and show it, with no server needed', load: () => import('./commands/run.ts') },
  validate: { summary: 'check playbook files', load: () => import('./commands/validate.ts') },
  simulate: {
    summary: 'run a playbook dry: scripted tools, virtual time',
    load: () => import('./commands/simulate.ts'),
  },
  test: { summary: 'run test files of playbooks', load: () => import('./commands/test.ts') },
  explore: {
    summary: 'look for steps, guards, joins and loops that cannot work',
    load: () => import('./commands/explore.ts'),
  },
  inspect: {
    summary: 'show runs in the Stately inspector, for those who have it',
    load: () => import('./commands/inspect.ts'),
  },
  replay: {
    summary: 'decide a recorded log again with this version, and compare',
    load: () => import('./commands/replay.ts'),
  },
  server: { summary: 'the server', load: () => import('./commands/server.ts') },
  worker: { summary: 'a worker for a server', load: () => import('./commands/worker.ts') },
  gateway: { summary: 'the gate for browsers in front of a server', load: () => import('./commands/gateway.ts') },
  register: { summary: 'store playbook files in a server', load: () => import('./commands/register.ts') },
  list: { summary: 'executions, newest first', load: () => import('./commands/list.ts') },
  status: { summary: 'one execution', load: () => import('./commands/status.ts') },
  events: { summary: 'the event log of an execution', load: () => import('./commands/events.ts') },
  cancel: { summary: 'cancel an execution', load: () => import('./commands/cancel.ts') },
  cleanup: { summary: 'cancel executions that run for too long', load: () => import('./commands/cleanup.ts') },
  doctor: { summary: 'look for what is stuck, and nudge it', load: () => import('./commands/doctor.ts') },
  schedule: {
    summary: 'what starts by itself: list, create, pause, resume, trigger, delete',
    load: () => import('./commands/schedule.ts'),
  },
  token: { summary: 'service tokens: create, list, revoke', load: () => import('./commands/token.ts') },
  keys: { summary: 'encryption keys: list, rotate, retire', load: () => import('./commands/keys.ts') },
};

/** What cannot be closed, like a connection to a database that hangs, keeps the process for so long after its end. */
const LINGER_MS = 3_000;

process.exitCode = await main(process.argv.slice(2), processTerminal());
setTimeout(leave, LINGER_MS).unref();

/** Not before everything has been said: on some systems pipes are written to later. */
function leave(): void {
  if (process.stdout.writableLength + process.stderr.writableLength === 0) process.exit();
  setTimeout(leave, LINGER_MS).unref();
}

async function main(argv: readonly string[], terminal: Terminal): Promise<number> {
  const [name, ...rest] = argv;
  if (name === 'help' && rest[0] !== undefined) return main([rest[0], '--help'], terminal);
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    terminal.out(overview());
    return name === undefined ? EXIT.usage : EXIT.ok;
  }
  if (name === '--version' || name === 'version') {
    terminal.out(`callboard ${packageVersion()} (node ${process.versions.node})\n`);
    return EXIT.ok;
  }
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (entry === undefined) {
    terminal.err(`callboard: there is no command '${name}'\n\n${overview()}`);
    return EXIT.usage;
  }
  const { command } = await entry.load();
  if (rest.includes('--help') || rest.includes('-h')) {
    terminal.out(helpOf(name, command));
    return EXIT.ok;
  }
  try {
    return await command.run(readCall(command, rest, { env: process.env, terminal }));
  } catch (error) {
    return tell(error, name, command, terminal);
  }
}

function tell(error: unknown, name: string, command: Command, terminal: Terminal): number {
  if (error instanceof UsageError) {
    terminal.err(`callboard ${name}: ${error.message}\nusage: callboard ${name} ${command.usage}\n`);
    return EXIT.usage;
  }
  if (error instanceof ConfigError) {
    terminal.err(`${error.message}\n`);
    return EXIT.config;
  }
  if (error instanceof Unavailable) {
    terminal.err(`callboard ${name}: ${error.message}\n`);
    return error.exitCode;
  }
  if (error instanceof Refused) {
    terminal.err(`callboard ${name}: ${error.message}\n`);
    return error.invalid ? EXIT.usage : EXIT.infrastructure;
  }
  terminal.err(`callboard ${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return EXIT.infrastructure;
}

function overview(): string {
  const rows = Object.entries(COMMANDS).map(([name, entry]) => `  ${name.padEnd(10)} ${entry.summary}`);
  return `usage: callboard COMMAND [options]\n\n${rows.join('\n')}\n\ncallboard COMMAND --help tells more. Settings: docs/configuration.md\n`;
}
