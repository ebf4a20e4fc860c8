/**
 * The log of a process: one JSON object a line (api 7.2), or a readable line on a terminal. A message is a constant
 * sentence, everything that varies is a field. Satisfies the `Log` port of the actors by shape. What must never be
 * logged is masked here too, as a last net; the first one is not to pass it.
 */
import pino from 'pino';

type Fields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
  /** The same log under the name of a part of the program. */
  child(component: string): Log;
  /** Values this process has masked in its log so far. */
  masked?(): number;
}

/** Where lines go; `process.stdout` and `process.stderr` fit. */
export interface LogSink {
  write(line: string): unknown;
  readonly isTTY?: boolean;
}

export interface LogOptions {
  readonly level: string;
  /** Null: `pretty` where the sink is a terminal, else `json`. */
  readonly format: 'json' | 'pretty' | null;
  readonly component: string;
  readonly sink: LogSink;
}

const SECRET_FIELDS = ['authorization', 'cookie', 'token', 'password', 'session_token', 'x-api-key', 'x-session-token'];

export function createLog(options: LogOptions): Log {
  let masked = 0;
  const pretty = options.format === 'pretty' || (options.format === null && options.sink.isTTY === true);
  const logger = pino(
    {
      level: options.level,
      base: null,
      messageKey: 'msg',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: [...SECRET_FIELDS, ...SECRET_FIELDS.map((field) => `*["${field}"]`)].map(quoted),
        censor: () => {
          masked += 1;
          return '***';
        },
      },
    },
    { write: (line: string) => options.sink.write(pretty ? readable(line) : escaped(line)) },
  );
  return wrap(logger, options.component, () => masked);
}

/** A log that says nothing, for callers that print results of their own. */
export const silentLog: Log = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silentLog,
};

function quoted(path: string): string {
  return path.startsWith('*') ? path : `["${path}"]`;
}

function wrap(root: pino.Logger, component: string, masked: () => number): Log {
  const logger = root.child({ component });
  return {
    debug: (message, fields = {}) => logger.debug(withErrors(fields, false), message),
    info: (message, fields = {}) => logger.info(withErrors(fields, false), message),
    warn: (message, fields = {}) => logger.warn(withErrors(fields, false), message),
    error: (message, fields = {}) => logger.error(withErrors(fields, true), message),
    child: (part) => wrap(root, part, masked),
    masked,
  };
}

/** Errors among the values become what an operator reads; a stack only where someone must look now. */
function withErrors(fields: Fields, stacks: boolean): Fields {
  if (!Object.values(fields).some((value) => value instanceof Error)) return fields;
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, told(value, stacks)]));
}

/** Message, code and causes of an error; anything else as it is. */
function told(value: unknown, stacks: boolean): unknown {
  if (!(value instanceof Error)) return value;
  return {
    message: value.message,
    ...('code' in value ? { code: value.code } : {}),
    ...(stacks ? { stack: value.stack } : {}),
    ...(value.cause === undefined ? {} : { cause: told(value.cause, stacks) }),
  };
}

/** Controls that JSON leaves as they are: DEL, those above ASCII (one of them begins sequences of terminals), line separators. */
const UNESCAPED = /[\u007f-\u009f\u2028\u2029]/g;

/** The line with every control character but the line break at its end spelled out. */
function escaped(line: string): string {
  return line.replace(UNESCAPED, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const COLOURS: Readonly<Record<string, string>> = { debug: '\u001b[2m', warn: '\u001b[33m', error: '\u001b[31m' };

/** `10:15:02 warn  server: The bus fell back to polling.  since_ms=3000` */
function readable(line: string): string {
  // pino wrote the line, so it is one JSON object with these members.
  const { time, level, msg, component, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const rest = Object.entries(fields)
    .map(([name, value]) => `${name}=${printable(typeof value === 'string' ? value : JSON.stringify(value))}`)
    .join(' ');
  const word = String(level);
  const colour = COLOURS[word] ?? '';
  const text = `${String(time).slice(11, 19)} ${word.padEnd(5)} ${component}: ${printable(String(msg))}${rest === '' ? '' : `  ${rest}`}`;
  return `${colour}${text}${colour === '' ? '' : '\u001b[0m'}\n`;
}

/** The text with its control characters spelled out, so that a value cannot draw on the reader's terminal. */
export function printable(value: string): string {
  return value.replace(/\p{Cc}/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
