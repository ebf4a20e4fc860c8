/**
 * `callboard run`: one playbook from file to result. Without a server it brings its own for the time of the run: same
 * server, same worker, same database as `dev`, on a port of its own. The picture goes to stderr, the result to stdout.
 */
import type { Playbook } from '../../../machines/playbook/document.ts';
import { readConfig } from '../../config.ts';
import { type Call, type Command, JSON_OPTION, SERVER_OPTION, secondsOption } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { follow } from '../follow.ts';
import { inputsOf } from '../inputs.ts';
import { durationText, runView } from '../live-view.ts';
import { outcomeCode } from '../outcome.ts';
import { problemLine, problemsOf, readPlaybookFile } from '../playbook-file.ts';
import { processLog } from '../process-log.ts';
import { openRemote, type Remote, remoteOf, type SeenExecution } from '../remote.ts';
import { type Stack, startStack } from '../stack.ts';
import { notStarted, type RunProgress } from '../step-progress.ts';
import { stopSignal } from '../stop-signal.ts';

/** How long the end of a cancelled run is waited for. */
const CANCEL_SECONDS = 15;

export const command: Command = {
  usage: 'FILE [options]',
  description: `Registers the playbook, runs it, shows its steps while they run, and prints the result.
Without --server and SVC_SERVER_URL it starts a server, a worker and a database of its own for the time of the run
(data in SVC_DATA_DIR). Ctrl-C cancels the run.

Exit code: 0 completed, 1 failed, 2 wrong use or invalid playbook, 3 cancelled, 4 time limit or no server.`,
  options: {
    set: { type: 'string', multiple: true, value: 'KEY=VALUE', help: 'an input; JSON if it reads as JSON, else text' },
    input: { type: 'string', value: 'FILE.json', help: 'inputs as a JSON object; --set wins over them' },
    timeout: { type: 'string', value: 'SECONDS', help: 'cancel the run after this time' },
    path: { type: 'string', help: 'catalog path instead of the one in the file' },
    ...JSON_OPTION,
    ...SERVER_OPTION,
  },
  words: [1, 1],
  run: async (call) => {
    const limit = secondsOption(call, 'timeout');
    const file = await readPlaybookFile(call.words[0] ?? '', call.texts['path']);
    for (const problem of problemsOf(file)) call.terminal.err(problemLine(file.file, problem, call.terminal));
    if (!file.parsed.ok) return EXIT.usage;
    const workload = await inputsOf(call);
    const given = call.texts['server'] !== undefined || (call.env['SVC_SERVER_URL'] ?? '') !== '';
    const stop = stopSignal(() => call.terminal.err('Cancelling the run. Press again to leave it.\n'));
    let stack: Stack | null = null;
    let remote: Remote | null = null;
    try {
      stack = given ? null : await ownStack(call);
      remote = stack === null ? remoteOf(call) : openRemote(stack.url, stack.token);
      const path = call.texts['path'];
      const stored = await remote.register(file.text, path === undefined ? {} : { path });
      const id = await remote.start(stored, workload);
      return await watch(call, remote, id, file.parsed.playbook, limit, stop.signal);
    } finally {
      stop.dispose();
      await remote?.close();
      await stack?.stop();
    }
  },
};

function ownStack(call: Call): Promise<Stack> {
  const config = readConfig(call.env);
  const level = (call.env['SVC_LOG_LEVEL'] ?? '') === '' ? 'warn' : config.logLevel;
  const log = processLog({ ...config, logLevel: level }, 'run', process.stderr);
  return startStack({ ...config, host: '127.0.0.1', port: 0, publicUrl: null }, log, { worker: true });
}

async function watch(
  call: Call,
  remote: Remote,
  id: number,
  playbook: Playbook,
  limit: number | null,
  stopped: AbortSignal,
): Promise<number> {
  const late = limit === null ? null : AbortSignal.timeout(limit * 1000);
  const view = runView(call.terminal);
  const steps = playbook.steps.map((step) => ({
    name: step.name,
    kind: step.loop === null ? kindsOf(step) : `${kindsOf(step)} loop`,
  }));
  const watcher = { seen: (run: RunProgress) => view.show(run) };
  let run = await follow(
    remote,
    id,
    notStarted(steps),
    watcher,
    late === null ? stopped : AbortSignal.any([stopped, late]),
  );
  if (run.ended === null) {
    await remote.cancel(id, late?.aborted === true ? `Time limit of ${limit} s` : 'Cancelled at the command line');
    run = await follow(remote, id, run, watcher, AbortSignal.timeout(CANCEL_SECONDS * 1000));
  }
  view.close();
  const execution = await remote.execution(id);
  report(call, execution);
  if (late?.aborted === true && execution.status === 'cancelled') return EXIT.infrastructure;
  return run.ended === null ? EXIT.infrastructure : outcomeCode(execution.status);
}

function kindsOf(step: Playbook['steps'][number]): string {
  return [...new Set(step.tasks.map((task) => task.kind))].join('+');
}

function report(call: Call, execution: SeenExecution): void {
  const { terminal } = call;
  const took = execution.duration_seconds === null ? '' : ` in ${durationText(execution.duration_seconds * 1000)}`;
  const colour = execution.status === 'completed' ? 'green' : execution.status === 'failed' ? 'red' : 'yellow';
  terminal.err(
    `${terminal.style(colour, execution.status)}${took}${execution.error === null ? '' : `: ${execution.error}`}\n`,
  );
  if (call.flags['json']) terminal.out(`${JSON.stringify(execution, null, 2)}\n`);
  else if (execution.status === 'completed') terminal.out(`${JSON.stringify(execution.result, null, 2)}\n`);
}
