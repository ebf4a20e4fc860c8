/**
 * The warm Python interpreter and the runs it forks. One process per worker, started by the first run and again when
 * it is lost; each run is a connection to its socket, so a run that the worker forgets dies with its connection.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { captureText, runChild } from '../child.ts';
import { interpreterMissing, type PythonAnswer, type PythonRequest, RunnerLost } from './protocol.ts';

const runner = fileURLToPath(new URL('./runner.py', import.meta.url));
const interpreterArgs = ['-X', 'utf8', '-B', runner];
const startLimitMs = 20_000;
const killLimitMs = 3_000;

export interface Zygote {
  /** Runs a request in a forked process. Rejects with FieldProblem or RunnerLost. */
  run(request: PythonRequest, signal: AbortSignal): Promise<PythonAnswer>;
  close(): Promise<void>;
}

interface Started {
  readonly child: ChildProcess;
  readonly folder: string;
  readonly path: string;
}

/** `environment` is the zygote's own: nothing of the worker's but what a run may see. */
export function createZygote(bin: string, environment: Readonly<Record<string, string>>): Zygote {
  let started: Promise<Started> | null = null;
  let closed = false;
  const sockets = new Set<Socket>();

  const ensure = (): Promise<Started> => {
    if (closed) return Promise.reject(new RunnerLost('the python tool is closed'));
    if (started !== null) return started;
    const current = start(bin, environment);
    started = current;
    const forget = () => {
      if (started === current) started = null;
    };
    current.then(({ child, folder }) => {
      child.once('exit', () => {
        forget();
        void rm(folder, { recursive: true, force: true });
      });
    }, forget);
    return current;
  };

  return {
    async run(request, signal) {
      const { path } = await ensure();
      const socket = connect(path);
      sockets.add(socket);
      try {
        return await exchange(socket, request, signal);
      } finally {
        sockets.delete(socket);
        socket.destroy();
      }
    },
    async close() {
      closed = true;
      for (const socket of sockets) socket.destroy();
      const last = started;
      started = null;
      const running = await last?.catch(() => null);
      if (!running) return;
      const { child, folder } = running;
      if (child.exitCode === null && child.signalCode === null) {
        const gone = new Promise((resolve) => child.once('exit', resolve));
        child.ref();
        child.kill('SIGKILL');
        await gone;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function start(bin: string, env: Readonly<Record<string, string>>): Promise<Started> {
  const folder = await mkdtemp(join(tmpdir(), 'callboard-py-'));
  const path = join(folder, 's');
  const child = spawn(bin, [...interpreterArgs, 'serve', path], { env, stdio: ['pipe', 'pipe', 'pipe'] });
  const errors = captureText(child.stderr, 8192);
  try {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new RunnerLost(`'${bin}' did not start in time`)), startLimitMs);
      child.once('error', (error) => reject(interpreterMissing(bin, error)));
      child.once('exit', () => reject(new RunnerLost(`'${bin}' ended at its start: ${errors().trim().slice(-500)}`)));
      child.stdout.once('data', () => resolve());
      for (const event of ['error', 'exit'] as const) child.once(event, () => clearTimeout(timer));
      child.stdout.once('data', () => clearTimeout(timer));
    });
  } catch (error) {
    child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
  child.on('error', () => {});
  child.stdin.on('error', () => {});
  // An idle interpreter is no reason for the worker to stay alive.
  child.unref();
  for (const stream of [child.stdin, child.stdout, child.stderr]) if ('unref' in stream) (stream as Socket).unref();
  return { child, folder, path };
}

/** One run over its own connection. When the signal fires the monitor is told to kill, and still reports the output. */
function exchange(socket: Socket, request: PythonRequest, signal: AbortSignal): Promise<PythonAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let timer: NodeJS.Timeout | undefined;
    const stop = () => {
      socket.write('k');
      timer = setTimeout(
        () => socket.destroy(new RunnerLost('the process did not end when it was killed')),
        killLimitMs,
      );
    };
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    };
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.once('error', (error) => {
      finish();
      reject(error instanceof RunnerLost ? error : new RunnerLost(`the python process was lost (${error.message})`));
    });
    socket.once('close', () => {
      finish();
      const answer = readFrame(Buffer.concat(chunks));
      if (answer === null) reject(new RunnerLost('the python process was lost'));
      else resolve(answer);
    });
    const body = Buffer.from(JSON.stringify(request));
    const head = Buffer.alloc(8);
    head.writeBigUInt64BE(BigInt(body.length));
    socket.write(head);
    socket.write(body);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

/** A monitor's frame; null when it is cut short. */
function readFrame(data: Buffer): PythonAnswer | null {
  const end = data.indexOf(10);
  if (end < 0) return null;
  const head: unknown = JSON.parse(data.toString('latin1', 0, end));
  if (typeof head !== 'object' || head === null || !('sizes' in head) || !Array.isArray(head.sizes)) return null;
  const [answer, stdout, stderr] = head.sizes.map(Number);
  if (answer === undefined || stdout === undefined || stderr === undefined) return null;
  const blobs = data.subarray(end + 1);
  if (blobs.length !== answer + stdout + stderr) return null;
  return {
    body: blobs.toString('utf8', 0, answer),
    stdout: blobs.toString('utf8', answer, answer + stdout),
    stderr: blobs.toString('utf8', answer + stdout),
    exit: 'exit' in head ? Number(head.exit) : null,
    signal: 'signal' in head ? Number(head.signal) : null,
    lost: 'lost' in head ? String(head.lost) : null,
  };
}

/** The same run in a fresh interpreter. Rejects with FieldProblem when it cannot be started. */
export async function runFresh(
  bin: string,
  environment: Readonly<Record<string, string>>,
  request: PythonRequest,
  signal: AbortSignal,
): Promise<PythonAnswer> {
  try {
    const end = await runChild({
      command: bin,
      args: [...interpreterArgs, 'once'],
      env: environment,
      cwd: undefined,
      maxOutputBytes: 64 * 1024,
      exchange: { request: JSON.stringify(request), maxAnswerBytes: 65 * 1024 * 1024 },
      signal,
    });
    const { answer, stdout, stderr, code } = end;
    return { body: answer, stdout, stderr, exit: code, signal: end.signal === null ? null : 9, lost: null };
  } catch (error) {
    throw interpreterMissing(bin, error);
  }
}
