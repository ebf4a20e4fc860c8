/**
 * Child processes that cannot outlive their try: each leads its own process group, the group is killed when the try
 * ends for whatever reason, and both output streams are cut at a cap instead of filling memory.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import { bindToWorker } from './lifeline.ts';

export interface ChildSpec {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
  /** Bytes kept of each output stream. */
  readonly maxOutputBytes: number;
  /** Text for standard input, and the cap of what is read from descriptor 3; without it both stay closed. */
  readonly exchange?: { readonly request: string; readonly maxAnswerBytes: number };
  readonly signal: AbortSignal;
}

export interface ChildEnd {
  /** Exit code; 128 + signal number is not computed here, `signal` says it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** What the child wrote to descriptor 3. */
  readonly answer: string;
}

/** The only variables of the worker's own environment that a child may see. */
const inherited = ['PATH', 'HOME', 'LANG', 'TMPDIR'];

/** The environment of language 11.3.1: a few variables of the worker, then the given ones. */
export function childEnvironment(
  base: Readonly<Record<string, string | undefined>>,
  ...more: readonly Readonly<Record<string, string>>[]
): Record<string, string> {
  const kept = inherited.flatMap((name): [string, string][] => (base[name] === undefined ? [] : [[name, base[name]]]));
  return Object.assign(Object.fromEntries(kept), ...more);
}

/** Runs a command to its end or to the abort of its signal; rejects only when it cannot be started. */
export async function runChild(spec: ChildSpec): Promise<ChildEnd> {
  const { exchange } = spec;
  const lifeline = exchange === undefined ? 3 : 4;
  const bound = bindToWorker(spec.command, spec.args, spec.env, lifeline, exchange === undefined ? [] : [3]);
  const child = spawn(bound.command, bound.args, {
    cwd: spec.cwd,
    env: { ...spec.env },
    detached: true,
    stdio: exchange === undefined ? ['ignore', 'pipe', 'pipe', 'pipe'] : ['pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
  });
  child.stdio[lifeline]?.on('error', () => {});
  const stdout = captureText(child.stdout, spec.maxOutputBytes);
  const stderr = captureText(child.stderr, spec.maxOutputBytes);
  const answer = captureText(exchange === undefined ? null : child.stdio[3], exchange?.maxAnswerBytes ?? 0);
  child.stdin?.on('error', () => {}).end(exchange?.request);
  const kill = () => killGroup(child);
  spec.signal.addEventListener('abort', kill, { once: true });
  if (spec.signal.aborted) kill();
  try {
    const { code, signal } = await exited(child);
    // Background jobs of the command die with it, so that the pipes close.
    kill();
    await drained(child);
    return { code, signal, stdout: stdout(), stderr: stderr(), answer: answer() };
  } finally {
    spec.signal.removeEventListener('abort', kill);
  }
}

/** Kills a detached child and everything in its process group; does nothing when they are gone. */
export function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    child.kill('SIGKILL');
  }
}

function exited(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
}

/** Waits until both pipes are at their end; a process that left the group may hold them, so not for ever. */
async function drained(child: ChildProcess): Promise<void> {
  const streams = child.stdio.slice(1).filter((stream) => stream != null && !stream.closed);
  if (streams.length === 0) return;
  const closed = Promise.all(streams.map((stream) => new Promise((resolve) => stream?.once('close', resolve))));
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise((resolve) => {
    timer = setTimeout(resolve, 500);
  });
  await Promise.race([closed, patience]);
  clearTimeout(timer);
  for (const stream of streams) stream?.destroy();
}

/** Collects a stream up to a cap, in bytes, and goes on reading so that the writer never blocks. */
export function captureText(stream: unknown, maxBytes: number): () => string {
  if (!(stream instanceof Readable)) return () => '';
  const chunks: Buffer[] = [];
  let size = 0;
  stream.on('error', () => {});
  stream.on('data', (chunk: Buffer) => {
    if (size < maxBytes) chunks.push(chunk.subarray(0, maxBytes - size));
    size += chunk.length;
  });
  return () => Buffer.concat(chunks).toString('utf8');
}
