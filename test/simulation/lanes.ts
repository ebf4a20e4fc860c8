/**
 * Many seeds on several processors: one process each, which takes every so manieth seed, tells of its failures itself and
 * of the rest at its end. A process that says nothing for too long hangs on its seed; it is killed, and that is a failure.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Fault, FaultBook, type FaultCounts } from './faults.ts';

/** What a lane tells: the seed it begins, or all it has to say at its end. */
export type Word =
  | { readonly kind: 'seed'; readonly seed: number }
  | { readonly kind: 'end'; readonly summary: Summary };

export interface Summary {
  readonly done: number;
  readonly failures: readonly { readonly seed: number; readonly invariant: string }[];
  readonly events: number;
  readonly virtualMs: number;
  readonly cpuSeconds: number;
  readonly faults: { readonly [Key in keyof FaultCounts]: readonly (readonly [Fault, number])[] };
}

export interface LanesOptions {
  readonly lanes: number;
  readonly first: number;
  readonly count: number;
  /** Options every lane gets as well. */
  readonly again: readonly string[];
  say(line: string): void;
}

/** A seed takes a fraction of a second, shrinking a failure some minutes on a slow machine. */
const SILENCE_MS = 300_000;

/** Rejects when a lane ends without a word. */
export async function runLanes(
  options: LanesOptions,
): Promise<Omit<Summary, 'faults'> & { readonly faults: FaultBook }> {
  const running = new Set<ChildProcess>();
  const stop = () => {
    for (const child of running) child.kill('SIGKILL');
  };
  process.once('exit', stop);
  try {
    const ends = await Promise.all(Array.from({ length: options.lanes }, (_, lane) => runLane(options, lane, running)));
    const faults = new FaultBook();
    for (const end of ends) faults.add(end.faults);
    const sum = (of: (end: Summary) => number) => ends.reduce((total, end) => total + of(end), 0);
    return {
      done: sum((end) => end.done),
      failures: ends.flatMap((end) => end.failures),
      events: sum((end) => end.events),
      virtualMs: sum((end) => end.virtualMs),
      cpuSeconds: sum((end) => end.cpuSeconds),
      faults,
    };
  } finally {
    process.off('exit', stop);
    stop();
  }
}

function runLane({ lanes, first, count, again, say }: LanesOptions, lane: number, running: Set<ChildProcess>) {
  const share = Math.ceil((count - lane) / lanes);
  const own = [
    '--seed',
    `${first + lane}`,
    '--seeds',
    `${share}`,
    '--stride',
    `${lanes}`,
    '--at',
    '1',
    '--lane',
    ...again,
  ];
  const child = fork(fileURLToPath(new URL('./main.ts', import.meta.url)), own, { execArgv: process.execArgv });
  running.add(child);
  return new Promise<Summary>((resolve, reject) => {
    let seed = first + lane;
    let summary: Summary | null = null;
    const hang = () => {
      say(`seed ${seed}: nothing was heard of it for ${SILENCE_MS / 1000} s, it hangs`);
      say(`replay: npm run sim -- --seed ${seed} ${again.join(' ')}`.trimEnd());
      child.kill('SIGKILL');
    };
    let timer = setTimeout(hang, SILENCE_MS);
    // Only main.ts of this very version speaks here.
    child.on('message', (word: Word) => {
      clearTimeout(timer);
      if (word.kind === 'end') {
        summary = word.summary;
        return;
      }
      seed = word.seed;
      timer = setTimeout(hang, SILENCE_MS);
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      running.delete(child);
      if (summary === null) reject(new Error(`the simulator ended with ${signal ?? code} at seed ${seed}`));
      else resolve(summary);
    });
  });
}
