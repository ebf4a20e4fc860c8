import { tmpdir } from 'node:os';
import { afterAll, describe, expect, it } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { failed, openTools, succeeded } from './harness.ts';

const tools = openTools({ environment: { ...process.env, SECRET_OF_WORKER: 'x' } });
afterAll(() => tools[Symbol.asyncDispose]());

const data = async (fields: JsonMap) => succeeded(await tools.run('shell', fields)).data as JsonMap;

/** Whether a process exists; one that was killed but not yet reaped does not count. */
async function isRunning(pid: number): Promise<boolean> {
  const state = (await tools.run('shell', { command: `ps -o stat= -p ${pid}` })).data as JsonMap;
  return !/^(Z.*)?$/.test(String(state['stdout']).trim());
}

describe('a shell command', () => {
  it('answers with its output and exit code', async () => {
    expect(await data({ command: 'echo out; echo err >&2' })).toMatchObject({
      exit_code: 0,
      returncode: 0,
      stdout: 'out\n',
      stderr: 'err\n',
      commands: [{ cmd_preview: 'echo out; echo err >&2', returncode: 0, stdout: 'out\n', stderr: 'err\n' }],
    });
  });

  it('is one of several that stop at the first failure', async () => {
    const outcome = failed(
      await tools.run('shell', { cmds: ['echo one', 'echo two; echo why >&2; exit 7', 'echo three'] }),
    );
    expect(outcome.error).toMatchObject({ kind: 'tool_error', code: 'EXIT_7', retryable: false });
    expect(outcome.error.message).toContain('why');
    expect(outcome.data).toMatchObject({ exit_code: 7, returncode: 7, stdout: 'one\ntwo\n' });
    expect((outcome.data as JsonMap)['commands']).toHaveLength(2);
  });

  it('killed by a signal ends with 128 and its number', async () => {
    expect(failed(await tools.run('shell', { command: 'kill -TERM $$' })).error.code).toBe('EXIT_143');
  });

  it('sees four variables of the worker, env and its credential', async () => {
    const auth = { name: 'c', type: 'bearer', data: { token: 'tok', 'odd-name': 1, no: null } };
    const outcome = succeeded(await tools.run('shell', { command: 'env', env: { MINE: true, GONE: null } }, { auth }));
    const lines = String((outcome.data as JsonMap)['stdout'])
      .trim()
      .split('\n');
    const names = lines.map((line) => line.split('=')[0]);
    expect(lines).toEqual(expect.arrayContaining(['MINE=true', 'AUTH_TOKEN=tok', 'AUTH_ODD_NAME=1']));
    const allowed = [
      'PATH',
      'HOME',
      'LANG',
      'TMPDIR',
      'MINE',
      'AUTH_TOKEN',
      'AUTH_ODD_NAME',
      'PWD',
      'OLDPWD',
      'SHLVL',
      '_',
    ];
    expect(names.filter((name) => !allowed.includes(name ?? ''))).toEqual([]);
  });

  it('runs in its directory, in the shell it names', async () => {
    expect(await data({ command: 'pwd', cwd: '/' })).toMatchObject({ stdout: '/\n' });
    expect(await data({ command: '[[ a == a ]] && echo bash', shell: 'bash' })).toMatchObject({ stdout: 'bash\n' });
  });

  it('takes its grandchildren with it when it times out', async () => {
    const command = 'sh -c "sleep 300 & echo \\$!; wait" & wait';
    const outcome = failed(await tools.run('shell', { command }, { timeoutMs: 400 }));
    expect(outcome.error).toMatchObject({ kind: 'timeout', code: 'TOOL_TIMEOUT', retryable: true });
    const pid = Number((outcome.data as JsonMap)['stdout']);
    expect(pid).toBeGreaterThan(1);
    await expect.poll(() => isRunning(pid)).toBe(false);
  });

  it('takes background jobs with it when it ends', async () => {
    const pid = Number((await data({ command: 'sleep 300 & echo $!' }))['stdout']);
    await expect.poll(() => isRunning(pid)).toBe(false);
  });

  it('stops when the try is cancelled', async () => {
    const controller = new AbortController();
    const running = tools.run('shell', { command: 'sleep 300' }, { signal: controller.signal });
    controller.abort();
    expect(failed(await running).error.code).toBe('CANCELLED');
  });

  it('has each stream cut at 1 MiB', async () => {
    const { stdout } = await data({ command: 'head -c 10000000 /dev/zero | tr "\\0" x' });
    expect(String(stdout)).toHaveLength(1024 * 1024);
  });

  it('with output that cannot be stored fails with kind schema', async () => {
    expect(failed(await tools.run('shell', { command: 'printf "a\\0b"' })).error).toMatchObject({ kind: 'schema' });
  });

  it.each([
    [{}, /'command' is missing/],
    [{ command: '  ' }, /'command' is missing/],
    [{ command: 'a\0b' }, /NUL/],
    [{ command: 'true', cwd: `${tmpdir()}/no-such-folder` }, /does not exist/],
    [{ command: 'true', shell: 'no-such-shell' }, /cannot be started/],
    [{ command: 'true', env: { A: 'a\0' } }, /NUL/],
    [{ command: 'x'.repeat(3_000_000) }, /too long/],
  ])('with an unusable configuration is kind config (%#)', async (fields, sentence) => {
    const { error } = failed(await tools.run('shell', fields));
    expect(error.kind).toBe('config');
    expect(error.message).toMatch(sentence);
  });
});

describe('noop', () => {
  it('answers with its result, else with its message', async () => {
    expect(succeeded(await tools.run('noop', { result: [1], message: 'x' })).data).toEqual([1]);
    expect(succeeded(await tools.run('noop', { result: null })).data).toBeNull();
    expect(succeeded(await tools.run('noop', { message: 'hi' })).data).toEqual({ status: 'ok', message: 'hi' });
    expect(succeeded(await tools.run('noop', {})).data).toEqual({ status: 'ok', message: 'noop' });
  });
});
