/** A server and a worker in this process over a database of their own: playbooks go in as text, what happened comes out. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JsonMap } from '../../machines/json.ts';
import { startWorkerProcess } from '../../src/cli/worker-process.ts';
import { CallboardClient } from '../../src/client/client.ts';
import type { Config } from '../../src/config.ts';
import { readConfig } from '../../src/config.ts';
import { silentLog } from '../../src/log.ts';
import { startServer } from '../../src/server.ts';
import { startTestPostgres } from './postgres.ts';
import { testBus } from './processes.ts';

export type Events = Awaited<ReturnType<CallboardClient['events']>>['events'];

export interface Ran {
  readonly id: number;
  readonly status: string;
  readonly result: unknown;
  readonly error: string | null;
  readonly events: Events;
  /** Names of the steps of these events, in order. */
  steps(type: string): readonly string[];
}

export interface LanguageStack {
  readonly client: CallboardClient;
  readonly databaseUrl: string;
  readonly serverUrl: string;
  /** Registers the workflow under a path of its own, runs it to its end and reads its log. */
  run(workflow: string, inputs?: JsonMap, root?: string): Promise<Ran>;
  /** Registers it; the path. */
  register(workflow: string, root?: string): Promise<string>;
  read(executionId: number): Promise<Ran>;
  /** A further worker; `stop` ends it. */
  worker(change: Partial<Config['worker']>): Promise<{ stop(): Promise<void> }>;
  /** An HTTP server that answers by this; its address. */
  site(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string>;
  close(): Promise<void>;
}

const RUN_MS = 15_000;
const PAGE = 500;

export async function startLanguageStack(worker: Partial<Config['worker']> = {}): Promise<LanguageStack> {
  const closing: (() => Promise<unknown>)[] = [];
  const database = await startTestPostgres();
  closing.push(() => database.stop());
  const folder = await mkdtemp(join(tmpdir(), 'callboard-language-'));
  closing.push(() => rm(folder, { recursive: true, force: true }));
  const config = { ...readConfig(testBus()), databaseUrl: database.url, dataDir: folder, port: 0 };
  const server = await startServer(config, { log: silentLog });
  closing.push(() => server.stop());
  const startWorker = (change: Partial<Config['worker']>) =>
    startWorkerProcess({ ...config, worker: { ...config.worker, serverUrl: server.url, ...change } }, silentLog);
  const first = await startWorker(worker);
  closing.push(() => first.stop());
  const client = new CallboardClient({ serverUrl: server.url, token: null });
  closing.push(() => client.close());
  let documents = 0;

  const stack: LanguageStack = {
    client,
    databaseUrl: database.url,
    serverUrl: server.url,
    async register(workflow, root = '') {
      documents += 1;
      const path = `language/case-${documents}`;
      const head = `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: case, path: ${path} }\n`;
      await client.register(`${head}${root}\nworkflow:\n${workflow}`, {});
      return path;
    },
    async run(workflow, inputs = {}, root = '') {
      const path = await stack.register(workflow, root);
      const started = await client.execute({ path, workload: inputs, wait_ms: RUN_MS });
      return stack.read(started.execution_id);
    },
    async read(executionId) {
      const { status, result, error } = await client.execution(executionId);
      const events: Events = [];
      for (let page = 1, isMore = true; isMore; page += 1) {
        const answer = await client.events(executionId, { page, page_size: PAGE });
        events.push(...answer.events);
        isMore = answer.events.length === PAGE;
      }
      return {
        id: executionId,
        status,
        result,
        error: error ?? null,
        events,
        steps: (type) => events.filter((event) => event.event_type === type).map((event) => event.node_name),
      };
    },
    worker: startWorker,
    async site(answer) {
      const site = createServer(answer);
      await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
      closing.push(
        () =>
          new Promise((resolve) => {
            site.closeAllConnections();
            site.close(resolve);
          }),
      );
      // A server that listens on TCP has an address with a port.
      return `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
    },
    async close() {
      for (const close of closing.toReversed()) await close();
    },
  };
  return stack;
}
