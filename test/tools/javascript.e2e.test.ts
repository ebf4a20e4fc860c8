import { afterAll, describe, expect, it } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { ToolCall } from '../../src/tools/tool.ts';
import { failed, openTools, succeeded } from './harness.ts';

const tools = openTools({ environment: { ...process.env, SECRET_OF_WORKER: 'x' } });
afterAll(() => tools[Symbol.asyncDispose]());

const run = (code: string, input: JsonMap = {}, more: Partial<ToolCall> = {}) =>
  tools.run('javascript', { code }, { input, ...more });

describe('the value of javascript code', () => {
  it.each<[string, JsonMap, Json]>([
    ['return n + 1', { n: 1 }, 2],
    ['const { a } = await Promise.resolve({ a: n }); return { a }', { n: 1 }, { a: 1 }],
    ['const n = args.n * 2; return n', { n: 2 }, 4],
    ['result = n', { n: 3 }, 3],
    ['const result = { n }; // the end', { n: 3 }, { n: 3 }],
    ['let result; result = 1', {}, 1],
    ['function main(inputs) { return inputs.n * 2 }', { n: 4 }, 8],
    ['const main = async ({ n }) => n', { n: 4 }, 4],
    ['result = 1; function main() { return 2 }', {}, 1],
    ['function main({ result }) { return result + 1 }', { result: 1 }, 2],
    ['return null', {}, null],
    [
      'return { u: undefined, b: 10n, n: NaN, s: new Set([1]), m: new Map([["a", 1]]), d: new Date(0), f() {} }',
      {},
      { b: '10', n: null, s: [1], m: { a: 1 }, d: '1970-01-01T00:00:00.000Z' },
    ],
    [
      'return [2 ** 53, -(2 ** 60), 2 ** 53 - 1, 1e21, 0.5, { id: 12345678901234567890 }]',
      {},
      ['9007199254740992', '-1152921504606846976', 2 ** 53 - 1, 1e21, 0.5, { id: '12345678901234567168' }],
    ],
    ['return [args["a b"], input_data.class, typeof a_b]', { 'a b': 1, class: 2 }, [1, 2, 'undefined']],
    ['return [args, input_data]', { args: 1, input_data: 2 }, [1, 2]],
    ['return [Object, name]', { Object: 1, name: 2 }, [1, 2]],
    ['return Object.keys(args)', JSON.parse('{"__proto__": 1, "a": 2}'), ['__proto__', 'a']],
    ['return this === undefined || this === globalThis', {}, true],
  ])('of %j with %j is %j', async (code, input, expected) =>
    expect(succeeded(await run(code, input)).data).toEqual(expected),
  );

  it('is its output when it has none', async () => {
    const outcome = succeeded(await run('console.log("out"); console.error("err")'));
    expect(outcome.data).toEqual({ status: 'success', stdout: 'out\n', stderr: 'err\n' });
    expect(outcome.log).toEqual({ stdout: 'out\n', stderr: 'err\n' });
  });

  it('may have ten megabytes', async () =>
    expect(String(succeeded(await run('return "x".repeat(10_000_000)')).data)).toHaveLength(10_000_000));

  it('may use its libs, the context and base64 source', async () => {
    const outcome = await tools.run(
      'javascript',
      {
        code_b64: btoa('return [path.join("a", "b"), util.format("%d", 1), context.variables.v]'),
        libs: { path: 'node:path', util: 'util' },
      },
      { context: async () => ({ ctx: { v: 3 } }) },
    );
    expect(succeeded(outcome).data).toEqual(['a/b', '1', 3]);
  });
});

