/**
 * What a command of the CLI is, how its words are read and how its help looks. A command declares its options once;
 * parsing and `--help` follow from that.
 */
import { parseArgs } from 'node:util';
import { EXIT } from './exit-code.ts';
import type { Terminal } from './terminal.ts';

export interface Option {
  readonly type: 'string' | 'boolean';
  readonly multiple?: boolean;
  /** What stands for the value in the help, as in `--timeout SECONDS`. */
  readonly value?: string;
  readonly help: string;
}

export interface Command {
  /** Words after the command's name, as in `FILE… [options]`. */
  readonly usage: string;
  /** What it does and what its exit codes mean. */
  readonly description: string;
  readonly options: Readonly<Record<string, Option>>;
  /** Least and most words that are not options. */
  readonly words: readonly [number, number];
  readonly run: (call: Call) => Promise<number>;
}

/** One use of a command. `texts`, `lists` and `flags` hold the options that were given. */
export interface Call {
  readonly words: readonly string[];
  readonly texts: Readonly<Record<string, string | undefined>>;
  readonly lists: Readonly<Record<string, readonly string[] | undefined>>;
  readonly flags: Readonly<Record<string, boolean | undefined>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly terminal: Terminal;
}

/** The words cannot be read; the message says why. Exit code 2. */
export class UsageError extends Error {}

/** Something outside this process is not as it must be; the message says what and the remedy. */
export class Unavailable extends Error {
  readonly exitCode: number = EXIT.infrastructure;
}

export const SERVER_OPTION = {
  server: { type: 'string', value: 'URL', help: 'the server (default SVC_SERVER_URL, else http://127.0.0.1:8082)' },
} as const satisfies Readonly<Record<string, Option>>;

export const JSON_OPTION = {
  json: { type: 'boolean', help: 'print one JSON document' },
} as const satisfies Readonly<Record<string, Option>>;

export const TYPE_OPTION = {
  type: {
    type: 'string',
    value: 'KIND',
    help: 'the kind where a document leaves it open; agent makes an agent of a playbook',
  },
} as const satisfies Readonly<Record<string, Option>>;

/** Reads the words after the command's name. Throws UsageError. */
export function readCall(command: Command, argv: readonly string[], world: Pick<Call, 'env' | 'terminal'>): Call {
  const { values, positionals } = parsed(command, argv);
  const [least, most] = command.words;
  if (positionals.length < least) throw new UsageError(`it needs ${command.usage.split(' [')[0]}`);
  if (positionals.length > most) throw new UsageError(`it does not take '${positionals[most]}'`);
  const texts: Record<string, string> = {};
  const lists: Record<string, readonly string[]> = {};
  const flags: Record<string, boolean> = {};
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === 'string') texts[name] = value;
    else if (typeof value === 'boolean') flags[name] = value;
    else if (Array.isArray(value)) lists[name] = value.map(String);
  }
  const { server } = texts;
  if (server !== undefined && !['http:', 'https:'].includes(URL.parse(server)?.protocol ?? ''))
    throw new UsageError(`--server must be an address starting with http:// or https://, not '${server}'`);
  return { ...world, words: positionals, texts, lists, flags };
}

function parsed(command: Command, argv: readonly string[]) {
  try {
    const options = Object.fromEntries(
      Object.entries(command.options).map(([name, each]) => [
        name,
        { type: each.type, multiple: each.multiple ?? false },
      ]),
    );
    return parseArgs({ args: [...argv], options, allowPositionals: true, strict: true });
  } catch (error) {
    if (error instanceof TypeError)
      throw new UsageError((error.message.split('. ')[0] ?? '').replace(/^./, (first) => first.toLowerCase()));
    throw error;
  }
}

export function helpOf(name: string, command: Command): string {
  const rows = Object.entries(command.options).map(([option, each]) => {
    const left = each.type === 'string' ? `--${option} ${each.value ?? 'TEXT'}` : `--${option}`;
    return `  ${left.padEnd(22)} ${each.help}`;
  });
  rows.push(`  ${'--help'.padEnd(22)} this text`);
  return `usage: callboard ${name} ${command.usage}\n\n${command.description}\n\n${rows.join('\n')}\n`;
}

/** A number of seconds above zero, or null when the option was not given. Throws UsageError. */
export function secondsOption(call: Call, name: string): number | null {
  const text = call.texts[name];
  if (text === undefined) return null;
  const seconds = Number(text);
  if (!(seconds > 0) || !Number.isFinite(seconds))
    throw new UsageError(`--${name} must be a number of seconds above 0`);
  return seconds;
}

/** An execution id. Throws UsageError. */
export function idWord(text: string | undefined): number {
  if (text === undefined || !/^[1-9][0-9]{0,15}$/.test(text))
    throw new UsageError(`'${text ?? ''}' is not an execution id`);
  return Number(text);
}
