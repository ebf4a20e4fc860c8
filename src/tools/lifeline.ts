/**
 * Ties a child process to the life of the worker. A worker that is killed cannot kill its children, and a loop in one
 * of them would run for ever, so a small shell waits beside each child on a pipe that only the worker holds open: when
 * the pipe ends, it kills the process group. The child itself takes the place of the starting shell, so its pid, exit
 * code and signal are its own.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

export interface BoundCommand {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * The command with a watcher on descriptor `lifeline`, which must be a pipe of the worker; `closed` are descriptors
 * the watcher must not hold. Throws an error with code ENOENT when the command is not an executable file.
 */
export function bindToWorker(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  lifeline: number,
  closed: readonly number[],
): BoundCommand {
  // Without a shell and process groups there is nothing to tie.
  if (process.platform === 'win32') return { command, args };
  const path = executable(command, env['PATH']);
  const dropped = closed.map((descriptor) => `${descriptor}<&-`).join(' ');
  const watcher = `(exec ${dropped}; read -r line <&${lifeline}; kill -9 0) </dev/null >/dev/null 2>&1 &`;
  const script = `${watcher} exec ${lifeline}<&-; exec "$@"`;
  return { command: '/bin/sh', args: ['-c', script, 'sh', path, ...args] };
}

/** The first executable file of that name in the search path; a name with a slash is a path already. */
function executable(command: string, searchPath: string | undefined): string {
  const candidates = command.includes('/')
    ? [command]
    : (searchPath ?? '/usr/local/bin:/usr/bin:/bin').split(delimiter).map((folder) => join(folder, command));
  for (const path of candidates) {
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      // the next folder may have it
    }
  }
  throw Object.assign(new Error('the command is not an executable file'), { code: 'ENOENT' });
}