describe('a javascript failure', () => {
  it.each([
    ['null.x', 'schema', 'JS_TypeError', 'TypeError: Cannot read'],
    ['missing', 'schema', 'JS_ReferenceError', 'missing'],
    ['new Array(-1)', 'schema', 'JS_RangeError', 'Invalid array length'],
    ['JSON.parse("{")', 'parse', 'JS_SyntaxError', 'SyntaxError'],
    ['return (', 'parse', 'JS_SyntaxError', 'SyntaxError'],
    ['}); process.exit(0); (() => {', 'parse', 'JS_SyntaxError', ''],
    ['throw new Error("it timed out")', 'timeout', 'JS_Error', 'timed out'],
    ['throw "text"', 'unknown', 'JS_Error', 'text'],
    ['class MyError extends Error { name = "MyError" } throw new MyError("m")', 'unknown', 'JS_MyError', 'MyError: m'],
    ['throw { get message() { throw 1 }, toJSON() { throw 2 } }', 'unknown', 'JS_Error', 'cannot be printed'],
    ['await new Promise(() => {})', 'unknown', 'JS_Unsettled', 'never settles'],
    [
      'setTimeout(() => { throw new TypeError("late") }); await new Promise(() => setTimeout(() => {}, 1000))',
      'schema',
      'JS_TypeError',
      'late',
    ],
    [
      'Promise.reject(new Error("loose")); await new Promise((done) => setTimeout(done, 1000))',
      'unknown',
      'JS_Error',
      'loose',
    ],
    ['const a = {}; a.a = a; return a', 'schema', 'JS_TypeError', 'circular'],
    ['let a = 1; for (let i = 0; i < 70; i++) a = [a]; return a', 'schema', 'RESULT_NOT_STORABLE', 'deeper'],
    ['return "\\ud800"', 'schema', 'RESULT_NOT_STORABLE', 'surrogate'],
    ['return "\\0"', 'schema', 'RESULT_NOT_STORABLE', 'NUL'],
    ['return JSON.parse(\'{"__proto__": 1}\')', 'schema', 'RESULT_NOT_STORABLE', '__proto__'],
    ['process.exit(0)', 'unknown', 'JS_EXIT', 'exit code 0'],
    ['process.abort()', 'unknown', 'JS_EXIT', 'killed by SIGABRT'],
    ['const a = []; for (;;) a.push(new Array(1e5).fill(1.5))', 'unknown', 'JS_MEMORY', '64 MB'],
    ['(await import("node:fs")).writeSync(3, "garbage"); process.exit(0)', 'unknown', 'JS_EXIT', 'not a result'],
  ])('of %j is %s %s', async (code, kind, errorCode, message) => {
    const { error } = failed(await run(code));
    expect(error).toMatchObject({ kind, code: errorCode, retryable: kind === 'timeout' });
    expect(error.message).toContain(message);
  });

  it('shows where it happened, without the runner', async () => {
    const { js } = failed(await run('\n\nfunction f() { null.x }\nf()'));
    expect(js?.['exception']).toBe('TypeError');
    expect(js?.['traceback']).toMatch(/f \(<task>:3:\d+\).*<task>:4:/s);
    expect(js?.['traceback']).not.toContain('runner.mjs');
  });

  it.each([
    [{}, /'code' is missing/],
    [{ code: '1', libs: { a: 'undici' } }, /may not be imported.*SVC_JS_ALLOWED_MODULES/],
    [{ code: '1', libs: { a: './x.mjs' } }, /may not be imported/],
    [{ code: '1', libs: { 'a b': 'node:fs' } }, /libs 'a b'/],
  ])('of an unusable configuration is kind config (%#)', async (fields, sentence) => {
    const { error } = failed(await tools.run('javascript', fields));
    expect(error.kind).toBe('config');
    expect(error.message).toMatch(sentence);
  });

  it('comes at the timeout, even from a loop that never yields', async () => {
    const outcome = failed(await run('console.log("before"); for (;;);', {}, { timeoutMs: 500 }));
    expect(outcome.error).toMatchObject({ kind: 'timeout', code: 'JS_TIMEOUT', retryable: true });
    expect(outcome.log?.stdout).toBe('before\n');
  });

  it('comes when the try is cancelled', async () => {
    const controller = new AbortController();
    const running = run('for (;;);', {}, { signal: controller.signal });
    setImmediate(() => controller.abort());
    expect(failed(await running).error.code).toBe('CANCELLED');
  });
});

describe('javascript code', () => {
  it.each([
    ['(await import("node:fs")).readFileSync("/etc/passwd")', 'restricted'],
    [`(await import("node:fs")).readFileSync("/proc/${process.pid}/environ")`, 'restricted'],
    ['(await import("node:fs")).writeFileSync("/tmp/escaped", "x")', 'restricted'],
    ['(await import("node:child_process")).execSync("id")', 'restricted'],
    ['new (await import("node:worker_threads")).Worker("1", { eval: true })', 'restricted'],
    ['process.kill(process.ppid, 0)', 'not a function'],
    ['await import("undici")', ''],
    ['require("node:fs")', 'not defined'],
    ['process.dlopen({}, "x")', ''],
    ['process.binding("spawn_sync")', ''],
  ])('cannot do %s', async (code, message) => expect(failed(await run(code)).error.message).toContain(message));

  it('sees four variables of the worker, env and its credential', async () => {
    const auth = { name: 'c', type: 'bearer', data: { token: 'tok' } };
    const env = succeeded(
      await tools.run('javascript', { code: 'return process.env', env: { MINE: 1 } }, { auth }),
    ).data;
    expect(env).toMatchObject({ MINE: '1', AUTH_TOKEN: 'tok' });
    const allowed = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'MINE', 'AUTH_TOKEN'];
    expect(Object.keys(env as JsonMap).filter((name) => !allowed.includes(name))).toEqual([]);
  });

  it('shares nothing with the next run', async () => {
    succeeded(await run('globalThis.mark = 1; Array.prototype.mark = 1; process.env.MARK = "1"'));
    expect(succeeded(await run('return [typeof mark, typeof [].mark, typeof process.env.MARK]')).data).toEqual(
      Array(3).fill('undefined'),
    );
  });

  it('may import an allowed package, and only that', async () => {
    await using own = openTools({ jsAllowedModules: ['ms-of-nobody', 'js-yaml'] });
    const libs = { yaml: 'js-yaml' };
    const outcome = await own.run('javascript', { code: 'return yaml.load("a: [1]")', libs });
    expect(succeeded(outcome).data).toEqual({ a: [1] });
  });

  it('goes side by side with seven others', async () => {
    const runs = Array.from({ length: 8 }, (_, n) => run('return [n, process.pid]', { n }));
    const values = (await Promise.all(runs)).map((outcome) => succeeded(outcome).data) as [number, number][];
    expect(values.map(([n]) => n)).toEqual([...Array(8).keys()]);
    expect(new Set(values.map(([, pid]) => pid)).size).toBe(8);
  });
});
