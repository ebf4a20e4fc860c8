/** `callboard events`: the log of an execution, oldest first. */
import { printable } from '../../log.ts';
import { type Call, type Command, idWord, JSON_OPTION, SERVER_OPTION } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { follow } from '../follow.ts';
import { type Remote, withRemote } from '../remote.ts';
import { notStarted, type SeenEvent } from '../step-progress.ts';
import { stopSignal } from '../stop-signal.ts';

export const command: Command = {
  usage: 'ID [options]',
  description: 'Prints the events of an execution, oldest first.',
  options: {
    ...SERVER_OPTION,
    json: { type: 'boolean', help: `${JSON_OPTION.json.help} a line` },
    follow: { type: 'boolean', help: 'go on until the execution ends' },
  },
  words: [1, 1],
  run: async (call) => {
    const id = idWord(call.words[0]);
    return withRemote(call, (remote) =>
      call.flags['follow'] ? printUntilEnd(call, remote, id) : printAll(call, remote, id),
    );
  },
};

async function printAll(call: Call, remote: Remote, id: number): Promise<number> {
  for (let since = 0; ; ) {
    const events = await remote.events(id, since);
    print(call, events);
    const last = events.at(-1);
    if (last === undefined) return EXIT.ok;
    since = last.event_id;
  }
}

async function printUntilEnd(call: Call, remote: Remote, id: number): Promise<number> {
  const stop = stopSignal();
  const watcher = { seen: (_: unknown, events: readonly SeenEvent[]) => print(call, events) };
  await follow(remote, id, notStarted([]), watcher, stop.signal).finally(stop.dispose);
  return EXIT.ok;
}

function print(call: Call, events: readonly SeenEvent[]): void {
  for (const event of events) call.terminal.out(call.flags['json'] ? `${JSON.stringify(event)}\n` : `${row(event)}\n`);
}

function row(event: SeenEvent): string {
  const error = event.error === null ? '' : `  ${printable(event.error)}`;
  const left = `${String(event.event_id).padStart(5)}  ${event.created_at.slice(11, 23)}  ${event.event_type.padEnd(20)}`;
  return `${left} ${event.status.padEnd(9)}  ${printable(event.node_id)}${error}`;
}
