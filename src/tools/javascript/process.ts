/**
 * The processes javascript tasks run in: one run each, booted ahead of need so that a run does not wait for node to
 * start. A spare that nobody takes ends after a while; one that is lost is simply not used.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { JsonMap } from '../../../machines/json.ts';
import { captureText, killGroup } from '../child.ts';
import { bindToWorker } from '../lifeline.ts';

export interface JavascriptRequest {
  readonly code: string;
  readonly input: JsonMap;
  readonly context: JsonMap | null;
  readonly libs: readonly (readonly [string, string])[];
  readonly env: Readonly<Record<string, string>>;
}

export interface JavascriptEnd {
  /** JSON text of the runner; empty when it ended without an answer. */
  readonly body: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly exit: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface JavascriptProcesses {
  /** Runs a request in a process of its own, which is killed when the signal fires. */
  run(request: JavascriptRequest, signal: AbortSignal): Promise<JavascriptEnd>;
  close(): Promise<void>;
}

export interface ProcessOptions {
  readonly memoryMb: number;
  readonly allowedModules: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Processes kept ready once the first task has run. */
  readonly spares: number;
}

const runner = fileURLToPath(new URL('./runner.mjs', import.meta.url));
const maxStreamBytes = 64 * 1024;
const maxAnswerBytes = 65 * 1024 * 1024;
const spareLifeMs = 60_000;

interface Ready {
  readonly child: ChildProcess;
  readonly channel: Duplex;
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly answer: () => string;
  readonly end: Promise<{ exit: number | null; signal: NodeJS.Signals | null }>;
}

/** Nothing is started before the first run. */
export function createProcesses(options: ProcessOptions): JavascriptProcesses {
  const args = nodeArguments(options);
  const spares: Ready[] = [];
  const alive = new Set<Ready>();
  let closed = false;
  let idle: NodeJS.Timeout | undefined;

  const boot = (): Ready => {
    const ready = start(args, options.environment);
    alive.add(ready);
    void ready.end.then(() => {
      alive.delete(ready);
      const index = spares.indexOf(ready);
      if (index >= 0) spares.splice(index, 1);
    });
    return ready;
  };

  const dropSpares = () => {
    for (const spare of spares.splice(0)) killGroup(spare.child);
  };

  const refill = () => {
    if (closed) return;
    while (spares.length < options.spares) spares.push(boot());
    clearTimeout(idle);
    idle = setTimeout(dropSpares, spareLifeMs);
    idle.unref();
  };

  return {
    async run(request, signal) {
      if (closed) throw new Error('the javascript tool is closed');
      const ready = spares.shift() ?? boot();
      const kill = () => killGroup(ready.child);
      signal.addEventListener('abort', kill, { once: true });
      if (signal.aborted) kill();
      try {
        ready.child.ref();
        send(ready.channel, request);
        const end = await ready.end;
        return { ...end, body: ready.answer(), stdout: ready.stdout(), stderr: ready.stderr() };
      } finally {
        signal.removeEventListener('abort', kill);
        // After the run, so that booting does not compete with it.
        refill();
      }
    },
    async close() {
      closed = true;
      clearTimeout(idle);
      const ends = [...alive].map((ready) => {
        ready.child.ref();
        killGroup(ready.child);
        return ready.end;
      });
      await Promise.all(ends);
    },
  };
}

function start(args: readonly string[], env: Readonly<Record<string, string>>): Ready {
  const bound = bindToWorker(process.execPath, args, env, 4, [3]);
  const child = spawn(bound.command, bound.args, {
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
  });
  child.stdio[4]?.on('error', () => {});
  // The watcher of the lifeline ends with the process it watches.
  child.once('exit', () => killGroup(child));
  // With 'pipe' at index 3 node makes a socket there.
  const channel = child.stdio[3] as Duplex;
  const ready = {
    child,
    channel,
    stdout: captureText(child.stdout, maxStreamBytes),
    stderr: captureText(child.stderr, maxStreamBytes),
    answer: captureText(channel, maxAnswerBytes),
    end: new Promise<{ exit: number | null; signal: NodeJS.Signals | null }>((resolve) => {
      child.once('error', () => resolve({ exit: null, signal: null }));
      child.once('close', (exit, signal) => resolve({ exit, signal }));
    }),
  };
  child.unref();
  for (const stream of child.stdio) if (stream != null && 'unref' in stream) (stream as { unref(): void }).unref();
  return ready;
}

function send(channel: Duplex, request: JavascriptRequest): void {
  const body = Buffer.from(JSON.stringify(request));
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  channel.write(head);
  channel.write(body);
}

function nodeArguments({ memoryMb, allowedModules }: ProcessOptions): string[] {
  const readable = [runner, ...new Set(allowedModules.flatMap(packageFolder))];
  return [
    '--permission',
    ...readable.map((path) => `--allow-fs-read=${path}`),
    `--max-old-space-size=${memoryMb}`,
    '--no-warnings',
    '--disable-proto=delete',
    runner,
  ];
}

/** The node_modules folder an allowed package lies in; its own dependencies are there too. */
function packageFolder(name: string): string[] {
  try {
    const path = dirname(createRequire(import.meta.url).resolve(name));
    const at = path.lastIndexOf(`${join('/', 'node_modules')}`);
    return at < 0 ? [] : [join(path.slice(0, at), 'node_modules', '*')];
  } catch {
    return [];
  }
}
