/**
 * A duckdb process from the worker's side: requests go in, each is awaited, and when the try's signal fires the process
 * is killed. A transaction that was open then never happened.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { captureText, killGroup } from '../child.ts';
import { bindToWorker } from '../lifeline.ts';
import type { DuckdbRequest, FetchAnswer, Params, StatementAnswer } from './protocol.ts';

export interface DuckdbSettings {
  /** A file, or `:memory:`. */
  readonly database: string;
  readonly memoryMb: number;
  /** Whether statements may reach files and load extensions. */
  readonly externalAccess: boolean;
  readonly readOnly?: boolean;
  readonly environment: Readonly<Record<string, string>>;
}

export interface Duckdb extends AsyncDisposable {
  run(sql: string, params?: Params, maxBytes?: number): Promise<StatementAnswer>;
  /** Column names of a statement whose rows `fetch` hands out. */
  stream(sql: string, params?: Params): Promise<readonly string[]>;
  fetch(rows: number): Promise<FetchAnswer>;
  /** Takes files and extensions away from the statements that follow, unless the settings allow them. */
  seal(): Promise<void>;
}

/** What the engine said; `category` is the first word of its sentence, as in `Parser` or `Out of Memory`. */
export class DuckdbError extends Error {
  override readonly name = 'DuckdbError';
  readonly category: string;
  constructor(message: string) {
    super(message);
    this.category = /^([A-Z][A-Za-z ]{0,40}?) Error: /.exec(message)?.[1] ?? 'Unknown';
  }
}

/** The rows of a statement are larger than the limit. */
export class RowsTooLarge extends Error {
  override readonly name = 'RowsTooLarge';
}

/** The process ended by itself: it was out of memory, or the engine crashed. */
export class DuckdbLost extends Error {
  override readonly name = 'DuckdbLost';
}

const main = fileURLToPath(new URL('./child.ts', import.meta.url));
const maxStderrBytes = 16 * 1024;

/** Starts a process and opens the database. Throws DuckdbError, DuckdbLost, or the reason of `signal`. */
export async function openDuckdb(settings: DuckdbSettings, signal: AbortSignal): Promise<Duckdb> {
  signal.throwIfAborted();
  const process = new DuckdbProcess(settings, signal);
  try {
    const { database, memoryMb, readOnly = false } = settings;
    await process.ask({ do: 'open', database, memoryMb, readOnly });
    return process;
  } catch (error) {
    await process[Symbol.asyncDispose]();
    throw error;
  }
}

class DuckdbProcess implements Duckdb {
  readonly #settings: DuckdbSettings;
  readonly #signal: AbortSignal;
  readonly #child: ChildProcess;
  readonly #stderr: () => string;
  readonly #answers: AsyncIterator<string>;
  readonly #ended: Promise<void>;
  readonly #kill: () => void;

  constructor(settings: DuckdbSettings, signal: AbortSignal) {
    this.#settings = settings;
    this.#signal = signal;
    const env = settings.environment;
    const bound = bindToWorker(process.execPath, ['--no-warnings', main], env, 4, [3]);
    const child = spawn(bound.command, bound.args, {
      env,
      detached: true,
      stdio: ['pipe', 'ignore', 'pipe', 'pipe', 'pipe'],
    });
    this.#child = child;
    this.#stderr = captureText(child.stderr, maxStderrBytes);
    child.stdin?.on('error', () => {});
    child.stdio[4]?.on('error', () => {});
    const answers = child.stdio[3];
    if (!(answers instanceof Readable)) throw new Error('descriptor 3 is no pipe');
    answers.on('error', () => {});
    this.#answers = createInterface({ input: answers, crlfDelay: Number.POSITIVE_INFINITY })[Symbol.asyncIterator]();
    // The watcher of the lifeline ends with the process it watches.
    child.once('exit', () => killGroup(child));
    this.#ended = new Promise((resolve) => {
      child.once('error', () => resolve());
      child.once('close', () => resolve());
    });
    this.#kill = () => killGroup(child);
    signal.addEventListener('abort', this.#kill, { once: true });
    if (signal.aborted) this.#kill();
  }

  async run(sql: string, params: Params = null, maxBytes = Number.MAX_SAFE_INTEGER): Promise<StatementAnswer> {
    // The answers of our own process have the shape of its protocol.
    return (await this.#askMap({ do: 'run', sql, params, maxBytes })) as unknown as StatementAnswer;
  }

  async stream(sql: string, params: Params = null): Promise<readonly string[]> {
    return (await this.#askMap({ do: 'stream', sql, params }))['columns'] as readonly string[];
  }

  async fetch(rows: number): Promise<FetchAnswer> {
    return (await this.#askMap({ do: 'fetch', rows })) as unknown as FetchAnswer;
  }

  async seal(): Promise<void> {
    if (!this.#settings.externalAccess) await this.ask({ do: 'seal' });
  }

  async ask(request: DuckdbRequest): Promise<Json> {
    this.#child.stdin?.write(`${JSON.stringify(request)}\n`);
    const line = await this.#answers.next();
    this.#signal.throwIfAborted();
    if (line.done === true) {
      await this.#ended;
      throw new DuckdbLost(`the duckdb process ended: ${this.#stderr().trim().slice(-500) || 'it said nothing'}`);
    }
    // The answers of our own process have the shape of its protocol.
    const answer = JSON.parse(line.value) as { ok: boolean; value?: Json; message?: string; tooLarge?: boolean };
    if (answer.ok) return answer.value ?? null;
    const message = answer.message ?? '';
    throw answer.tooLarge === true ? new RowsTooLarge(message) : new DuckdbError(message);
  }

  async #askMap(request: DuckdbRequest): Promise<JsonMap> {
    const value = await this.ask(request);
    if (!isMap(value)) throw new DuckdbLost('the duckdb process answers with something else than it should');
    return value;
  }

  /** Lets the engine write what it committed before it ends, for as long as the try lasts. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin?.end();
    await this.#ended;
    this.#signal.removeEventListener('abort', this.#kill);
  }
}
