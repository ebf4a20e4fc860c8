/**
 * Kind `shell` (language 11.5): commands run in order as `<shell> -c`, stopping at the first non-zero exit. Nothing a
 * command started is left behind.
 */
import { stat } from 'node:fs/promises';
import { constants } from 'node:os';
import type { JsonMap } from '../../machines/json.ts';
import { type ChildEnd, childEnvironment, runChild } from './child.ts';
import { authEnvironment } from './credentials.ts';
import { spellSeconds, startDeadline } from './deadline.ts';
import { failure } from './errors.ts';
import { environmentOf, FieldProblem, fieldOf, scalarText, textOf } from './fields.ts';
import { cleanText } from './sanitize.ts';
import type { Tool } from './tool.ts';

/** Bytes kept of each output stream. */
export const maxShellOutputBytes = 1024 * 1024;

export interface ShellOptions {
  readonly timeoutMs: number;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** A shell tool. */
export function createShell(options: ShellOptions): Tool {
  return {
    kind: 'shell',
    async run({ fields, auth, timeoutMs, signal }) {
      const commands = readCommands(fields);
      const shell = textOf(fields, 'shell') || 'sh';
      const cwd = await checkedDirectory(fields);
      const env = childEnvironment(options.environment, authEnvironment(auth), environmentOf(fields));
      const limitMs = timeoutMs ?? options.timeoutMs;
      using deadline = startDeadline(limitMs, signal);
      const startedAt = performance.now();
      const done: JsonMap[] = [];
      const stdout = cappedText(maxShellOutputBytes);
      const stderr = cappedText(maxShellOutputBytes);
      const finish = (code: number): JsonMap => ({
        exit_code: code,
        returncode: code,
        stdout: stdout.text(),
        stderr: stderr.text(),
        commands: done,
        duration_ms: Math.round(performance.now() - startedAt),
      });
      for (const command of commands) {
        const began = performance.now();
        const end = await start(shell, command, { env, cwd, signal: deadline.signal });
        stdout.add(end.stdout);
        stderr.add(end.stderr);
        const returncode = exitCode(end);
        done.push({
          cmd_preview: preview(command),
          returncode,
          stdout: end.stdout,
          stderr: end.stderr,
          duration_ms: Math.round(performance.now() - began),
        });
        const why = deadline.why();
        if (why === 'timeout')
          return failure('timeout', 'TOOL_TIMEOUT', `the command timed out after ${spellSeconds(limitMs)}`, {
            data: finish(returncode),
          });
        if (why === 'cancelled')
          return failure('unknown', 'CANCELLED', 'the command was stopped', { data: finish(returncode) });
        if (returncode !== 0)
          return failure('tool_error', `EXIT_${returncode}`, describeExit(command, returncode, end.stderr), {
            data: finish(returncode),
          });
      }
      return { ok: true, data: finish(0) };
    },
  };
}

function readCommands(fields: JsonMap): string[] {
  const value = fieldOf(fields, 'command', 'cmd', 'cmds');
  const items = Array.isArray(value) ? value : value === undefined ? [] : [value];
  const commands = items.map((item) => {
    if (typeof item === 'object' && item !== null) throw new FieldProblem(`field 'cmds' must be a list of texts`);
    return scalarText(item);
  });
  const written = commands.filter((command) => command.trim() !== '');
  if (written.length === 0) throw new FieldProblem(`field 'command' is missing or empty`);
  if (written.some((command) => command.includes('\0'))) throw new FieldProblem('a command has a NUL character');
  return written;
}

/** The `cwd` of a task, which must be a directory. */
export async function checkedDirectory(fields: JsonMap): Promise<string | undefined> {
  const cwd = textOf(fields, 'cwd');
  if (cwd === undefined || cwd === '') return undefined;
  const found = cwd.includes('\0') ? null : await stat(cwd).catch(() => null);
  if (found === null || !found.isDirectory())
    throw new FieldProblem(`the directory '${cleanText(cwd)}' does not exist`);
  return cwd;
}

async function start(
  shell: string,
  command: string,
  rest: { env: Record<string, string>; cwd: string | undefined; signal: AbortSignal },
): Promise<ChildEnd> {
  try {
    // Behind `-c` shells still look for options; a blank in front makes of `--version` what it is, a command.
    const args = ['-c', /^[-+]/.test(command) ? ` ${command}` : command];
    return await runChild({ command: shell, args, maxOutputBytes: maxShellOutputBytes, ...rest });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    if (code === 'E2BIG') throw new FieldProblem('the command is too long for the operating system');
    throw new FieldProblem(`the shell '${cleanText(shell)}' cannot be started (${code})`);
  }
}

/** As a shell would say it: the code, or 128 plus the number of the signal. */
function exitCode({ code, signal }: ChildEnd): number {
  return code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
}

/** The end of stderr says most about why a command failed. */
function describeExit(command: string, code: number, stderr: string): string {
  const said = stderr.trim().slice(-500);
  return `exit code ${code} from: ${preview(command)}${said === '' ? '' : `: ${said}`}`;
}

function preview(command: string): string {
  const line = command.trim().replace(/\s+/g, ' ');
  return line.length > 100 ? `${line.slice(0, 99)}…`.toWellFormed() : line;
}

/** Text of several commands, cut at a number of bytes. */
function cappedText(maxBytes: number): { add(text: string): void; text(): string } {
  let kept = '';
  let left = maxBytes;
  return {
    add(text) {
      const bytes = Buffer.from(text);
      kept += bytes.length <= left ? text : bytes.subarray(0, left).toString('utf8');
      left = Math.max(0, left - bytes.length);
    },
    text: () => kept,
  };
}
