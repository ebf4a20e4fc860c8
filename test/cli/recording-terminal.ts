/** A terminal that keeps what was printed. */
import type { Terminal } from '../../src/cli/terminal.ts';

export interface RecordingTerminal extends Terminal {
  output(): string;
  errors(): string;
}

export function recordingTerminal(options: { readonly live?: boolean } = {}): RecordingTerminal {
  const out: string[] = [];
  const err: string[] = [];
  return {
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
    live: options.live ?? false,
    columns: 100,
    rows: 40,
    style: (_colour, text) => text,
    output: () => out.join(''),
    errors: () => err.join(''),
  };
}
