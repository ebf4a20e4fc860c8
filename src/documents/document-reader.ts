/**
 * Reads catalog documents without holding up the process. Small texts are read on the spot, which is faster than any
 * hand-over; large ones, and ones that grow by aliases, go to a thread that is made when it is first needed. A text that
 * takes too long or too much memory loses the thread, and only itself: it is answered as a document that cannot be read.
 */
import { Worker } from 'node:worker_threads';
import { UnavailableError } from '../../actors/ports.ts';
import {
  type CatalogReading,
  type ReadingOptions,
  readCatalogDocument,
} from '../../machines/playbook/catalog-document.ts';
import type { ReadingTask } from './document-thread.ts';

export interface DocumentReader {
  /** Never rejects for what the text is. Throws UnavailableError when too many large texts wait already. */
  read(text: string, options: ReadingOptions): Promise<CatalogReading>;
  /** Ends the thread; what waits for it is rejected. */
  close(): Promise<void>;
}

export interface DocumentReaderOptions {
  /** Longer texts go to the thread. */
  readonly inlineMaxChars?: number;
  readonly timeLimitMs?: number;
  readonly waitingMax?: number;
}

const ALIASES_INLINE_MAX = 50;
const MEMORY_MB = 512;

interface Job extends ReadingTask {
  readonly resolve: (reading: CatalogReading) => void;
  readonly reject: (error: unknown) => void;
}

export function createDocumentReader(options: DocumentReaderOptions = {}): DocumentReader {
  const { inlineMaxChars = 64 * 1024, timeLimitMs = 10_000, waitingMax = 64 } = options;
  const waiting: Job[] = [];
  let thread: Worker | null = null;
  let current: { readonly job: Job; readonly timer: NodeJS.Timeout } | null = null;
  let closed = false;

  function next(): void {
    const job = current === null ? waiting.shift() : undefined;
    if (job === undefined) return;
    thread ??= start();
    const timer = setTimeout(() => giveUp('the document takes too long to read'), timeLimitMs);
    current = { job, timer };
    // A process that waits for a reading must not end before it.
    thread.ref();
    thread.postMessage({ text: job.text, options: job.options } satisfies ReadingTask);
  }

  function start(): Worker {
    const worker = new Worker(new URL('./document-thread.ts', import.meta.url), {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    });
    worker.on('message', (reading: CatalogReading) => settle((job) => job.resolve(reading)));
    // Out of memory, or a defect of the reader: the text is at fault as far as anybody can tell.
    worker.on('error', () => {
      if (worker === thread) giveUp('the document cannot be read');
    });
    return worker;
  }

  function giveUp(reason: string): void {
    const lost = thread;
    thread = null;
    void lost?.terminate();
    settle((job) => job.resolve(unreadable(reason)));
  }

  function settle(answer: (job: Job) => void): void {
    if (current === null) return;
    clearTimeout(current.timer);
    const { job } = current;
    current = null;
    thread?.unref();
    answer(job);
    next();
  }

  return {
    read(text, readingOptions) {
      if (text.length <= inlineMaxChars && !growsByAliases(text)) {
        return Promise.resolve(readCatalogDocument(text, readingOptions));
      }
      return new Promise((resolve, reject) => {
        if (closed || waiting.length >= waitingMax) return reject(new UnavailableError('pool_saturated'));
        waiting.push({ text, options: readingOptions, resolve, reject });
        next();
      });
    },
    async close() {
      closed = true;
      for (const job of waiting.splice(0)) job.reject(new UnavailableError());
      settle((job) => job.reject(new UnavailableError()));
      await thread?.terminate();
      thread = null;
    },
  };
}

function growsByAliases(text: string): boolean {
  let found = 0;
  for (const _ of text.matchAll(/[\s[,]\*[\w-]/g)) {
    found += 1;
    if (found > ALIASES_INLINE_MAX) return true;
  }
  return false;
}

function unreadable(reason: string): CatalogReading {
  const place = { path: '', line: 1, column: 1, endLine: 1, endColumn: 1 };
  const message = `Document: ${reason} (line 1)`;
  const error = { severity: 'error', code: 'yaml_syntax', message, step: null, task: null, ...place } as const;
  return { ok: false, errors: [error], warnings: [], path: null, kind: null };
}
