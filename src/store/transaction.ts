/**
 * Many prepared statements as one transaction of the extended protocol: all leave in one write and end with one Sync.
 * Between two Syncs the server treats them as one transaction by itself, so neither `begin` nor `commit` is sent; it
 * commits at the Sync, skips what follows a failure, and answers once: one write of the server and one wake-up of this
 * process in place of one for each statement.
 *
 * Source: PostgreSQL manual, "Extended Query" and "Pipelining" of the message flow.
 */
import pg from 'pg';

export interface Statement {
  /** Name of the prepared statement; one name, one text. */
  readonly name: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

/** What one connection has been told to prepare. */
export interface Prepared {
  readonly names: Set<string>;
  /** Named in a transaction that failed: whether the server came to parse them is not known. */
  readonly doubtful: Set<string>;
}

/** The messages of the driver's connection that are used here; its published types are of an older release. */
interface Wire {
  parse(message: { name: string; text: string }): void;
  bind(message: { statement: string; values: readonly Parameter[] }): void;
  execute(message: object): void;
  close(message: { type: 'S'; name: string }): void;
  flush(): void;
  sync(): void;
}

/** Apart from the names that the driver gives to what is sent one by one on the same connection. */
const OWN = 'tx_';

type Parameter = string | Buffer | null;

/**
 * For `client.query` of a client in pipeline mode. `done` is called once: without an error when the transaction is
 * committed, otherwise with the failure that rolled it back or with that of the connection (outcome unknown).
 * `onAnswer` is called with the number of each statement when it has been done, so that a failure belongs to the
 * statement after the last answer. With `timed` the server answers each at once, which costs a write each.
 */
export class Transaction extends pg.Query {
  readonly #statements: readonly (Statement & { readonly values: readonly Parameter[] })[];
  readonly #prepared: Prepared;
  readonly #timed: boolean;
  readonly #onAnswer: (index: number) => void;
  readonly #parsing: string[] = [];
  #answered = 0;
  #done: ((error: Error | null) => void) | null;

  constructor(
    statements: readonly Statement[],
    prepared: Prepared,
    options: { readonly timed: boolean; readonly onAnswer: (index: number) => void },
    done: (error: Error | null) => void,
  ) {
    super({ text: '' }, () => {});
    // Now, because a value that cannot be sent must be found before the first byte has left.
    this.#statements = statements.map((one) => ({ ...one, values: one.values.map(parameterOf) }));
    this.#prepared = prepared;
    this.#timed = options.timed;
    this.#onAnswer = options.onAnswer;
    this.#done = done;
  }

  override submit = (connection: unknown): void => {
    const wire = connection as Wire;
    for (const { name, text, values } of this.#statements) {
      const statement = `${OWN}${name}`;
      this.#prepare(wire, statement, text);
      wire.bind({ statement, values });
      wire.execute({});
      if (this.#timed) wire.flush();
    }
    wire.sync();
  };

  /** No statement of a transaction is asked for its rows; those it has anyway are passed over. */
  handleDataRow(): void {}

  handleRowDescription(): void {}

  handleCommandComplete(): void {
    this.#onAnswer(this.#answered);
    this.#answered += 1;
  }

  handleReadyForQuery(): void {
    this.#finish(null);
  }

  handleError(error: Error): void {
    for (const name of this.#parsing) {
      this.#prepared.names.delete(name);
      this.#prepared.doubtful.add(name);
    }
    this.#finish(error);
  }

  #prepare(wire: Wire, name: string, text: string): void {
    const { names, doubtful } = this.#prepared;
    if (names.has(name)) return;
    // Closing what does not exist is no error, preparing what exists is.
    if (doubtful.delete(name)) wire.close({ type: 'S', name });
    wire.parse({ name, text });
    names.add(name);
    this.#parsing.push(name);
  }

  #finish(error: Error | null): void {
    const done = this.#done;
    this.#done = null;
    done?.(error);
  }
}

/** Text form of the values that statements of a transaction have: JSON text, ids, names, and lists of those. */
export function parameterOf(value: unknown): Parameter {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (Buffer.isBuffer(value)) return value;
  if (Array.isArray(value)) return `{${value.map(elementOf).join(',')}}`;
  throw new TypeError(`a statement of a transaction cannot take a value of type ${typeof value}`);
}

function elementOf(value: unknown): string {
  if (value === null) return 'NULL';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
  throw new TypeError(`a list of a statement cannot hold a value of type ${typeof value}`);
}
