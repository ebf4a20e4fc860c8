/** Area D of the catalogue of checks: the recovery helper against servers that are absent, old or slow, and what a dead worker left. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { readCall } from '../../src/cli/command.ts';
import { command as doctor } from '../../src/cli/commands/doctor.ts';
import { BatchWorld, done } from '../actors/batch-world.ts';
import { recordingTerminal } from '../cli/recording-terminal.ts';
import { checkStore } from '../support/invariants.ts';
import { step } from '../support/playbooks.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

async function fakeServer(
  answer: (path: string) => { status: number; body: string; afterMs?: number },
): Promise<string> {
  const server = createServer((request, response) => {
    const { status, body, afterMs = 0 } = answer(request.url ?? '');
    setTimeout(() => response.writeHead(status, { 'content-type': 'application/json' }).end(body), afterMs);
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A TCP server that listens has an address with a port.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function repair(url: string): Promise<{ code: number; outcome: ReturnType<typeof JSON.parse> }> {
  const terminal = recordingTerminal();
  const code = await doctor.run(readCall(doctor, ['repair', '--json', '--server', url], { env: {}, terminal }));
  return { code, outcome: JSON.parse(terminal.output()) };
}

describe('RP-11 the recovery helper', () => {
  test('RP-11 takes 404 for an older server that has nothing to nudge: no-op, exit code 0', async () => {
    const url = await fakeServer(() => ({ status: 404, body: '{"detail":"Not Found"}' }));
    const { code, outcome } = await repair(url);
    expect([code, outcome]).toMatchObject([0, { severity: 'repaired', data: { status: 'noop', status_code: 404 } }]);
  });

  test.each([
    [200, 0],
    [202, 0],
    [401, 3],
    [500, 3],
    [503, 3],
  ])('RP-11 answers %i with exit code %i', async (status, expected) => {
    const { code, outcome } = await repair(await fakeServer(() => ({ status, body: '{"status":"ok"}', afterMs: 100 })));
    expect([code, outcome.data.status_code]).toEqual([expected, status]);
  });

  test('RP-11 cannot run where nobody listens, or where what answers is no JSON: exit codes 3 and 0', async () => {
    expect((await repair('http://127.0.0.1:1')).code).toBe(3);
    expect((await repair(await fakeServer(() => ({ status: 200, body: '<html>' })))).code).toBe(0);
  });
});

test('RP-09 a command that a dead worker finished in a batch nobody handled yet is not run again', async () => {
  const world = new BatchWorld({ one: [step('a')] });
  const { executionId } = await world.start('one');
  const [command] = await world.claim('alice');
  if (command === undefined) throw new Error('nothing was granted');
  // Accepted and not handled: no processor runs. Then the worker and the server die.
  await world.batches.accept(world.request(executionId, done(command, { n: 1 }), 'k'));
  world.restart();
  world.workers.delete('alice');
  world.clock.advance(600_000);
  const hints = await world.store.overdue(10);
  expect(hints.map((hint) => hint.commandId)).toEqual([command.row.commandId]);
  world.server.recovery.announce(hints);
  expect(await world.claim('bob', { waitMs: 50 })).toEqual([]);
  expect(world.row(executionId)).toMatchObject({ status: 'completed', result: { n: 1 } });
  expect(world.command(executionId, 'a@1')).toMatchObject({ status: 'COMPLETED', attempt: 1, workerId: 'alice' });
  expect(world.store.log(executionId).filter((event) => event.type === 'command.claimed')).toHaveLength(1);
  checkStore(world.store);
});
