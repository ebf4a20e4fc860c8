/** `callboard schedule` against a real server: what is planned, paused, started at once and deleted, and what is refused. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readCall, UsageError } from '../../src/cli/command.ts';
import { command } from '../../src/cli/commands/schedule.ts';
import { Refused } from '../../src/cli/remote.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { type ServerProcess, Stage } from '../support/processes.ts';
import { recordingTerminal } from './recording-terminal.ts';

const stage = new Stage();
let server: ServerProcess;

const PLAYBOOK = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: tick, path: demo/tick }
workflow:
  - step: start
    tool: { kind: noop }
`;

beforeAll(async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  server = await stage.server({ SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder() });
  await stage.client(server.url).register(PLAYBOOK, {});
});

afterAll(() => stage.close());

async function schedule(...argv: readonly string[]): Promise<string> {
  const terminal = recordingTerminal();
  await command.run(readCall(command, [...argv, '--server', server.url], { env: {}, terminal }));
  return terminal.output();
}

test('a schedule is created with its inputs, paused, resumed, started at once and deleted', async () => {
  expect(await schedule('list')).toBe('Nothing is planned.\n');
  const made = await schedule('create', 'tick', '--path', 'demo/tick', '--every', '3600', '--set', 'n=3');
  expect(made).toMatch(/^tick starts demo\/tick, next \d{4}-/);
  expect(JSON.parse(await schedule('list', '--json'))).toMatchObject([
    { name: 'tick', interval_seconds: 3_600, workload: { n: 3 }, enabled: true },
  ]);
  expect(await schedule('pause', 'tick')).toBe('It is paused.\n');
  expect(await schedule('list')).toMatch(/^tick +demo\/tick +every 3600 s +paused\n$/);
  expect(await schedule('resume', 'tick')).toMatch(/^next \d{4}-/);
  const { execution_id: id } = JSON.parse(await schedule('trigger', 'tick', '--json'));
  expect(await stage.client(server.url).execution(id)).toMatchObject({ path: 'demo/tick' });
  expect(await schedule('delete', 'tick')).toBe('It is deleted.\n');
  expect(await schedule('list')).toBe('Nothing is planned.\n');
});

test('a name that several have is not guessed at', async () => {
  for (const every of ['60', '90']) await schedule('create', 'twin', '--path', 'demo/tick', '--every', every);
  const ids = (JSON.parse(await schedule('list', '--json')) as { schedule_id: number }[]).map(
    (each) => each.schedule_id,
  );
  await expect(schedule('delete', 'twin')).rejects.toThrow(
    new Refused(`2 schedules are named 'twin'; name one by its number: ${ids.join(', ')}`, true),
  );
  expect(await schedule('delete', String(ids[0]))).toBe('It is deleted.\n');
  expect(JSON.parse(await schedule('delete', 'twin', '--json'))).toMatchObject({ schedule_id: ids[1] });
});

test.each([
  ['list', 'tick'],
  ['pause'],
  ['dance', 'tick'],
  ['create', 'tick', '--cron', '* * * * *'],
  ['create', 'tick', '--path', 'demo/tick'],
  ['create', 'tick', '--path', 'demo/tick', '--every', '5', '--cron', '* * * * *'],
  ['create', 'tick', '--path', 'demo/tick', '--every', 'often'],
  ['pause', 'tick', '--cron', '* * * * *'],
])('wrong use: %s %s %s %s %s %s', async (...argv) => {
  await expect(schedule(...argv)).rejects.toBeInstanceOf(UsageError);
});

test('an unknown name and a refusal of the server are told', async () => {
  await expect(schedule('pause', 'nobody')).rejects.toThrow("there is no schedule 'nobody'");
  const refused = schedule('create', 'tick', '--path', 'demo/tick', '--cron', '61 * * * *');
  await expect(refused).rejects.toBeInstanceOf(Refused);
  await expect(refused).rejects.toThrow('minute');
});
