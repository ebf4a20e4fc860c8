/** `callboard inspect`: the charts of executions in the Stately inspector, from their first event on until they end. */
import { setTimeout as pause } from 'node:timers/promises';
import type { MachineAnswer } from '../../client/answers.ts';
import { CallboardClient } from '../../client/client.ts';
import { readConfig } from '../../config.ts';
import { type Call, type Command, idWord, SERVER_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { type InspectorSocket, openInspector } from '../inspector-socket.ts';
import { worded } from '../remote.ts';
import { StatelyActor } from '../stately.ts';
import { stopSignal } from '../stop-signal.ts';

const INSPECTOR = 'ws://127.0.0.1:8080';
const EXECUTIONS_MAX = 32;
const SHORTEST_MS = 50;
const LONGEST_MS = 1_000;

export const command: Command = {
  usage: 'ID… [options]',
  description: `Sends the charts of executions to a Stately inspector that listens for WebSockets, in its own protocol: the past from
the first event, and what comes until the executions end. Only what the inspection API shows: states, counters, numbers
of events.

Exit code: 0 all sent, 2 wrong use, 4 no server or no inspector.`,
  options: {
    to: { type: 'string', value: 'URL', help: `the inspector (default ${INSPECTOR})` },
    ...SERVER_OPTION,
  },
  words: [1, EXECUTIONS_MAX],
  run: async (call) => {
    const ids = call.words.map(idWord);
    const to = inspectorOf(call);
    const { client, ask } = clientOf(call);
    const stop = stopSignal();
    try {
      const chart = await ask(client.machine('execution'));
      const rows = await Promise.all(ids.map((id) => ask(client.execution(id))));
      const socket = await openInspector(to);
      try {
        await Promise.all(rows.map((row) => show({ call, client, ask, socket, chart, signal: stop.signal }, row)));
      } finally {
        await socket.close();
      }
      return EXIT.ok;
    } finally {
      stop.dispose();
      await client.close();
    }
  },
};

interface Showing {
  readonly call: Call;
  readonly client: CallboardClient;
  ask<T>(answer: Promise<T>): Promise<T>;
  readonly socket: InspectorSocket;
  readonly chart: MachineAnswer;
  readonly signal: AbortSignal;
}

async function show(showing: Showing, row: Awaited<ReturnType<CallboardClient['execution']>>): Promise<void> {
  const { call, client, ask, socket, signal } = showing;
  const { execution_id: id } = row;
  const actor = new StatelyActor(row, showing.chart);
  await socket.send(actor.begin());
  let wait = SHORTEST_MS;
  let sent = 0;
  for (let after = 0; !signal.aborted; ) {
    // Asked before the frames: an end that is seen here is among them.
    const { status } = await ask(client.execution(id));
    const { frames, next_after } = await ask(client.trace(id, after));
    for (const frame of frames) {
      for (const event of actor.follow(frame)) await socket.send(event);
      after = frame.n;
      sent += 1;
    }
    if (next_after !== null) {
      after = next_after;
      continue;
    }
    if (status !== 'running') break;
    wait = frames.length > 0 ? SHORTEST_MS : Math.min(LONGEST_MS, wait * 1.5);
    await pause(wait, undefined, { signal }).catch(() => {});
  }
  call.terminal.out(`${id} ${row.path}: ${sent} changes shown\n`);
}

function inspectorOf({ texts }: Call): string {
  const { to = INSPECTOR } = texts;
  const url = URL.parse(to);
  if (url === null || !['ws:', 'wss:', 'http:', 'https:'].includes(url.protocol))
    throw new UsageError(`--to must be an address like ${INSPECTOR}, not '${to}'`);
  return url.href;
}

function clientOf(call: Call): Pick<Showing, 'client' | 'ask'> {
  const server = call.texts['server'];
  const { worker } = readConfig(server === undefined ? call.env : { ...call.env, SVC_SERVER_URL: server });
  const client = new CallboardClient({ serverUrl: worker.serverUrl, token: worker.cliToken ?? worker.token });
  return { client, ask: (answer) => answer.catch((error) => Promise.reject(worded(error, worker.serverUrl))) };
}
