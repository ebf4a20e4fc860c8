/**
 * Simulates off the event loop: one thread, made when it is first needed, one simulation at a time. A simulation that takes
 * too long or too much memory loses the thread, and only itself: it is answered as one that was stopped.
 */
import { AsyncResource } from 'node:async_hooks';
import { Worker } from 'node:worker_threads';
import { DomainError, type RefusalCode } from '../../actors/errors.ts';
import { UnavailableError } from '../../actors/ports.ts';
import type { CatalogService, SimulationService } from '../../actors/services.ts';
import type { DocumentAnswer, DocumentQuery, SimulationRequest } from '../../machines/simulation.ts';
import type { Simulated } from '../wire/simulate.ts';
import type { FromThread, ToThread } from './simulation-thread.ts';

export interface SimulationServiceParts {
  readonly catalog: Pick<CatalogService, 'executable'>;
  /** A simulation stops by itself after this time, and loses its thread after twice as long. Milliseconds. */
  readonly wallMs?: number;
  readonly waitingMax?: number;
}

export interface RunningSimulationService extends SimulationService {
  /** Ends the thread; what waits for it is rejected. */
  close(): Promise<void>;
}

interface Job {
  readonly request: SimulationRequest;
  /** Looks into the catalog with the rights of who asked for the simulation, whoever made the thread. */
  readonly executable: CatalogService['executable'];
  readonly resolve: (text: string) => void;
  readonly reject: (error: unknown) => void;
}

const START_WITHIN_MS = 30_000;
const MEMORY_MB = 512;
const ANSWER_MAX = 32 * 1024 * 1024;

export function createSimulationService(parts: SimulationServiceParts): RunningSimulationService {
  const { catalog, wallMs = 5_000, waitingMax = 16 } = parts;
  const waiting: Job[] = [];
  let thread: Worker | null = null;
  let current: { readonly job: Job; timer: NodeJS.Timeout } | null = null;
  let closed = false;

  function next(): void {
    const job = current === null ? waiting.shift() : undefined;
    if (job === undefined) return;
    thread ??= start();
    current = { job, timer: endsAfter(START_WITHIN_MS) };
    thread.ref();
    tell(thread, { task: { request: job.request, wallMs, answerMax: ANSWER_MAX } });
  }

  function endsAfter(ms: number): NodeJS.Timeout {
    return setTimeout(() => giveUp('The simulation was stopped: it took too long'), ms);
  }

  function start(): Worker {
    const worker = new Worker(new URL('./simulation-thread.ts', import.meta.url), {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    });
    worker.on('message', (message: FromThread) => {
      if (worker === thread) hear(worker, message);
    });
    // Out of memory, or a defect: the playbook is at fault as far as anybody can tell.
    worker.on('error', () => {
      if (worker === thread) giveUp('The simulation was stopped: it needs too much memory');
    });
    return worker;
  }

  function hear(worker: Worker, message: FromThread): void {
    if ('begun' in message) begin();
    else if ('ask' in message)
      void look(message.ask, current?.job.executable ?? catalog.executable).then((told) =>
        tell(worker, { told, question: message.question }),
      );
    else if ('answer' in message) settle((job) => job.resolve(message.answer));
    else settle((job) => job.reject(refusalOf(message.refused)));
  }

  /** A busy machine may take long to load the thread, which is not the fault of the playbook. */
  function begin(): void {
    if (current === null) return;
    clearTimeout(current.timer);
    current.timer = endsAfter(2 * wallMs);
  }

  async function look(query: DocumentQuery, executable: Job['executable']): Promise<DocumentAnswer> {
    try {
      const { entry } = await executable({ ...query, purpose: 'view' });
      const { content, path, version, catalogId } = entry;
      return { found: { content, path, version, catalogId } };
    } catch (error) {
      if (error instanceof DomainError) return { refused: { code: error.code, message: error.message } };
      return { refused: { code: 'db_unavailable', message: 'the catalog cannot be read' } };
    }
  }

  function giveUp(reason: string): void {
    const lost = thread;
    thread = null;
    void lost?.terminate();
    settle((job) => job.resolve(JSON.stringify(stopped(reason))));
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
    simulate: (request) =>
      new Promise((resolve, reject) => {
        if (closed || waiting.length >= waitingMax) return reject(new UnavailableError('pool_saturated'));
        waiting.push({ request, executable: AsyncResource.bind(catalog.executable), resolve, reject });
        next();
      }),
    async close() {
      closed = true;
      for (const job of waiting.splice(0)) job.reject(new UnavailableError());
      settle((job) => job.reject(new UnavailableError()));
      await thread?.terminate();
      thread = null;
    },
  };
}

function tell(thread: Worker, message: ToThread): void {
  thread.postMessage(message);
}

function refusalOf({ code, message, data }: Extract<FromThread, { refused: unknown }>['refused']): DomainError {
  // The thread made it of a DomainError of its own.
  return new DomainError(code as RefusalCode, message, data);
}

/** A simulation of which nothing is left. */
function stopped(error: string): Simulated {
  const graph = { path: null, version: null, entry: '', mermaid: '', nodes: [], edges: [], layout: {} };
  const none = { events: [], tries: [], unmatched: [], unused_outcomes: [], diagnostics: [], children: [] };
  return { status: 'LIMIT', result: null, error, virtual_ms: 0, wall_ms: 0, ...none, graph };
}
