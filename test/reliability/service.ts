/** A real server in this process on a database of its own, asked over HTTP as a worker or a client would. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfig } from '../../src/config.ts';
import { silentLog } from '../../src/log.ts';
import { type RunningServer, startServer } from '../../src/server.ts';
import { brokenLaws } from '../support/log-laws.ts';
import { queryRows, startTestPostgres } from '../support/postgres.ts';
import { readRuns } from '../support/recorded-runs.ts';

export interface Answer {
  readonly status: number;
  /** Read without ceremony: a test says what it expects of it. */
  readonly json: ReturnType<typeof JSON.parse>;
}

export interface Granted {
  readonly command_id: number;
  readonly execution_id: number;
  readonly attempt: number;
  readonly step: string;
}

export class Service {
  readonly #server: RunningServer;
  readonly #folder: string;
  readonly #dropDatabase: () => Promise<void>;
  readonly databaseUrl: string;
  readonly url: string;
  #reports = 0;

  private constructor(server: RunningServer, folder: string, databaseUrl: string, dropDatabase: () => Promise<void>) {
    this.#server = server;
    this.#folder = folder;
    this.databaseUrl = databaseUrl;
    this.#dropDatabase = dropDatabase;
    this.url = server.url;
  }

  static async start(env: Readonly<Record<string, string>> = {}): Promise<Service> {
    const postgres = await startTestPostgres();
    const folder = await mkdtemp(join(tmpdir(), 'callboard-reliability-'));
    const settings = { SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: folder, SVC_PORT: '0', ...env };
    const server = await startServer(readConfig(settings), { log: silentLog });
    return new Service(server, folder, postgres.url, () => postgres.stop());
  }

  async stop(): Promise<void> {
    await this.#server.stop();
    await this.#dropDatabase();
    await rm(this.#folder, { recursive: true, force: true });
  }

  async ask(method: string, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
    return askAt(this.url, method, path, body, headers);
  }

  post(path: string, body: unknown = {}, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
    return this.ask('POST', path, body, headers);
  }

  get(path: string): Promise<Answer> {
    return this.ask('GET', path);
  }

  /** Registers a playbook with these steps, in YAML. */
  async register(path: string, steps: string): Promise<void> {
    const name = path.slice(path.lastIndexOf('/') + 1);
    const head = `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: ${name}, path: ${path} }\nworkflow:\n`;
    expectStatus(await this.post('/api/catalog/register', { content: head + steps }), 200);
  }

  async start(path: string, more: object = {}): Promise<number> {
    const { json } = expectStatus(await this.post('/api/execute', { path, ...more }), 200);
    return json.execution_id;
  }

  async enlist(name: string, more: object = {}): Promise<void> {
    const body = { name, pools: ['shared'], instance: name, capacity: 1_000, offline_after_seconds: 600, ...more };
    expectStatus(await this.post('/api/worker/pool/register', body), 200);
  }

  async claim(worker: string, max = 1, more: object = {}): Promise<readonly Granted[]> {
    const { json } = expectStatus(await this.post('/api/commands/claim', { worker_id: worker, max, ...more }), 200);
    return json.commands;
  }

  /** Reports all of these as done; the verdicts. */
  async report(worker: string, commands: readonly Granted[], outcome: object = { outcome: 'ok', data: {} }) {
    const reports = commands.map(({ command_id, attempt }) => {
      this.#reports += 1;
      return { report_id: `r${this.#reports}`, command_id, attempt, ...outcome };
    });
    const { json } = expectStatus(await this.exchange(worker, { reports }), 200);
    return json.reports as readonly { readonly result: string; readonly event_ids: readonly number[] }[];
  }

  exchange(worker: string, more: object): Promise<Answer> {
    return this.post('/api/worker/exchange', { worker_id: worker, instance: worker, ...more });
  }

  async status(executionId: number): Promise<string> {
    return (await this.get(`/api/executions/${executionId}/status`)).json.status;
  }

  rows<Row extends Record<string, unknown>>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return queryRows<Row>(this.databaseUrl, text, values);
  }

  /** A hash over every row of every table, but for the signs of life of servers and workers. */
  async hashOfRows(): Promise<string> {
    const tables = await this.rows<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'core'::regnamespace and relkind in ('r', 'p')
         and not relispartition and relname not in ('runtime', 'lease') order by relname`,
    );
    const hashes: string[] = [];
    for (const { name } of tables) {
      const [row] = await this.rows<{ hash: string | null }>(
        `select md5(string_agg(line, '|' order by line)) as hash from (select t::text as line from core.${name} as t) as lines`,
      );
      hashes.push(`${name} ${row?.hash}`);
    }
    return hashes.join('\n');
  }

  async metric(name: string): Promise<number> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const lines = text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  }

  /** Every execution against the laws of its log; the row has to be what the log folds to. */
  async brokenLaws(): Promise<readonly string[]> {
    return brokenLaws(await readRuns(this.databaseUrl));
  }
}

export async function askAt(
  url: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, json: text === '' ? null : JSON.parse(text) };
}

function expectStatus(answer: Answer, status: number): Answer {
  if (answer.status !== status) throw new Error(`answered ${answer.status}: ${JSON.stringify(answer.json)}`);
  return answer;
}

/** Asks again until it is so; a state of another process has no signal here. */
export async function until(what: string, look: () => Promise<boolean>, withinMs = 15_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await look())) {
    if (performance.now() > deadline) throw new Error(`after ${withinMs} ms still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
