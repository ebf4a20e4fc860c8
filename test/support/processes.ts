/**
 * Real processes of the service for tests that kill them: each is started through the launcher as a user does, is ready
 * when it says so in its log, and is gone when the test ends, whatever became of the test. A process is only ever
 * signalled by the number it was started with.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { CallboardClient } from '../../src/client/client.ts';
import { closeCluster } from '../../src/embedded/cluster.ts';
import { queryRows } from './postgres.ts';

const LAUNCHER = fileURLToPath(new URL('../../src/cli/callboard.mjs', import.meta.url));
const READY_WITHIN_MS = 60_000;

export type Environment = Readonly<Record<string, string>>;

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface ServiceProcess {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  /** Everything it has printed so far, both streams. */
  output(): string;
  /** Resolves once `text` was printed; rejects when the process ends before or a minute has passed. */
  said(text: string): Promise<void>;
  signal(name: NodeJS.Signals): void;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
  /** SIGTERM, and waits for its end. */
  stop(): Promise<Ended>;
}

export interface ServerProcess extends ServiceProcess {
  readonly url: string;
  readonly port: number;
}

/** What a test started and has to take away: processes in reverse order, then folders. */
export class Stage {
  readonly #processes: ServiceProcess[] = [];
  readonly #clients: CallboardClient[] = [];
  readonly #endings: (() => Promise<unknown>)[] = [];

  /** `callboard server` on a port that stays the same over restarts when it is given. */
  async server(environment: Environment, port?: number): Promise<ServerProcess> {
    const chosen = port ?? (await freePort());
    const started = this.start(['server'], { ...environment, SVC_PORT: String(chosen) });
    await started.said('The server listens');
    return { ...started, port: chosen, url: `http://127.0.0.1:${chosen}` };
  }

  /** `callboard worker`, once the server knows it. */
  async worker(serverUrl: string, environment: Environment = {}): Promise<ServiceProcess> {
    const started = this.start(['worker'], { SVC_SERVER_URL: serverUrl, ...environment });
    await started.said('The worker is registered.');
    return started;
  }

  start(argv: readonly string[], environment: Environment): ServiceProcess {
    const started = startProcess(argv, environment);
    this.#processes.push(started);
    return started;
  }

  client(serverUrl: string): CallboardClient {
    const client = new CallboardClient({ serverUrl });
    this.#clients.push(client);
    return client;
  }

  /** Registers playbooks and starts each once; the executions in the same order. */
  async startRuns(
    serverUrl: string,
    flows: readonly { readonly path: string; readonly text: string }[],
  ): Promise<number[]> {
    const client = this.client(serverUrl);
    const executionIds: number[] = [];
    for (const { path, text } of flows) {
      await client.register(text, {});
      executionIds.push((await client.execute({ path })).execution_id);
    }
    return executionIds;
  }

