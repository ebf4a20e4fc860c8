/**
 * Runs the code of one javascript task (language 11.4) in this process, which has no other purpose: it boots, waits
 * for one request on descriptor 3, answers there and exits. It is started with node's permission model, so code finds
 * no files, no child processes and nothing of the worker's environment. Plain JavaScript: it is read under that model.
 */
import { readSync, writeSync } from 'node:fs';
import { isBuiltin } from 'node:module';

const channel = 3;
const tracebackMax = 16 * 1024;
const answerMax = 64 * 1024 * 1024;
// Lines that `new Function` and the frame put before the code.
const frameLines = 3;
const exit = process.exit.bind(process);
const { stringify, parse } = JSON;
const write = writeSync;

// The code may not signal the worker. Best effort: the boundary is the process.
process.kill = undefined;

const request = receive();
if (request === null) exit(0);
for (const name of Object.keys(process.env)) if (!(name in request.env)) delete process.env[name];
Object.assign(process.env, request.env);

let phase = 'compile';
let answered = false;
process.on('uncaughtException', (error) => answer({ error: describe(error) }));
process.on('unhandledRejection', (error) => answer({ error: describe(error) }));
process.on('beforeExit', () => {
  const message = 'the code waits for something that never settles';
  answer({ error: { classes: ['Error'], name: 'Unsettled', message, traceback: '', phase } });
});

try {
  const value = await run(request);
  phase = 'result';
  answer(value === undefined ? { none: true } : { value: plain(value) });
} catch (error) {
  answer({ error: describe(error) });
}

/** The returned value, else `result`, else the value of main(inputs); undefined when there is none of them. */
async function run({ code, input, context, libs }) {
  const names = [];
  const values = [];
  const bind = (name, value) => {
    if (names.includes(name)) return;
    names.push(name);
    values.push(value);
  };
  for (const key of Object.keys(input)) if (isBindable(key)) bind(key, input[key]);
  phase = 'libs';
  for (const [alias, module] of libs) bind(alias, await load(module));
  bind('args', input);
  bind('input_data', input);
  if (context !== null) bind('context', context);
  phase = 'compile';
  const AsyncFunction = (async () => {}).constructor;
  new AsyncFunction(code); // finds a syntax error in the code itself before it is put into a frame
  const none = Symbol('none');
  // The frame sees the code's own `result` and `main`, however they are declared.
  const frame = new Function(
    ...names,
    '__none__',
    `return (async function () {\n${code}\n;return [__none__, typeof result === 'undefined' ? undefined : result,` +
      ` typeof main === 'function' ? main : undefined];}).call(undefined)\n//# sourceURL=<task>`,
  );
  phase = 'run';
  const returned = await frame(...values, none);
  const ended = Array.isArray(returned) && returned[0] === none;
  if (!ended && returned !== undefined) return returned;
  const result = ended ? returned[1] : globalThis.result;
  const main = ended ? returned[2] : undefined;
  const untouched = 'result' in input && result === input.result;
  if (result !== undefined && !(untouched && main !== undefined)) return result;
  return main === undefined ? undefined : await main(input);
}

/** Whether a key can be the name of a parameter. */
function isBindable(key) {
  if (!/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(key) || key === '__none__') return false;
  try {
    new Function(key, `"use strict"; return async () => ${key}`);
    return key !== 'arguments' && key !== 'eval' && key !== 'await';
  } catch {
    return false;
  }
}

async function load(module) {
  const found = await import(isBuiltin(module) && !module.startsWith('node:') ? `node:${module}` : module);
  return found.default ?? found;
}

/** JSON, with what JSON cannot say in the spelling of language 11.4; a cycle throws TypeError. */
function plain(value) {
  const text = stringify(value, (_key, member) => {
    if (typeof member === 'bigint') return String(member);
    // Whole numbers that JSON would write with all their digits, but that no reader can be sure of (language 1.2).
    if (Number.isInteger(member) && !Number.isSafeInteger(member) && Math.abs(member) < 1e21)
      return `${BigInt(member)}`;
    if (member instanceof Set) return [...member];
    if (member instanceof Map) return Object.fromEntries(member);
    return member;
  });
  return text === undefined ? null : parse(text);
}

function describe(error) {
  try {
    if (!(error instanceof Error))
      return { classes: ['Error'], name: 'Error', message: spell(error), traceback: '', phase };
    const classes = [];
    for (
      let each = Object.getPrototypeOf(error);
      each !== null && classes.length < 20;
      each = Object.getPrototypeOf(each)
    )
      if (typeof each.constructor?.name === 'string') classes.push(each.constructor.name);
    const traceback = trace(String(error.stack ?? ''));
    return { classes, name: String(error.name), message: String(error.message).slice(0, 8192), traceback, phase };
  } catch {
    return { classes: ['Error'], name: 'Error', message: '(the error cannot be printed)', traceback: '', phase };
  }
}

/** A stack without the frames of this file and of node, its lines counted from the start of the code. */
function trace(stack) {
  const lines = stack.split('\n').filter((line) => !/runner\.mjs|\(?node:internal/.test(line));
  const counted = lines.join('\n').replace(/<task>:(\d+)/g, (_, line) => `<task>:${line - frameLines}`);
  return counted.slice(0, tracebackMax);
}

function spell(thrown) {
  if (typeof thrown === 'string') return thrown.slice(0, 8192);
  return String(stringify(thrown) ?? thrown).slice(0, 8192);
}

function answer(report) {
  if (answered) return;
  answered = true;
  let data = Buffer.from(stringify(report));
  if (data.length > answerMax) {
    const message = `the result has ${data.length} bytes, more than ${answerMax}`;
    data = Buffer.from(
      stringify({ error: { classes: ['ResultError'], name: 'ResultError', message, traceback: '', phase } }),
    );
  }
  for (let sent = 0; sent < data.length; ) sent += retrying(() => write(channel, data, sent));
  exit(0);
}

/** One request: 4 bytes length, big endian, then JSON; null when the worker has gone. */
function receive() {
  const head = read(4);
  const body = head === null ? null : read(head.readUInt32BE());
  return body === null ? null : parse(body.toString('utf8'));
}

function read(size) {
  const data = Buffer.alloc(size);
  for (let got = 0; got < size; ) {
    const count = retrying(() => readSync(channel, data, got, size - got, null));
    if (count === 0) return null;
    got += count;
  }
  return data;
}

/** A descriptor that is not blocking answers EAGAIN; waiting is what a blocking one would do. */
function retrying(act) {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  for (;;) {
    try {
      return act();
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(pause, 0, 0, 2);
    }
  }
}
