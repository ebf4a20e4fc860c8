import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { ToolCall } from '../../src/tools/tool.ts';
import { failed, openTools, succeeded } from './harness.ts';
import { startServer } from './http-server.ts';

const folder = await mkdtemp(join(tmpdir(), 'callboard-scripts-'));
const tools = openTools({ scriptDir: folder, environment: { ...process.env, SECRET_OF_WORKER: 'x' } });
beforeAll(async () => {
  await writeFile(join(folder, 'double.py'), 'result = n * 2');
  await writeFile(join(folder, 'constants.py'), 'VALUE = 42');
  await mkdir(join(folder, 'sub'));
  await symlink('/etc/passwd', join(folder, 'sub', 'link.py'));
});
afterAll(async () => {
  await tools[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const run = (code: string, input: JsonMap = {}, more: Partial<ToolCall> = {}) =>
  tools.run('python', { code }, { input, ...more });
const value = async (code: string, input: JsonMap = {}, more: Partial<ToolCall> = {}): Promise<Json> =>
  succeeded(await run(code, input, more)).data;

describe('the value of python code', () => {
  it.each<[string, JsonMap, Json]>([
    ['result = {"n": n + 1}', { n: 1 }, { n: 2 }],
    ['return n', { n: 1 }, 1],
    ['n = n + 1\nreturn n', { n: 1 }, 2],
    ['if n:\n  return "a"\nreturn "b"', { n: 0 }, 'b'],
    ['import math\ndef f():\n  return math.floor(n)\nreturn f()', { n: 1.5 }, 1],
    ['count = 0\ndef up():\n  nonlocal count\n  count += 1\nup()\nreturn count', {}, 1],
    ['total = 0\ndef add():\n  global total\n  total += n\nadd()\nreturn total', { n: 3 }, 3],
    ['return [x * n for x in range(3)]', { n: 2 }, [0, 2, 4]],
    ['result = 4\nreturn None', {}, 4],
    ['def main(a, b=2):\n  return a + b', { a: 1 }, 3],
    ['def main(a, b=2):\n  return a + b', { a: 1, b: 5, c: 9 }, 6],
    ['def main(**all):\n  return all', { a: 1, 'b c': 2 }, { a: 1, 'b c': 2 }],
    ['def main(a, /, *rest, b):\n  return [a, list(rest), b]', { a: 1, b: 2 }, [1, [], 2]],
    ['def main(input_data):\n  return input_data["x"]', { x: 1 }, 1],
    ['import asyncio\nasync def main(a):\n  await asyncio.sleep(0)\n  return a', { a: 7 }, 7],
    ['result = 5\ndef main():\n  return 6', {}, 5],
    ['def main(result):\n  return result + 1', { result: 1 }, 2],
    [
      'result = [type(i).__name__, type(f).__name__, type(s).__name__]',
      { i: 1, f: 1.5, s: '1' },
      ['int', 'float', 'str'],
    ],
    ['result = [args["a b"], input_data["a b"]]', { 'a b': 1 }, [1, 1]],
    ['result = [args, input_data]', { args: 1, input_data: 2 }, [1, 2]],
    [
      'result = [json.dumps(1), os.sep, sys.argv[0] != "", datetime.date(2024, 1, 2), uuid.UUID(int=0)]',
      {},
      ['1', '/', true, '2024-01-02', '00000000-0000-0000-0000-000000000000'],
    ],
    ['result = {"status": "error", "why": 1}', {}, { status: 'error', why: 1 }],
    ['if __name__ == "__main__":\n  result = 1', {}, 1],
  ])('of %j with %j is %j', async (code, input, expected) => expect(await value(code, input)).toEqual(expected));

  it('is its output when it has none', async () => {
    const outcome = succeeded(
      await run('import sys\nprint("out")\nprint("err", file=sys.stderr)\nos.system("echo child")'),
    );
    expect(outcome.data).toMatchObject({ status: 'success', stderr: 'err\n' });
    expect(outcome.log?.stdout.split('\n').sort()).toEqual(['', 'child', 'out']);
  });

  it('is made JSON', async () => {
    const code = `
class Thing:
    def __str__(self): return "a thing"
class Number(int): pass
result = {"t": (1, 2), "s": {3}, "nan": float("nan"), "inf": [float("-inf")], "o": Thing(), "b": b"x", "big": 2**64,
          "neg": -2**53, "exact": 2**53 - 1, 7: "int", None: 1, True: 2, 2.5: 3, (1,): 4, "sub": Number(5),
          "u": "\\u00e9\\U0001f600"}`;
    expect(await value(code)).toEqual({
      t: [1, 2],
      s: [3],
      nan: null,
      inf: [null],
      o: 'a thing',
      b: "b'x'",
      big: '18446744073709551616',
      neg: '-9007199254740992',
      exact: 9007199254740991,
      7: 'int',
      null: 1,
      true: 2,
      '2.5': 3,
      '(1,)': 4,
      sub: 5,
      u: 'é😀',
    });
  });

  it('may be a whole number of any length', async () =>
    expect(await value('result = 10**5000')).toBe(`1${'0'.repeat(5000)}`));

  it('may have ten megabytes', async () =>
    expect(String(await value('result = "x" * 10_000_000'))).toHaveLength(10_000_000));

  it('has the context when it asks for it, and only then', async () => {
    let asked = 0;
    const context = async () => {
      asked += 1;
      return { ctx: { a: 1 }, workload: { b: 2 } };
    };
    await value('result = 1', {}, { context });
    expect(asked).toBe(0);
    expect(await value('result = context', { x: 9 }, { context })).toEqual({
      ctx: { a: 1 },
      workload: { b: 2 },
      variables: { a: 1 },
      args: { x: 9 },
      execution_id: '7',
      step: 'a_step',
      server_url: 'http://server.test',
    });
  });
});

describe('a python failure', () => {
  it.each([
    ['raise ValueError("three-is-refused")', 'schema', 'PY_ValueError', 'ValueError: three-is-refused'],
    ['raise RuntimeError("boom")', 'unknown', 'PY_RuntimeError', 'RuntimeError: boom'],
    ['assert False, "no"', 'unknown', 'PY_AssertionError', 'AssertionError: no'],
    ['{}["a"]', 'schema', 'PY_KeyError', "KeyError: 'a'"],
    ['json.loads("{")', 'parse', 'PY_JSONDecodeError', 'JSONDecodeError: Expecting'],
    ['raise OSError("the read timed out")', 'timeout', 'PY_OSError', 'timed out'],
    ['raise TimeoutError()', 'timeout', 'PY_TimeoutError', 'TimeoutError'],
    ['import no_such_module', 'unknown', 'PY_ModuleNotFoundError', 'no_such_module'],
    ['def (', 'parse', 'PY_SyntaxError', 'invalid syntax'],
    ['  x = 1\n y = 2', 'parse', 'PY_IndentationError', 'indent'],
    ['x = "a\0b"', 'parse', 'PY_SyntaxError', 'null'],
    [`x = ${'('.repeat(5000)}`, 'parse', 'PY_SyntaxError', ''],
    ['sys.exit(3)', 'unknown', 'PY_SystemExit', 'sys.exit(3)'],
    [
      'class Odd(Exception):\n  def __str__(self): raise KeyError()\nraise Odd()',
      'unknown',
      'PY_Odd',
      'cannot be printed',
    ],
    ['def f(): f()\nf()', 'unknown', 'PY_RecursionError', 'recursion'],
    ['def main(a): pass', 'schema', 'PY_TypeError', "'a'"],
    ['x = []\nx.append(x)\nresult = x', 'schema', 'PY_RESULT', 'deeper than 64'],
    [
      'class Bad:\n  def __str__(self): raise ValueError("bad str")\nresult = Bad()',
      'schema',
      'PY_ValueError',
      'bad str',
    ],
    ['result = "\\ud800"', 'schema', 'RESULT_NOT_STORABLE', 'surrogate'],
    ['result = {"a": ["\\0"]}', 'schema', 'RESULT_NOT_STORABLE', 'NUL character at .a[0]'],
    ['result = {"__proto__": 1}', 'schema', 'RESULT_NOT_STORABLE', '__proto__'],
    ['os._exit(3)', 'unknown', 'PY_EXIT', 'exit code 3'],
    ['os._exit(0)', 'unknown', 'PY_EXIT', 'exit code 0'],
    ['os.kill(os.getpid(), 9)', 'unknown', 'PY_EXIT', 'killed by signal 9'],
    ['os.killpg(0, 9)', 'unknown', 'PY_EXIT', 'killed by signal 9'],
    [
      'for fd in range(3, 30):\n  try: os.write(fd, b"garbage")\n  except OSError: pass\nos._exit(0)',
      'unknown',
      'PY_EXIT',
      'not a result',
    ],
    ['os.closerange(3, 30)\nresult = 1', 'unknown', 'PY_EXIT', ''],
  ])('of %j is %s %s', async (code, kind, errorCode, message) => {
    const { error } = failed(await run(code));
    expect(error).toMatchObject({ kind, code: errorCode, retryable: kind === 'timeout' });
    expect(error.message).toContain(message);
  });

  it('shows where it happened, without the runner', async () => {
    const { py, log } = failed(await run('print("before")\ndef f():\n  raise ValueError("x")\nf()'));
    expect(py?.['exception']).toBe('ValueError');
    expect(py?.['traceback']).toMatch(/line 4, in <module>.*line 3, in f.*raise ValueError\("x"\)/s);
    expect(py?.['traceback']).not.toContain('runner.py');
    expect(log).toEqual({ stdout: 'before\n', stderr: '' });
  });

  it.each([
    [{}, /'code' is missing/],
    [{ code: 'result = 1', cwd: '/no/such/folder' }, /does not exist/],
    [{ code: 'result = 1', libs: { a: 1 } }, /libs 'a'/],
    [{ code: 'result = 1', python: 'no-such-python' }, /install Python 3.*SVC_PYTHON_BIN/],
    [{ code_b64: '***' }, /base64/],
    [{ script: { uri: '../x.py', source: { type: 'file' } } }, /not a file below/],
    [{ script: { uri: '/etc/passwd', source: { type: 'file' } } }, /not a file below/],
    [{ script: { uri: 'sub/link.py', source: { type: 'file' } } }, /not a file below/],
    [{ script: { uri: 'sub', source: { type: 'file' } } }, /not a file below/],
    [{ script: { uri: 'x', source: { type: 'gcs' } } }, /'gcs' is not supported/],
  ])('of an unusable configuration is kind config (%#)', async (fields, sentence) => {
    const { error } = failed(await tools.run('python', fields));
    expect(error).toMatchObject({ kind: 'config', retryable: false });
    expect(error.message).toMatch(sentence);
  });

  it('of a missing default interpreter says how to get one', async () => {
    await using none = openTools({ pythonBin: 'no-such-python' });
    const { error } = failed(await none.run('python', { code: 'result = 1' }));
    expect(error.kind).toBe('config');
    expect(error.message).toMatch(/'no-such-python' cannot be started \(ENOENT\): install Python 3.*SVC_PYTHON_BIN/);
  });
});

describe('a python run', () => {
  it('is killed with everything it started when it times out, and keeps its output', async () => {
    const code =
      'import subprocess, time\np = subprocess.Popen(["sleep", "300"])\nprint(p.pid, flush=True)\ntime.sleep(300)';
    const outcome = failed(await run(code, {}, { timeoutMs: 500 }));
    expect(outcome.error).toMatchObject({ kind: 'timeout', code: 'PY_TIMEOUT', retryable: true });
    await expect.poll(() => isGone(Number(outcome.log?.stdout))).toBe(true);
  });

  it('leaves nothing behind when it ends', async () => {
    const pid = await value('import subprocess\nresult = subprocess.Popen(["sleep", "300"]).pid');
    await expect.poll(() => isGone(Number(pid))).toBe(true);
  });

  it('stops when the try is cancelled', async () => {
    const controller = new AbortController();
    const running = run('import time\ntime.sleep(300)', {}, { signal: controller.signal });
    setImmediate(() => controller.abort());
    expect(failed(await running).error.code).toBe('CANCELLED');
  });

  it('shares nothing with the next', async () => {
    const code =
      'seen = getattr(os, "mark", None)\nos.mark = 1\nos.environ["MARK"] = "1"\nos.chdir("/")\njson.loads = None\nresult = seen';
    expect(await value(`${code}\nresult = [seen]`)).toEqual([null]);
    expect(
      await value('result = [getattr(os, "mark", None), os.environ.get("MARK"), json.loads("1"), os.getcwd() == "/"]'),
    ).toEqual([null, null, 1, false]);
  });

  it('draws its own random numbers', async () => {
    const drawn = await Promise.all(
      [1, 2, 3, 4].map(() => value('import random\nresult = [random.random(), str(uuid.uuid4())]')),
    );
    expect(new Set(drawn.map((each) => JSON.stringify(each))).size).toBe(4);
  });

  it('goes side by side with nineteen others', async () => {
    const runs = Array.from({ length: 20 }, (_, n) =>
      value('import time\ntime.sleep(0.2)\nresult = [n, os.getpid()]', { n }),
    );
    const values = (await Promise.all(runs)) as [number, number][];
    expect(values.map(([n]) => n)).toEqual([...Array(20).keys()]);
    expect(new Set(values.map(([, pid]) => pid)).size).toBe(20);
  });

  it('sees four variables of the worker, env and its credential', async () => {
    const auth = { name: 'c', type: 'bearer', data: { token: 'tok' } };
    const env = succeeded(await tools.run('python', { code: 'return dict(os.environ)', env: { MINE: 1 } }, { auth }))
      .data as JsonMap;
    expect(env).toMatchObject({ MINE: '1', AUTH_TOKEN: 'tok' });
    const allowed = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'MINE', 'AUTH_TOKEN', 'LC_CTYPE'];
    expect(Object.keys(env).filter((name) => !allowed.includes(name))).toEqual([]);
  });

  it('with a variable of the interpreter gets a fresh one', async () => {
    const env = { PYTHONHASHSEED: '0' };
    const outcome = await tools.run('python', { code: 'print("x")\nresult = sys.flags.hash_randomization', env });
    expect(succeeded(outcome)).toMatchObject({ data: 0, log: { stdout: 'x\n' } });
    const late = await tools.run('python', { code: 'while True: pass', env }, { timeoutMs: 500 });
    expect(failed(late).error.code).toBe('PY_TIMEOUT');
    const broken = await tools.run('python', { code: 'os._exit(4)', env });
    expect(failed(broken).error).toMatchObject({ code: 'PY_EXIT' });
  });

  it('imports its libs', async () => {
    const libs = { m: 'math', join: { from: 'os.path', import: 'join' }, parse: { from: 'urllib', import: 'parse' } };
    const code = 'result = [m.floor(1.5), join("a", "b"), parse.quote(" ")]';
    expect(succeeded(await tools.run('python', { code, libs })).data).toEqual([1, 'a/b', '%20']);
    const missing = failed(await tools.run('python', { code: 'result = 1', libs: { x: 'no_such' } }));
    expect(missing.error.code).toBe('PY_ModuleNotFoundError');
  });

  it('imports modules of its directory, and of no other', async () => {
    const fields = { code: 'import constants\nresult = constants.VALUE' };
    expect(succeeded(await tools.run('python', { ...fields, cwd: folder })).data).toBe(42);
    expect(failed(await tools.run('python', fields)).error.code).toBe('PY_ModuleNotFoundError');
  });

  it('has each stream cut at 64 KiB and survives binary output', async () => {
    const { log } = succeeded(
      await run('os.write(1, b"\\xff\\0" * 200000)\nprint("\\ud800", file=sys.stderr)\nresult = 1'),
    );
    expect(log?.stdout.length).toBe(65_536);
    expect(log?.stdout).not.toContain('\0');
    expect(log?.stderr).toBe('\\ud800\n');
  });

  it('takes its source from base64, a file below the script folder, inline text or a server', async () => {
    await using server = await startServer((_, response) => response.end('result = n * 3'));
    const inputs = { input: { n: 2 } };
    const data = async (fields: JsonMap) => succeeded(await tools.run('python', fields, inputs)).data;
    expect(await data({ code_b64: btoa('result = n') })).toBe(2);
    expect(await data({ script: { uri: 'double.py', source: { type: 'file' } } })).toBe(4);
    expect(await data({ script: { source: { type: 'inline', code: 'result = n * 5' } } })).toBe(10);
    expect(await data({ script: { uri: 'a.py', source: { type: 'http', endpoint: server.url } } })).toBe(6);
    expect(server.seen[0]?.path).toBe('/a.py');
  });

  it('warns that deps are ignored', async () => {
    expect((await tools.run('python', { code: 'result = 1', deps: ['x'] })).warnings).toEqual([
      "field 'deps' is ignored",
    ]);
  });

  it('gets a new interpreter after the warm one was killed', async () => {
    await using own = openTools();
    const parent = await own.run('python', { code: 'result = os.getppid()' });
    const monitor = Number(succeeded(parent).data);
    const killed = await own.run('python', {
      code: 'import subprocess\nz = int(open("/proc/%d/stat" % os.getppid()).read().split(")")[1].split()[1])\nos.kill(z, 9)\nresult = z',
    });
    expect(Number(succeeded(killed).data)).not.toBe(monitor);
    let code = 'PY_LOST';
    // The loss is noticed when the process's end is reported, so the next tries may still meet the dead one.
    for (let tries = 0; tries < 50 && code === 'PY_LOST'; tries += 1) {
      const outcome = await own.run('python', { code: 'result = 1' });
      code = outcome.ok ? 'ok' : outcome.error.code;
    }
    expect(code).toBe('ok');
  });
});

/** True when the process does not exist or only waits to be reaped. */
function isGone(pid: number): boolean {
  if (!(pid > 1)) return false;
  return !existsSync(`/proc/${pid}`) || /\) [ZX]/.test(readStat(pid));
}

function readStat(pid: number): string {
  try {
    return process.getBuiltinModule('node:fs').readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return ') X';
  }
}
