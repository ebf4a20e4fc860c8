/**
 * The thread for large bodies, from its first use until nobody needs it any more: one body after the other, none of which
 * can cost more than itself. One that takes too long or too much memory loses the thread, and is refused.
 */
import { Worker } from 'node:worker_threads';
import { UnavailableError } from '../../actors/ports.ts';
import { RequestError } from '../errors.ts';
import type { BodyRules } from './body-rules.ts';
import type { BodyReply, BodyTask } from './body-thread.ts';

const THREAD_MEMORY_MB = 1024;
/** The thread ends when nobody needed it for so long: what the last body left in its memory goes with it. */
const IDLE_MS = 10_000;

export interface ReadingThread {
  /** Takes the bytes away. Throws RequestError `payload_too_large` or `request_timeout`, UnavailableError once closed. */
  read(bytes: Buffer, rules: BodyRules): Promise<BodyReply>;
  /** What waits is rejected. */
  close(): Promise<void>;
}

interface Job extends BodyTask {
  readonly resolve: (reply: BodyReply) => void;
  readonly reject: (error: unknown) => void;
}

export function createReadingThread(timeLimitMs: number): ReadingThread {
  const waiting: Job[] = [];
  let worker: Worker | null = null;
  let current: { readonly job: Job; readonly timer: NodeJS.Timeout } | null = null;
  let idle: NodeJS.Timeout | undefined;
  let closed = false;

  function next(): void {
    const job = current === null ? waiting.shift() : undefined;
    if (job === undefined) return;
    clearTimeout(idle);
    worker ??= start();
    const timer = setTimeout(
      () => giveUp(new RequestError('request_timeout', 'The body took too long to read')),
      timeLimitMs,
    );
    current = { job, timer };
    const { bytes, rules } = job;
    // A process that waits for a reading must not end before it.
    worker.ref();
    worker.postMessage({ bytes, rules } satisfies BodyTask, [bytes.buffer]);
  }

  function start(): Worker {
    const made = new Worker(new URL('./body-thread.ts', import.meta.url), {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: THREAD_MEMORY_MB },
    });
    made.on('message', (reply: BodyReply) => settleWith((job) => job.resolve(reply)));
    made.on('error', (error: Error & { readonly code?: string }) => {
      if (made === worker) giveUp(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? tooManyValues() : error);
    });
    return made;
  }

  function giveUp(reason: Error): void {
    drop();
    settleWith((job) => job.reject(reason));
  }

  function drop(): void {
    const lost = worker;
    worker = null;
    void lost?.terminate();
  }

  function settleWith(answer: (job: Job) => void): void {
    if (current === null) return;
    clearTimeout(current.timer);
    const { job } = current;
    current = null;
    worker?.unref();
    idle = setTimeout(drop, IDLE_MS);
    idle.unref();
    answer(job);
    next();
  }

  return {
    read(bytes, rules) {
      return new Promise((resolve, reject) => {
        if (closed) return reject(new UnavailableError('pool_saturated'));
        waiting.push({ bytes: ownBytes(bytes), rules, resolve, reject });
        return next();
      });
    },

    async close() {
      closed = true;
      clearTimeout(idle);
      for (const job of waiting.splice(0)) job.reject(new UnavailableError('pool_saturated'));
      settleWith((job) => job.reject(new UnavailableError('pool_saturated')));
      clearTimeout(idle);
      await worker?.terminate();
      worker = null;
    },
  };
}

/** Bytes that can be given away: a small Buffer may share its memory with others. */
function ownBytes(bytes: Buffer): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = bytes;
  const isAlone = buffer instanceof ArrayBuffer && byteOffset === 0 && buffer.byteLength === byteLength;
  return isAlone ? new Uint8Array(buffer) : new Uint8Array(bytes);
}

export function tooManyValues(): RequestError {
  return new RequestError('payload_too_large', 'The body holds more values than this server takes at once');
}
