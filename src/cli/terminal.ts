/**
 * Where the command line prints: results to stdout, everything about them to stderr, so that a pipe gets the result
 * alone. Text from documents and servers goes through `printable` before it comes here.
 */
import { styleText } from 'node:util';

export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  /** A person watches stderr: it may be drawn over. */
  readonly live: boolean;
  readonly columns: number;
  readonly rows: number;
  style(colour: Colour, text: string): string;
}

export type Colour = 'green' | 'red' | 'yellow' | 'cyan' | 'dim' | 'bold';

/** The terminal of this process. */
export function processTerminal(): Terminal {
  leaveWithReader(process.stdout);
  const live = process.stderr.isTTY === true && process.env['TERM'] !== 'dumb' && process.env['CI'] === undefined;
  return {
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    live,
    get columns() {
      return process.stderr.columns ?? 100;
    },
    get rows() {
      return process.stderr.rows ?? 40;
    },
    style: (colour, text) => styleText(colour, text, { stream: process.stderr }),
  };
}

/**
 * Whoever read the other end has seen enough (`callboard list | head`): that is an end, not a failure. A command that
 * stops in order on SIGINT does so here too; `process.exit` would leave its database running.
 */
function leaveWithReader(stream: NodeJS.WriteStream): void {
  let left = false;
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    if (left) return;
    left = true;
    if (process.listenerCount('SIGINT') === 0) process.exit();
    process.emit('SIGINT');
  });
}
