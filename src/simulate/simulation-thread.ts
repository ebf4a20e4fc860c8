/**
 * The thread that simulates (simulation-service.ts): one request in, one answer out as text, and questions in between for
 * the playbooks of children. A playbook that never comes to rest keeps this thread busy and nothing else.
 */
import { parentPort } from 'node:worker_threads';
import { DomainError } from '../../actors/errors.ts';
import type { Json } from '../../machines/json.ts';
import type { DocumentAnswer, DocumentQuery, SimulationRequest } from '../../machines/simulation.ts';
import { simulatedToWire } from './answer.ts';
import { simulate } from './simulator.ts';

export interface SimulationTask {
  readonly request: SimulationRequest;
  /** After so many milliseconds of real time it stops by itself, with what it has. */
  readonly wallMs: number;
  /** Longest answer, in UTF-16 units. */
  readonly answerMax: number;
}

export type ToThread = { readonly task: SimulationTask } | { readonly told: DocumentAnswer; readonly question: number };

export type FromThread =
  | { readonly begun: true }
  | { readonly ask: DocumentQuery; readonly question: number }
  | { readonly answer: string }
  | { readonly refused: { readonly code: string; readonly message: string; readonly data: { [key: string]: Json } } };

const TOO_LARGE = 'The simulation was stopped: its answer is too large';

/** Questions under way by number: several children may be started at once. */
const asked = new Map<number, (answer: DocumentAnswer) => void>();
let questions = 0;

parentPort?.on('message', (message: ToThread) => {
  if ('task' in message) {
    parentPort?.postMessage({ begun: true } satisfies FromThread);
    return void answer(message.task).then(say, refuse);
  }
  asked.get(message.question)?.(message.told);
  asked.delete(message.question);
});

async function answer({ request, wallMs, answerMax }: SimulationTask): Promise<string> {
  const told = simulatedToWire(await simulate(request, ask, { wallMs }));
  const text = JSON.stringify(told);
  if (text.length <= answerMax) return text;
  const nothing = { events: [], tries: [], unmatched: [], children: [] };
  return JSON.stringify({ ...told, status: 'LIMIT', result: null, error: TOO_LARGE, ...nothing });
}

function ask(query: DocumentQuery): Promise<DocumentAnswer> {
  questions += 1;
  const question = questions;
  const { promise, resolve } = Promise.withResolvers<DocumentAnswer>();
  asked.set(question, resolve);
  parentPort?.postMessage({ ask: query, question } satisfies FromThread);
  return promise;
}

function say(text: string): void {
  parentPort?.postMessage({ answer: text } satisfies FromThread);
}

function refuse(error: unknown): void {
  // A defect ends the thread; whoever waits is told by its end.
  if (!(error instanceof DomainError)) throw error;
  const { code, message, data } = error;
  parentPort?.postMessage({ refused: { code, message, data: { ...data } } } satisfies FromThread);
}