  /** A folder of the test's own; an embedded database in it is stopped before it is removed. */
  async folder(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), 'callboard-e2e-'));
    this.#endings.push(async () => {
      await closeCluster(folder);
      await rm(folder, { recursive: true, force: true });
    });
    return folder;
  }

  /** Something else to close at the end, before folders that were asked for earlier. */
  onEnd(work: () => Promise<unknown>): void {
    this.#endings.push(work);
  }

  async close(): Promise<void> {
    for (const client of this.#clients.splice(0)) await client.close();
    for (const started of this.#processes.splice(0).reverse()) await started.kill();
    for (const work of this.#endings.splice(0).reverse()) await work();
  }
}

/** The whole of these tests can be run on another bus: `CALLBOARD_TEST_BUS=none`, or the address of a NATS server. */
export function testBus(): Environment {
  const wanted = process.env['CALLBOARD_TEST_BUS'] ?? '';
  if (wanted === '') return {};
  return wanted.includes('://') ? { SVC_NATS_URL: wanted } : { SVC_BUS: wanted };
}

function startProcess(argv: readonly string[], environment: Environment): ServiceProcess {
  const child = spawn(process.execPath, [LAUNCHER, ...argv], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      NO_COLOR: '1',
      SVC_LOG_FORMAT: 'json',
      ...testBus(),
      ...environment,
    },
  });
  const { pid } = child;
  if (pid === undefined) throw new Error('the process could not be started');
  let printed = '';
  const listeners = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      printed += chunk;
      for (const listener of listeners) listener();
    });
  }
  const ended = endOf(child);
  const signal = (name: NodeJS.Signals): void => {
    if (child.exitCode === null && child.signalCode === null) child.kill(name);
  };
  return {
    pid,
    ended,
    output: () => printed,
    said: (text) =>
      new Promise((resolve, reject) => {
        const settle = (done: () => void): void => {
          clearTimeout(timer);
          listeners.delete(look);
          done();
        };
        const fail = (why: string): void =>
          settle(() => reject(new Error(`${why} before it said '${text}':\n${printed}`)));
        const look = (): void => {
          if (printed.includes(text)) settle(resolve);
        };
        const timer = setTimeout(() => fail('a minute passed'), READY_WITHIN_MS);
        listeners.add(look);
        void ended.then(() => fail('it ended'));
        look();
      }),
    signal,
    async kill() {
      signal('SIGKILL');
      await ended;
    },
    async stop() {
      signal('SIGTERM');
      return await ended;
    },
  };
}

function endOf(child: ChildProcess): Promise<Ended> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal }));
  });
}

/** A port of 127.0.0.1 that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A TCP server that listens has an address with a port.
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Looks into the database until this is true; a row has no signal of its own across processes. Fails with what is open. */
async function untilTrue(url: string, statement: string, values: readonly unknown[], withinMs: number): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (performance.now() < deadline) {
    // The database itself may be what was killed.
    const rows = await queryRows<{ yes: boolean }>(url, `select (${statement}) as yes`, values).catch(() => []);
    if (rows[0]?.yes === true) return;
    await pause(10);
  }
  const open = await queryRows(url, OPEN_COMMANDS);
  throw new Error(`after ${withinMs} ms there is still open:\n${open.map((row) => JSON.stringify(row)).join('\n')}`);
}

const OPEN_COMMANDS = `
select execution.execution_id, execution.last_event_id, execution.handled_through, command_key, command.status, attempt,
  worker_id, claimed_at, command.next_wake_at, republish_count, clock_timestamp() as now
from core.execution left join core.command on command.execution_id = execution.execution_id and completed_at is null
where execution.status = 'running'
limit 20`;

/** Resolves once the log of an execution has this many events. */
export function untilEvents(url: string, executionId: number, events: number, withinMs = 30_000): Promise<void> {
  const reached = 'select max(event_id) >= $2 from core.event where execution_id = $1';
  return untilTrue(url, reached, [executionId, events], withinMs);
}

/** Resolves once none of these executions runs any more. */
export function untilEnded(url: string, executionIds: readonly number[], withinMs = 30_000): Promise<void> {
  const ended = `select count(*) = cardinality($1::bigint[]) from core.execution
    where execution_id = any($1) and status <> 'running'`;
  return untilTrue(url, ended, [executionIds], withinMs);
}

/** Resolves once a worker holds this many commands. */
export function untilHeld(url: string, workerId: string, commands: number, withinMs = 30_000): Promise<void> {
  const held = `select count(*) >= $2 from core.command where worker_id = $1 and status in ('CLAIMED', 'RUNNING')`;
  return untilTrue(url, held, [workerId, commands], withinMs);
}

/** Resolves once a held command is due, for whoever looks. */
export function untilDue(url: string, withinMs = 10_000): Promise<void> {
  const due = `exists (select from core.command where status in ('CLAIMED', 'RUNNING') and next_wake_at <= clock_timestamp())`;
  return untilTrue(url, due, [], withinMs);
}
