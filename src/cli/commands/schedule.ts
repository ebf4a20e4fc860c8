/** `callboard schedule`: what a server starts by itself. Schedules are named; a number is needed only where names are shared. */
import { type ListedSchedule, ScheduleClient, type SchedulePlan } from '../../client/schedules.ts';
import { readConfig } from '../../config.ts';
import { printable } from '../../log.ts';
import { type Call, type Command, JSON_OPTION, SERVER_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { inputsOf } from '../inputs.ts';
import { Refused, worded } from '../remote.ts';

const VERBS = ['list', 'create', 'pause', 'resume', 'trigger', 'delete'];
const RHYTHMS = ['cron', 'every', 'at'];
const OF_NEW_ONES = [...RHYTHMS, 'path', 'timezone', 'overlap', 'catch-up', 'input'];

export const command: Command = {
  usage: 'list | create NAME --path PATH --cron TEXT | pause NAME | resume NAME | trigger NAME | delete NAME [options]',
  description:
    'Starts playbooks again and again, or at one moment. create needs exactly one of --cron, --every and --at. pause keeps\na schedule without starting anything, trigger starts now what it starts, delete leaves running executions alone.\nWhere several schedules have one NAME, its number stands for it.',
  options: {
    path: { type: 'string', value: 'PATH', help: 'create: the playbook' },
    cron: { type: 'string', value: 'TEXT', help: "create: minute hour day month weekday, as in '0 3 * * *'" },
    timezone: { type: 'string', value: 'ZONE', help: 'create: of --cron, as in Europe/Berlin (default UTC)' },
    every: { type: 'string', value: 'SECONDS', help: 'create: the time from one start to the next' },
    at: { type: 'string', value: 'INSTANT', help: 'create: once, as in 2027-01-01T06:00:00Z' },
    overlap: { type: 'string', help: 'create: while the one before runs: allow (default), skip or cancel_previous' },
    'catch-up': { type: 'string', help: 'create: of what was missed meanwhile: none (default), last or all' },
    set: {
      type: 'string',
      multiple: true,
      value: 'KEY=VALUE',
      help: 'create: an input; JSON if it reads as JSON, else text',
    },
    input: { type: 'string', value: 'FILE.json', help: 'create: inputs as a JSON object; --set wins over them' },
    ...SERVER_OPTION,
    ...JSON_OPTION,
  },
  words: [1, 2],
  run: async (call) => {
    const [what = '', name] = call.words;
    const print = (answer: unknown, text: string): void =>
      call.terminal.out(call.flags['json'] ? `${JSON.stringify(answer, null, 2)}\n` : `${text}\n`);
    if (!VERBS.includes(what)) throw new UsageError(`it does not know '${what}'`);
    if ((what === 'list') !== (name === undefined))
      throw new UsageError('it needs list, or one of create, pause, resume, trigger and delete with a NAME');
    const foreign = what === 'create' ? undefined : OF_NEW_ONES.find((each) => call.texts[each] !== undefined);
    if (foreign !== undefined) throw new UsageError(`--${foreign} belongs to create`);
    const plan = what === 'create' && name !== undefined ? await planOf(call, name) : null;

    await withSchedules(call, async (client) => {
      if (plan !== null) {
        const made = await client.create(plan);
        print(made, `${printable(made.name)} starts ${printable(made.path)}, next ${made.next_run_at ?? 'never'}`);
        return;
      }
      const all = await client.list();
      if (name === undefined) {
        print(all, all.length === 0 ? 'Nothing is planned.' : all.map(row).join('\n'));
        return;
      }
      const id = idOf(all, name);
      if (what === 'pause' || what === 'resume') {
        const changed = await client.change(id, { enabled: what === 'resume' });
        print(changed, changed.enabled ? `next ${changed.next_run_at ?? 'never'}` : 'It is paused.');
      } else if (what === 'trigger') {
        const executionId = await client.trigger(id);
        print({ execution_id: executionId }, `execution ${executionId}`);
      } else print(await client.remove(id), 'It is deleted.');
    });
    return EXIT.ok;
  },
};

/** Throws UsageError. */
async function planOf(call: Call, name: string): Promise<SchedulePlan> {
  const { path, cron, every, at, timezone, overlap } = call.texts;
  const catchUp = call.texts['catch-up'];
  if (path === undefined) throw new UsageError('create needs --path');
  if (RHYTHMS.filter((each) => call.texts[each] !== undefined).length !== 1)
    throw new UsageError('create needs exactly one of --cron, --every and --at');
  if (every !== undefined && !(Number(every) > 0)) throw new UsageError('--every must be a number of seconds');
  return {
    name,
    path,
    workload: await inputsOf(call),
    ...(cron === undefined ? {} : { cron }),
    ...(every === undefined ? {} : { interval_seconds: Number(every) }),
    ...(at === undefined ? {} : { at }),
    ...(timezone === undefined ? {} : { timezone }),
    ...(overlap === undefined ? {} : { overlap }),
    ...(catchUp === undefined ? {} : { catch_up: catchUp }),
  };
}

/** Throws ConfigError for an address that is none, Unavailable when nobody answers, and Refused when the server says no. */
async function withSchedules(call: Call, work: (client: ScheduleClient) => Promise<void>): Promise<void> {
  const server = call.texts['server'];
  const { worker } = readConfig(server === undefined ? call.env : { ...call.env, SVC_SERVER_URL: server });
  const { serverUrl } = worker;
  const client = new ScheduleClient({ serverUrl, token: worker.cliToken ?? worker.token, connections: 1 });
  try {
    await work(client).catch((error: unknown) => Promise.reject(worded(error, serverUrl)));
  } finally {
    await client.close();
  }
}

/** The schedule of that name, or of that number. Throws Refused. */
function idOf(all: readonly ListedSchedule[], name: string): number {
  const ids = all.filter((each) => each.name === name).map((each) => each.schedule_id);
  const numbered = all.find((each) => String(each.schedule_id) === name);
  const [id = numbered?.schedule_id, another] = ids;
  if (another !== undefined)
    throw new Refused(
      `${ids.length} schedules are named '${printable(name)}'; name one by its number: ${ids.join(', ')}`,
      true,
    );
  if (id === undefined) throw new Refused(`there is no schedule '${printable(name)}'; list shows them`, true);
  return id;
}

function row(each: ListedSchedule): string {
  const rhythm = each.cron ?? (each.interval_seconds === null ? `once ${each.at}` : `every ${each.interval_seconds} s`);
  const next = each.enabled ? `next ${each.next_run_at ?? 'never'}` : 'paused';
  const zone = each.cron === null || each.timezone === 'UTC' ? '' : ` ${each.timezone}`;
  return `${printable(each.name).padEnd(24)} ${printable(each.path).padEnd(28)} ${printable(rhythm + zone).padEnd(24)} ${next}`;
}
