/**
 * One statement as a portal of the extended protocol: it takes exactly one statement by its nature, its rows come in
 * portions, and when there are enough the portal is closed instead of read to its end. Runs in the one query slot of a
 * `pg` client, which hands it the protocol messages.
 */
import type pg from 'pg';

export interface PortalLimits {
  readonly rows: number;
  /** Bytes of values kept; what follows is left out. */
  readonly bytes: number;
}

export interface PortalResult {
  readonly fields: readonly { readonly name: string; readonly dataTypeID: number }[];
  readonly rows: readonly (readonly (string | null)[])[];
  /** Rows the command tag speaks of; null when the statement was stopped before its end. */
  readonly count: number | null;
  readonly truncated: boolean;
}

const PORTION = 100;

/** The part of the driver's connection that sends messages; `@types/pg` shows it with signatures of an older version. */
interface Sender {
  parse(message: { text: string; name: string; types: undefined }): void;
  bind(message: { portal: string; statement: string; values: readonly (string | null)[]; binary: false }): void;
  describe(message: { type: 'P'; name: string }): void;
  execute(message: { portal: string; rows: number }): void;
  close(message: { type: 'P'; name: string }): void;
  sendCopyFail(message: string): void;
  flush(): void;
  sync(): void;
  readonly stream: { destroy(error?: Error): void };
}

/** Runs a statement to its end or to the limits. Rejects with what the server or the connection said. */
export function runPortal(
  client: pg.Client,
  text: string,
  values: readonly (string | null)[],
  limits: PortalLimits,
): Promise<PortalResult> {
  return new Promise((resolve, reject) => {
    client.query(new Portal(text, values, limits, resolve, reject));
  });
}

class Portal {
  readonly #text: string;
  readonly #values: readonly (string | null)[];
  readonly #limits: PortalLimits;
  readonly #resolve: (result: PortalResult) => void;
  readonly #reject: (error: unknown) => void;
  #fields: PortalResult['fields'] = [];
  readonly #rows: (string | null)[][] = [];
  #bytes = 0;
  #count: number | null = null;
  #truncated = false;

  constructor(
    text: string,
    values: readonly (string | null)[],
    limits: PortalLimits,
    resolve: (result: PortalResult) => void,
    reject: (error: unknown) => void,
  ) {
    this.#text = text;
    this.#values = values;
    this.#limits = limits;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  submit(connection: pg.Connection): void {
    const sender = senderOf(connection);
    sender.parse({ text: this.#text, name: '', types: undefined });
    sender.bind({ portal: '', statement: '', values: this.#values, binary: false });
    sender.describe({ type: 'P', name: '' });
    this.#fetch(sender);
  }

  handleRowDescription(message: { readonly fields: PortalResult['fields'] }): void {
    this.#fields = message.fields;
  }

  handleDataRow(message: { readonly fields: (string | null)[] }): void {
    const bytes = message.fields.reduce((sum, value) => sum + (value === null ? 0 : Buffer.byteLength(value)), 0);
    if (this.#truncated || this.#rows.length === this.#limits.rows || this.#bytes + bytes > this.#limits.bytes) {
      this.#truncated = true;
      return;
    }
    this.#bytes += bytes;
    this.#rows.push(message.fields);
  }

  /** A portion has come and there may be more. */
  handlePortalSuspended(connection: pg.Connection): void {
    const sender = senderOf(connection);
    if (this.#truncated) {
      sender.close({ type: 'P', name: '' });
      sender.sync();
    } else this.#fetch(sender);
  }

  handleCommandComplete(message: { readonly text: string }, connection: pg.Connection): void {
    const count = /(\d+)$/.exec(message.text)?.[1];
    this.#count = count === undefined ? 0 : Number(count);
    senderOf(connection).sync();
  }

  handleEmptyQuery(connection: pg.Connection): void {
    this.#count = 0;
    senderOf(connection).sync();
  }

  /** `copy … from stdin`: nobody is there to send rows. */
  handleCopyInResponse(connection: pg.Connection): void {
    senderOf(connection).sendCopyFail('copy from stdin is not possible here');
  }

  /** `copy … to stdout` has no portions and no columns. */
  handleCopyData(_message: unknown, connection: pg.Connection): void {
    senderOf(connection).stream.destroy(new CopyRefused());
  }

  handleReadyForQuery(): void {
    this.#resolve({ fields: this.#fields, rows: this.#rows, count: this.#count, truncated: this.#truncated });
  }

  handleError(error: unknown, connection: pg.Connection): void {
    // The server waits for the end of what it could not run; on a dead connection nobody listens.
    senderOf(connection).sync();
    this.#reject(error);
  }

  /** One row more than wanted, so that "there was more" is known. */
  #fetch(sender: Sender): void {
    sender.execute({ portal: '', rows: Math.min(PORTION, this.#limits.rows + 1 - this.#rows.length) });
    sender.flush();
  }
}

/** Rows of `copy … to stdout` were refused; the connection is gone with them. */
export class CopyRefused extends Error {
  override readonly name = 'CopyRefused';
  constructor() {
    super('copy to stdout is not possible here');
  }
}

function senderOf(connection: pg.Connection): Sender {
  // The methods of pg's Connection (lib/connection.js) take these messages and ignore further arguments.
  return connection as unknown as Sender;
}
