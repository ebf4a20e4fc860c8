/** One server in this process over a database of its own, and the shortest way to ask it something. */
import { randomBytes } from 'node:crypto';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { startServer } from '../../src/server.ts';
import { startTestPostgres, type TestPostgres } from '../support/postgres.ts';

export interface Answer {
  readonly status: number;
  readonly text: string;
  // Whatever the door says; tests compare it as a whole.
  readonly json: unknown;
}

export interface Door extends AsyncDisposable {
  readonly url: string;
  readonly postgres: TestPostgres;
  /** Lines of the log, as they were written. */
  readonly lines: readonly string[];
  call(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  /** Registers a playbook of one noop step under this path; its catalog id. */
  register(path: string, workflow?: string): Promise<number>;
  /** A further server over the same database, with the same keys. */
  second(environment?: Readonly<Record<string, string>>): Promise<Pick<Door, 'url' | 'call'>>;
}

/** `through` may put something between the server and its database: it gets the address and gives another. */
export async function openDoor(
  environment: Readonly<Record<string, string>> = {},
  through: (databaseUrl: string) => Promise<string> = async (url) => url,
): Promise<Door> {
  const postgres = await startTestPostgres();
  const lines: string[] = [];
  const log = createLog({
    level: 'info',
    format: 'json',
    component: 'test',
    sink: { write: (line) => lines.push(line) },
  });
  const common = {
    SVC_PORT: '0',
    SVC_DATABASE_URL: await through(postgres.url),
    SVC_BUS: 'none',
    SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    ...environment,
  };
  const closing: (() => Promise<unknown>)[] = [() => postgres.stop()];
  const start = async (more: Readonly<Record<string, string>>) => {
    const server = await startServer(readConfig({ ...common, ...more }), { log });
    closing.push(() => server.stop());
    return server.url;
  };
  const close = async () => {
    for (const end of closing.splice(0).reverse()) await end();
  };
  try {
    const url = await start({});
    const call = callerOf(url);
    return {
      url,
      postgres,
      lines,
      call,
      async register(path, workflow = '  - { step: start, tool: { kind: noop } }') {
        const content = `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { path: ${path} }\nworkflow:\n${workflow}\n`;
        const { status, json, text } = await call('POST', '/api/catalog/playbook', { content, path });
        if (status !== 200 || typeof json !== 'object' || json === null || !('catalog_id' in json))
          throw new Error(text);
        return Number(json.catalog_id);
      },
      async second(more = {}) {
        const other = await start(more);
        return { url: other, call: callerOf(other) };
      },
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function callerOf(base: string): Door['call'] {
  return async (method, path, body, headers = {}) => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, text, json: text === '' ? null : JSON.parse(text) };
  };
}
